package codec

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// packer writes one text.
type packer struct {
	out   []byte
	words int // how many of the words its readers know
	kept  []string
	place map[string]int // of kept, once there are many
	base  int64
	begun bool // base is a time of the text
}

func (p *packer) tag(b byte)       { p.out = append(p.out, b) }
func (p *packer) uvarint(n uint64) { p.out = binary.AppendUvarint(p.out, n) }

// name writes the name of a field or a type.
func (p *packer) name(word int, s string) {
	if word < 0 || word >= p.words {
		p.text(s)
		return
	}
	p.word(word)
}

func (p *packer) word(place int) {
	if place < shortWords {
		p.tag(byte(wordBase + place))
		return
	}
	p.tag(tagWord)
	p.uvarint(uint64(place - shortWords))
}

func (p *packer) value(s *shape, v reflect.Value) error {
	switch s.kind {
	case kindBool:
		if v.Bool() {
			p.tag(tagTrue)
		} else {
			p.tag(tagFalse)
		}
	case kindInt:
		p.number(v.Int())
	case kindUint:
		p.unsigned(v.Uint())
	case kindString:
		p.text(v.String())
	case kindTime:
		return p.time(v.Addr().Interface().(*time.Time))
	case kindPointer:
		if v.IsNil() {
			p.tag(tagNothing)
			return nil
		}
		return p.value(s.elem, v.Elem())
	case kindList:
		p.tag(tagList)
		p.uvarint(uint64(v.Len()))
		for i := range v.Len() {
			if err := p.value(s.elem, v.Index(i)); err != nil {
				return err
			}
		}
	case kindObject:
		p.tag(tagObject)
		return p.fields(s, v)
	}
	return nil
}

