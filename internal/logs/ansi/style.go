// Package ansi turns one line of terminal output into safe HTML: colours and weights from
// SGR sequences, groups and annotations from workflow commands, progress bars collapsed.
//
// It is deliberately not a terminal: no screen, no cursor, no wrapping. A log page shows
// windows of a million lines, so a line must render alone, from its bytes and the style that
// was in force before it; a screen emulation needs everything that came before, lets a line
// rewrite earlier ones, and keeps its style private. Images, links and titles that a terminal
// would honour are removed.
//
// Invariants: pure functions, linear in the input; the output holds no byte of the input that
// was not escaped; the only tags are <span class="…"> with classes from a fixed list, so a
// content security policy may forbid inline styles; nothing here fails, whatever comes in.
//
// Read next: internal/logs/ansi/render.go
package ansi

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Color is a colour of text or background: 0 is the default of the page, otherwise an
// index of the 256-colour palette plus one. True colours become the nearest of the palette.
type Color uint16

// Attributes of a style, as bits.
const (
	Bold uint8 = 1 << iota
	Faint
	Italic
	Underline
	Inverse
	Strike
	Concealed
)

// Style is what SGR sequences have set so far. The zero value is the plain style.
type Style struct {
	Text, Ground Color
	Attributes   uint8
}

// Delta is what a piece of output does to a style: every SGR code sets fields to constants,
// so a piece of any length sums up in one delta, and deltas compose without the bytes.
type Delta struct {
	setText, setGround bool
	setAttributes      uint8 // which bits of the attributes are set to a constant
	to                 Style
}

// Then is the style after the delta.
func (s Style) Then(d Delta) Style {
	if d.setText {
		s.Text = d.to.Text
	}
	if d.setGround {
		s.Ground = d.to.Ground
	}
	s.Attributes = s.Attributes&^d.setAttributes | d.to.Attributes&d.setAttributes
	return s
}

func (d *Delta) text(c Color)   { d.setText, d.to.Text = true, c }
func (d *Delta) ground(c Color) { d.setGround, d.to.Ground = true, c }

func (d *Delta) on(bits uint8)  { d.setAttributes |= bits; d.to.Attributes |= bits }
func (d *Delta) off(bits uint8) { d.setAttributes |= bits; d.to.Attributes &^= bits }

// deltaBytes is the length of an encoded delta that is not empty.
const deltaBytes = 7

var errDelta = errors.New("malformed style delta")

// Append encodes the delta: one zero byte when it changes nothing, which is nearly always.
func (d Delta) Append(b []byte) []byte {
	if d == (Delta{}) {
		return append(b, 0)
	}
	flags := byte(1)
	if d.setText {
		flags |= 2
	}
	if d.setGround {
		flags |= 4
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint16(b, uint16(d.to.Text))
	b = binary.LittleEndian.AppendUint16(b, uint16(d.to.Ground))
	return append(b, d.setAttributes, d.to.Attributes)
}

// DecodeDelta reads what Append wrote and gives the rest.
//
// Trust: b may be damaged.
func DecodeDelta(b []byte) (Delta, []byte, error) {
	if len(b) == 0 {
		return Delta{}, nil, errDelta
	}
	if b[0] == 0 {
		return Delta{}, b[1:], nil
	}
	if len(b) < deltaBytes || b[0]&^7 != 0 || b[0]&1 == 0 {
		return Delta{}, nil, errDelta
	}
	d := Delta{setText: b[0]&2 != 0, setGround: b[0]&4 != 0, setAttributes: b[5]}
	d.to = Style{
		Text:       Color(binary.LittleEndian.Uint16(b[1:])),
		Ground:     Color(binary.LittleEndian.Uint16(b[3:])),
		Attributes: b[6],
	}
	if d.to.Text > paletteSize || d.to.Ground > paletteSize {
		return Delta{}, nil, errDelta
	}
	return d, b[deltaBytes:], nil
}

// AsDelta is the delta that sets exactly this style, whatever came before.
func (s Style) AsDelta() Delta {
	return Delta{setText: true, setGround: true, setAttributes: 0xff, to: s}
}

// Tracker follows the style over a stream that comes in pieces, sequences cut by the end of
// a piece included. The zero value starts plain.
type Tracker struct {
	Style Style
	carry []byte
}

// Feed takes the next piece. The tracker keeps no reference to it.
func (t *Tracker) Feed(piece []byte) {
	for len(t.carry) > 0 {
		held := len(t.carry)
		joined := append(t.carry, piece[:min(len(piece), sequenceBytesMax)]...)
		s := parse(joined)
		if !s.complete && len(joined) <= sequenceBytesMax {
			t.carry = joined
			return
		}
		if s.complete {
			var d Delta
			s.apply(&d)
			t.Style = t.Style.Then(d)
		}
		if s.length < held {
			// What was held is two sequences: the second began where the first was cut off.
			t.carry = fromEscape(joined[s.length:held])
			continue
		}
		piece, t.carry = piece[s.length-held:], nil
	}
	d, rest := sum(piece)
	t.Style = t.Style.Then(d)
	if rest < len(piece) && len(piece)-rest <= sequenceBytesMax {
		t.carry = append([]byte(nil), piece[rest:]...)
	}
}

func fromEscape(b []byte) []byte {
	if i := bytes.IndexByte(b, escape); i >= 0 {
		return append([]byte(nil), b[i:]...)
	}
	return nil
}
