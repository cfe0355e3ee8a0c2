package syntax

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// Pos is a place in a file: line and column count from 1, columns in characters. The
// zero Pos means the file as a whole.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Before reports whether p comes before q in the file.
func (p Pos) Before(q Pos) bool {
	return p.Line < q.Line || p.Line == q.Line && p.Column < q.Column
}

// Range is a stretch of a file; End is the place just after it, or zero when unknown.
type Range struct{ Start, End Pos }

// markColumns is the distance, in columns, of the marks on a long line.
const markColumns = 256

// source is the text of a file with the beginnings of its lines. A long line also has
// the offset of every 256th column, so that finding a place costs the same everywhere:
// a file of one line must not make the compiler slow.
type source struct {
	text  string
	lines []int
	marks [][]int // by line; marks[line][k] is the offset of column 1 + 256k
}

func newSource(text string) *source {
	lines := strings.Count(text, "\n") + 1
	s := &source{text: text, lines: make([]int, 0, lines), marks: make([][]int, 0, lines)}
	start, column := 0, 0
	if strings.HasPrefix(text, "\ufeff") {
		start = len("\ufeff")
	}
	begin := func(at int) {
		s.lines, s.marks, column = append(s.lines, at), append(s.marks, nil), 0
	}
	begin(start)
	for i := start; i < len(text); {
		if size := breakSize(text[i:]); size > 0 {
			i += size
			begin(i)
			continue
		}
		if last := len(s.marks) - 1; column > 0 && column%markColumns == 0 {
			if s.marks[last] == nil {
				s.marks[last] = []int{s.lines[last]}
			}
			s.marks[last] = append(s.marks[last], i)
		}
		size := 1
		if text[i] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		i += size
		column++
	}
	return s
}

// breakSize is the length of the line break that text starts with, or 0. YAML knows
// more of them than the newline, and counts lines by all of them.
func breakSize(text string) int {
	if text == "" || text[0] >= ' ' && text[0] < utf8.RuneSelf {
		return 0
	}
	for _, b := range []string{"\r\n", "\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if strings.HasPrefix(text, b) {
			return len(b)
		}
	}
	return 0
}

// offset is where p is in the text; a place outside the text is moved to its edge.
func (s *source) offset(p Pos) int {
	if p.Line < 1 {
		return 0
	}
	if p.Line > len(s.lines) {
		return len(s.text)
	}
	at, column := s.lines[p.Line-1], 1
	if marks := s.marks[p.Line-1]; marks != nil && p.Column > 0 {
		k := min((p.Column-1)/markColumns, len(marks)-1)
		at, column = marks[k], 1+k*markColumns
	}
	for ; column < p.Column && at < len(s.text) && breakSize(s.text[at:]) == 0; column++ {
		_, size := utf8.DecodeRuneInString(s.text[at:])
		at += size
	}
	return at
}

// pos is the place of an offset.
func (s *source) pos(offset int) Pos {
	offset = min(max(offset, 0), len(s.text))
	line := sort.Search(len(s.lines), func(i int) bool { return s.lines[i] > offset })
	if line == 0 {
		return Pos{1, 1}
	}
	from, column := s.lines[line-1], 1
	if marks := s.marks[line-1]; marks != nil {
		k := sort.Search(len(marks), func(i int) bool { return marks[i] > offset }) - 1
		from, column = marks[k], 1+k*markColumns
	}
	return Pos{line, column + utf8.RuneCountInString(s.text[from:offset])}
}

// Lines cuts the text of a file into its lines, without their breaks, the way positions
// count them: Lines(text)[0] is line 1.
func Lines(text []byte) []string {
	s := newSource(string(text))
	out := make([]string, len(s.lines))
	for i, start := range s.lines {
		end := len(s.text)
		if i+1 < len(s.lines) {
			end = s.lines[i+1]
		}
		out[i] = strings.TrimRight(s.text[start:end], "\r\n\u0085\u2028\u2029")
	}
	return out
}

// tracer walks a scalar's value and its source text side by side, so that a place in
// the value has a place in the file. White space is where the two differ (folding,
// indentation), so it is skipped on both sides; the other characters come in the same
// order in both.
type tracer struct {
	src   *source
	at    int // offset in the source
	style Style
}

