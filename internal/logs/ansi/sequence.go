package ansi

import "bytes"

const (
	escape = 0x1b
	bell   = 0x07
	// sequenceBytesMax bounds what is held back in the hope that a sequence ends: longer ones
	// (pictures, mostly) lose only their first byte and show as text.
	sequenceBytesMax = 4 << 10
	// parametersMax bounds the parameters of one SGR sequence; no real one has more than ten.
	parametersMax = 32
)

// sequence is one escape sequence at the start of some bytes.
type sequence struct {
	length     int
	complete   bool   // false: the bytes ended before the sequence did
	parameters []byte // of an SGR sequence, else nil
	sgr        bool
}

// parse reads the sequence that begins at b[0], which is an escape byte. Malformed ones end
// where the first byte stands that cannot belong to them.
func parse(b []byte) sequence {
	if len(b) < 2 {
		return sequence{length: 1}
	}
	switch c := b[1]; {
	case c == '[':
		return parseControl(b)
	case c == ']', c == 'P', c == 'X', c == '^', c == '_':
		return parseString(b)
	case c >= 0x20 && c <= 0x2f: // character sets and the like
		i := 2
		for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
			i++
		}
		if i == len(b) {
			return sequence{length: i}
		}
		if b[i] >= 0x30 && b[i] <= 0x7e {
			i++
		}
		return sequence{length: i, complete: true}
	case c >= 0x30 && c <= 0x7e:
		return sequence{length: 2, complete: true}
	}
	return sequence{length: 1, complete: true}
}

func parseControl(b []byte) sequence {
	i := 2
	for i < len(b) && b[i] >= 0x30 && b[i] <= 0x3f {
		i++
	}
	end := i
	for i < len(b) && b[i] >= 0x20 && b[i] <= 0x2f {
		i++
	}
	if i == len(b) {
		return sequence{length: i}
	}
	if b[i] < 0x40 || b[i] > 0x7e {
		return sequence{length: i, complete: true}
	}
	// A private marker ("<", "=", ">", "?") means something else than colours.
	plain := end == i && !bytes.ContainsAny(b[2:end], "<=>?")
	return sequence{length: i + 1, complete: true, sgr: b[i] == 'm' && plain, parameters: b[2:end]}
}

// parseString reads an operating system command or another string sequence: up to BEL or
// ST. A line feed ends it too, so that a forgotten terminator hides one line at most.
func parseString(b []byte) sequence {
	for i := 2; i < len(b); i++ {
		switch b[i] {
		case bell:
			return sequence{length: i + 1, complete: true}
		case '\n':
			return sequence{length: i, complete: true}
		case escape:
			if i+1 == len(b) {
				return sequence{length: i + 1}
			}
			if b[i+1] == '\\' {
				return sequence{length: i + 2, complete: true}
			}
			return sequence{length: i, complete: true}
		}
	}
	return sequence{length: len(b)}
}

// DeltaOf is what a piece of output does to the style. A sequence that the end of the piece
// cuts is not counted; a Tracker counts it.
func DeltaOf(b []byte) Delta { d, _ := sum(b); return d }

// sum adds up the sequences in b; rest is where one begins that does not end in b, or len(b).
func sum(b []byte) (d Delta, rest int) {
	at := 0
	for {
		i := bytes.IndexByte(b[at:], escape)
		if i < 0 {
			return d, len(b)
		}
		at += i
		s := parse(b[at:])
		if !s.complete {
			return d, at
		}
		s.apply(&d)
		at += s.length
	}
}

// apply adds the sequence to the delta.
func (s sequence) apply(d *Delta) {
	if !s.sgr {
		return
	}
	p := parameters{rest: s.parameters, more: true}
	for i := 0; i < parametersMax && p.more; i++ {
		n := p.next()
		switch {
		case n == 0:
			*d = Style{}.AsDelta()
		case n == 38 || n == 48:
			if c, ok := p.color(); ok && n == 38 {
				d.text(c)
			} else if ok {
				d.ground(c)
			}
		default:
			d.code(n)
		}
	}
}

// code is one SGR code without arguments.
func (d *Delta) code(n int) {
	switch {
	case n == 1:
		d.on(Bold)
	case n == 2:
		d.on(Faint)
	case n == 3:
		d.on(Italic)
	case n == 4, n == 21:
		d.on(Underline)
	case n == 7:
		d.on(Inverse)
	case n == 8:
		d.on(Concealed)
	case n == 9:
		d.on(Strike)
	case n == 22:
		d.off(Bold | Faint)
	case n == 23:
		d.off(Italic)
	case n == 24:
		d.off(Underline)
	case n == 27:
		d.off(Inverse)
	case n == 28:
		d.off(Concealed)
	case n == 29:
		d.off(Strike)
	case n >= 30 && n <= 37:
		d.text(Color(n - 30 + 1))
	case n == 39:
		d.text(0)
	case n >= 40 && n <= 47:
		d.ground(Color(n - 40 + 1))
	case n == 49:
		d.ground(0)
	case n >= 90 && n <= 97:
		d.text(Color(n - 90 + 8 + 1))
	case n >= 100 && n <= 107:
		d.ground(Color(n - 100 + 8 + 1))
	}
}

// parameters reads the numbers of an SGR sequence. Sub-parameters after a colon belong to
// the number before them; only colours use them, elsewhere they are passed over.
type parameters struct {
	rest []byte
	more bool   // whether anything follows, be it empty
	sub  []byte // what follows the last number after a colon
}

// next gives the next number, 0 when it is absent, as terminals do.
func (p *parameters) next() int {
	var field []byte
	field, p.rest, p.more = bytes.Cut(p.rest, []byte{';'})
	field, p.sub, _ = bytes.Cut(field, []byte{':'})
	return number(field)
}

// number reads digits and caps them, so that no input overflows.
func number(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0
		}
		n = min(n*10+int(c-'0'), 9999)
	}
	return n
}

// color reads what follows 38 or 48: "5;n", "2;r;g;b", or the same with colons, where
// "2::r:g:b" has a colour space before the red.
func (p *parameters) color() (Color, bool) {
	var n [6]int
	count := 0
	if p.sub != nil {
		for rest, more := p.sub, true; more && count < len(n); count++ {
			var field []byte
			field, rest, more = bytes.Cut(rest, []byte{':'})
			n[count] = number(field)
		}
		if n[0] == 2 && count >= 5 {
			n[1], n[2], n[3] = n[2], n[3], n[4]
		}
	} else {
		n[0] = p.next()
		want := map[int]int{5: 1, 2: 3}[n[0]]
		for count = 1; count <= want && p.more; count++ {
			n[count] = p.next()
		}
	}
	for _, v := range n[1:4] {
		if v > 255 {
			return 0, false
		}
	}
	switch n[0] {
	case 5:
		return Color(n[1] + 1), true
	case 2:
		return nearest(n[1], n[2], n[3]), true
	}
	return 0, false
}