// fields writes what an object holds, and its end.
func (p *packer) fields(s *shape, v reflect.Value) error {
	for i := range s.fields {
		f := &s.fields[i]
		at := f.in(v)
		if f.absent(at) {
			continue
		}
		p.name(f.word, f.name)
		if err := p.value(f.shape, at); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	p.tag(tagEnd)
	return nil
}

func (p *packer) number(n int64) {
	if n < 0 {
		p.tag(tagMinus)
		p.uvarint(uint64(-1 - n))
		return
	}
	p.unsigned(uint64(n))
}

func (p *packer) unsigned(n uint64) {
	if n < shortNumber {
		p.tag(byte(numberBase + n))
		return
	}
	p.tag(tagNumber)
	p.uvarint(n)
}

// The years that the JSON form can say.
const firstYear, lastYear = 0, 9999

func (p *packer) time(t *time.Time) error {
	if t.IsZero() {
		p.tag(tagNothing)
		return nil
	}
	if y := t.UTC().Year(); y < firstYear || y > lastYear {
		return fmt.Errorf("the year %d", y)
	}
	micros := t.Unix()*1_000_000 + int64(t.Nanosecond()/1000)
	nanos := t.Nanosecond() % 1000
	if nanos == 0 {
		p.tag(tagTime)
	} else {
		p.tag(tagNano)
	}
	p.out = binary.AppendVarint(p.out, micros-p.base)
	if nanos != 0 {
		p.uvarint(uint64(nanos))
	}
	if !p.begun {
		p.base, p.begun = micros, true
	}
	return nil
}

// text writes a string in the shortest of its ways.
func (p *packer) text(s string) {
	if p.known(s) {
		return
	}
	if !p.digits(s) && !p.joined(s) {
		p.literal(s)
	}
	p.keep(s)
}

// part writes a string that is a part of another one: it has no parts itself, for readers take none.
func (p *packer) part(s string) {
	if p.known(s) {
		return
	}
	if !p.digits(s) {
		p.literal(s)
	}
	p.keep(s)
}

// known writes a string that needs no bytes of its own, or that is too short to be counted.
func (p *packer) known(s string) bool {
	if len(s) < keptText {
		p.literal(s)
		return true
	}
	if w, ok := wordPlaces[s]; ok && w < p.words {
		p.word(w)
		return true
	}
	at, ok := p.before(s)
	if ok {
		p.tag(tagBefore)
		p.uvarint(uint64(at))
	}
	return ok
}

func (p *packer) literal(s string) {
	if len(s) < shortText {
		p.tag(byte(textBase + len(s)))
	} else {
		p.tag(tagText)
		p.uvarint(uint64(len(s)))
	}
	p.out = append(p.out, s...)
}

const (
	idLength     = 26
	digestPrefix = "sha256:"
	digestLength = len(digestPrefix) + 64
)

// digits writes ids, digests and other long hexadecimal numbers. It says whether it could.
func (p *packer) digits(s string) bool {
	switch {
	case len(s) == digestLength && strings.HasPrefix(s, digestPrefix) && isHex(s[len(digestPrefix):]):
		p.tag(tagDigest)
		p.unhex(s[len(digestPrefix):])
	case (len(s) == 40 || len(s) == 64) && isHex(s):
		p.tag(tagHex)
		p.uvarint(uint64(len(s) / 2))
		p.unhex(s)
	case len(s) == idLength && isID(s):
		p.id(s)
	default:
		return false
	}
	return true
}

// joined writes what has an id within or a long hexadecimal number at its end, in parts. It says
// whether it could.
func (p *packer) joined(s string) bool {
	if len(s) < idLength || len(s) > joinedMax {
		return false
	}
	if at := strings.LastIndexByte(s, '/') + 1; at > 0 && len(s)-at == 64 && isHex(s[at:]) {
		p.tag(tagTwo)
		p.part(s[:at])
		p.part(s[at:])
		return true
	}
	at := strings.IndexByte(s, '_') + 1
	if end := at + idLength; at == 0 || len(s) < end || !isID(s[at:end]) {
		return false
	} else if end == len(s) {
		p.tag(tagTwo)
		p.part(s[:at])
		p.part(s[at:])
	} else {
		p.tag(tagThree)
		p.part(s[:at])
		p.part(s[at:end])
		p.part(s[end:])
	}
	return true
}

func (p *packer) unhex(s string) {
	at := len(p.out)
	p.out = append(p.out, s[:len(s)/2]...) // room, overwritten
	if _, err := hex.Decode(p.out[at:], []byte(s)); err != nil {
		panic("hexadecimal digits that are none: " + s)
	}
}

func (p *packer) id(s string) {
	p.tag(tagID)
	var high, low uint64 // the 128 bits of 26 characters
	for i := range len(s) {
		high = high<<5 | low>>59
		low = low<<5 | uint64(idValues[s[i]]-1)
	}
	p.out = binary.BigEndian.AppendUint64(p.out, high)
	p.out = binary.BigEndian.AppendUint64(p.out, low)
}

// many strings from which on a map finds them.
const many = 24

func (p *packer) before(s string) (int, bool) {
	if p.place != nil {
		at, ok := p.place[s]
		return at, ok
	}
	for i, k := range p.kept {
		if k == s {
			return i, true
		}
	}
	return 0, false
}

func (p *packer) keep(s string) {
	if p.place != nil {
		p.place[s] = len(p.kept)
	}
	p.kept = append(p.kept, s)
	if p.place == nil && len(p.kept) == many {
		p.place = make(map[string]int, 4*many)
		for i, k := range p.kept {
			p.place[k] = i
		}
	}
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// idValues is the value of a character of an id, plus one; 0 for any other byte.
var idValues = func() (values [256]byte) {
	for i := range len(idAlphabet) {
		values[idAlphabet[i]] = byte(i + 1)
	}
	return values
}()

// isID reports whether 26 characters are those of 128 bits.
func isID(s string) bool {
	if s[0] > '7' {
		return false
	}
	for i := range len(s) {
		if idValues[s[i]] == 0 {
			return false
		}
	}
	return true
}