// start skips what stands before the first character of the value: anchor, tag, quote
// or the header of a block scalar.
func (t *tracer) start() {
	for t.at < len(t.src.text) && (t.src.text[t.at] == '&' || t.src.text[t.at] == '!') {
		for t.at < len(t.src.text) && !blank(rune(t.src.text[t.at])) {
			t.at++
		}
		t.skipBlank()
	}
	switch t.style {
	case StyleSingle, StyleDouble:
		t.at = min(t.at+1, len(t.src.text))
	case StyleBlock:
		for t.at < len(t.src.text) && breakSize(t.src.text[t.at:]) == 0 {
			t.at++
		}
	}
}

func blank(r rune) bool {
	switch r {
	case ' ', '\t', '\n', '\r', '\v', '\f', 0x85, 0xA0, 0x2028, 0x2029:
		return true
	}
	return false
}

// peek reads one character of the value from the source, with the size of its writing.
func (t *tracer) peek() (r rune, size int) {
	rest := t.src.text[t.at:]
	if t.style == StyleDouble && rest != "" && rest[0] == '\\' {
		return escape(rest)
	}
	if t.style == StyleSingle && strings.HasPrefix(rest, "''") {
		return '\'', 2
	}
	return utf8.DecodeRuneInString(rest)
}

// escape reads an escape sequence of a double-quoted scalar. A character that counts as
// white space comes out as a space.
func escape(text string) (r rune, size int) {
	if len(text) < 2 {
		return '\\', 1
	}
	if n := breakSize(text[1:]); n > 0 {
		return ' ', 1 + n
	}
	digits := 0
	switch text[1] {
	case 'n', 't', 'r', 'v', 'f', ' ', '\t', '_', 'N', 'L', 'P':
		return ' ', 2
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	default:
		_, n := utf8.DecodeRuneInString(text[1:])
		return '?', 1 + n
	}
	end := min(2+digits, len(text))
	for _, c := range text[2:end] {
		r = r<<4 | rune(strings.IndexRune("0123456789abcdef", c|0x20))
	}
	return r, end
}

func (t *tracer) skipBlank() {
	for t.at < len(t.src.text) {
		if c := t.src.text[t.at]; c == ' ' || c == '\n' {
			t.at++
			continue
		}
		r, size := t.peek()
		if !blank(r) {
			return
		}
		t.at += size
	}
}

// pass moves over the part of the source that writes value.
func (t *tracer) pass(value string) {
	if t.style != StyleSingle && t.style != StyleDouble {
		t.passWords(value)
		return
	}
	for _, r := range value {
		if blank(r) {
			continue
		}
		t.skipBlank()
		if t.at < len(t.src.text) {
			_, size := t.peek()
			t.at += size
		}
	}
}

// passWords is pass where nothing is escaped: a word of the value is written as it is.
func (t *tracer) passWords(value string) {
	for value != "" {
		n := strings.IndexFunc(value, blank)
		switch {
		case n < 0:
			n = len(value)
		case n == 0:
			_, size := utf8.DecodeRuneInString(value)
			value = value[size:]
			continue
		}
		t.skipBlank()
		t.at = min(t.at+n, len(t.src.text))
		value = value[n:]
	}
}

// Place is the stretch of the file that writes value[start:end] of a scalar. Of other
// nodes, and of places outside the value, it is the whole node. Places asked for in
// ascending order cost one walk over the value together.
func (n *Node) Place(start, end int) Range {
	if n.Kind != Scalar || n.src == nil || start < 0 || end < start || end > len(n.Value) {
		return n.Range
	}
	if n.trace == nil || n.traced > start {
		n.trace, n.traced = n.tracer(), 0
	}
	t := n.trace
	t.pass(n.Value[n.traced:start])
	n.traced = start
	if start < end {
		t.skipBlank()
	}
	from, ahead := n.src.pos(t.at), *t
	ahead.pass(n.Value[start:end])
	return Range{from, n.src.pos(ahead.at)}
}

// tracer is a tracer at the beginning of the scalar's value.
func (n *Node) tracer() *tracer {
	t := &tracer{src: n.src, at: n.src.offset(n.Start), style: n.Style}
	t.start()
	return t
}

// scalarEnd is the place after a scalar, its closing quote included.
func (n *Node) scalarEnd() Pos {
	t := n.tracer()
	t.pass(n.Value)
	if n.Style == StyleSingle || n.Style == StyleDouble {
		t.skipBlank()
		t.at++
	}
	return n.src.pos(t.at)
}
