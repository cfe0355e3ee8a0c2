package logs

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
)

// span is a chunk without its bytes: what an index knows of it.
type span struct {
	sequence uint64
	epoch    uint64
	at       int64 // unix microseconds
	checksum uint64
	dropped  uint64
	mark     string
	step     uint32
	length   uint32
	newlines uint32
	stream   uint8
	ended    bool // the last byte is a line feed
	style    ansi.Delta
}

// measure counts what the tally needs from the bytes.
func (s *span) measure(text []byte) {
	s.length = uint32(len(text))
	s.newlines = uint32(bytes.Count(text, []byte{'\n'}))
	s.ended = len(text) > 0 && text[len(text)-1] == '\n'
}

// cursor is where a log stands between two spans. A line ends at a line feed, where another
// step goes on, and at a mark; a mark is a line of its own.
type cursor struct {
	offset int64 // bytes so far
	lines  int64 // lines begun so far
	step   uint32
	open   bool // the last line has no end yet
	style  ansi.Style
}

// enter moves to the step of the next span. Another step is another process: it continues
// no line and inherits no colour.
func (c *cursor) enter(step uint32) {
	if c.step != step {
		c.step, c.open, c.style = step, false, ansi.Style{}
	}
}

func (c *cursor) advance(s *span) {
	c.enter(s.step)
	if s.mark != "" && gapMark(s.mark) {
		c.open = false
		c.lines++
	}
	if s.length > 0 {
		c.lines += int64(s.newlines)
		if !s.ended {
			c.lines++
		}
		if c.open {
			c.lines--
		}
		c.open = !s.ended
		c.offset += int64(s.length)
		c.style = c.style.Then(s.style)
	}
	if s.mark != "" && !gapMark(s.mark) {
		c.open = false
		c.lines++
	}
}

// StepRange is where the output of one step lies. Other steps may stand in between: the
// runner's own words do.
type StepRange struct {
	Step                uint32
	From, To            int64 // offsets of the first byte and after the last
	Bytes               int64
	FirstLine, LastLine int64 // counted from 1
}

// Mark is a place where a log is not what was printed.
type Mark struct {
	Line, Offset int64
	Step         uint32
	Text         string
	Dropped      uint64
}

// tally sums up a log while spans are added at its end.
type tally struct {
	cursor
	steps     []StepRange
	marks     []Mark
	gaps      int
	truncated bool
}

func (t *tally) advance(s *span) {
	before := t.cursor
	t.cursor.advance(s)
	if t.lines == before.lines && s.length == 0 {
		return
	}
	// The first line that the span touches: the open one, if it goes on with it.
	first := before.lines + 1
	if before.open && before.step == s.step && s.length > 0 && (s.mark == "" || !gapMark(s.mark)) {
		first = before.lines
	}
	i := slices.IndexFunc(t.steps, func(r StepRange) bool { return r.Step == s.step })
	if i < 0 {
		i = len(t.steps)
		t.steps = append(t.steps, StepRange{Step: s.step, From: before.offset, FirstLine: first})
	}
	r := &t.steps[i]
	r.To, r.Bytes, r.LastLine = t.offset, r.Bytes+int64(s.length), t.lines
	if s.mark == "" {
		return
	}
	line, offset := t.lines, t.offset
	if gapMark(s.mark) {
		t.gaps++
		line, offset = before.lines+1, before.offset
	} else if strings.HasPrefix(s.mark, MarkTruncated) {
		t.truncated = true
	}
	if len(t.marks) < marksMax {
		t.marks = append(t.marks, Mark{Line: line, Offset: offset, Step: s.step, Text: s.mark, Dropped: s.dropped})
	}
}

// Totals is what is known of a log as a whole.
type Totals struct {
	Bytes, Lines int64
	// Sealed: nothing will be added any more.
	Sealed    bool
	Gaps      int
	Truncated bool
	Steps     []StepRange // in order of first appearance
	Marks     []Mark      // the first thousand
}

// totals copies, so that the caller may keep it while the log grows.
func (t *tally) totals(sealed bool) Totals {
	return Totals{
		Bytes: t.offset, Lines: t.lines, Sealed: sealed, Gaps: t.gaps, Truncated: t.truncated,
		Steps: slices.Clone(t.steps), Marks: slices.Clone(t.marks),
	}
}
