package codec

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// unpacker reads one text.
type unpacker struct {
	in    []byte
	at    int
	kept  []string
	base  int64
	begun bool
}

var errShort = errors.New("it ends too early")

func (u *unpacker) tag() (byte, error) {
	if u.at >= len(u.in) {
		return 0, errShort
	}
	u.at++
	return u.in[u.at-1], nil
}

func (u *unpacker) uvarint() (uint64, error) {
	n, size := binary.Uvarint(u.in[u.at:])
	if size <= 0 {
		return 0, errShort
	}
	u.at += size
	return n, nil
}

func (u *unpacker) take(n uint64) ([]byte, error) {
	if n > uint64(len(u.in)-u.at) {
		return nil, errShort
	}
	u.at += int(n)
	return u.in[u.at-int(n) : u.at], nil
}

// value reads into v, which is zero.
func (u *unpacker) value(s *shape, v reflect.Value) error {
	tag, err := u.tag()
	if err != nil {
		return err
	}
	return u.valueOf(tag, s, v)
}

func (u *unpacker) valueOf(tag byte, s *shape, v reflect.Value) (err error) {
	switch s.kind {
	case kindBool:
		if tag != tagTrue && tag != tagFalse {
			return misplaced(tag, s)
		}
		v.SetBool(tag == tagTrue)
	case kindInt, kindUint:
		return u.number(tag, s, v)
	case kindString:
		text, err := u.text(tag, false)
		if err != nil {
			return err
		}
		v.SetString(text)
	case kindTime:
		return u.time(tag, s, v.Addr().Interface().(*time.Time))
	case kindPointer:
		if tag == tagNothing {
			return nil
		}
		v.Set(reflect.New(s.elem.of))
		return u.valueOf(tag, s.elem, v.Elem())
	case kindList:
		if tag != tagList {
			return misplaced(tag, s)
		}
		return u.list(s, v)
	case kindObject:
		if tag != tagObject {
			return misplaced(tag, s)
		}
		return u.fields(s, v)
	}
	return nil
}

func misplaced(tag byte, s *shape) error { return fmt.Errorf("byte %#02x for a %s", tag, s.of) }

// manyAtOnce elements get room before they are seen.
const manyAtOnce = 256

func (u *unpacker) list(s *shape, v reflect.Value) error {
	n, err := u.uvarint()
	if err != nil {
		return err
	}
	if n > uint64(len(u.in)-u.at) {
		return errShort
	}
	v.Set(reflect.MakeSlice(s.of, 0, min(int(n), manyAtOnce)))
	for i := range int(n) {
		if i == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(i + 1)
		if err := u.value(s.elem, v.Index(i)); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

// fields reads an object to its end. A name that the type does not have, or that comes
// twice, is an error.
func (u *unpacker) fields(s *shape, v reflect.Value) error {
	var seen uint64
	for {
		tag, err := u.tag()
		if err != nil {
			return err
		}
		if tag == tagEnd {
			return nil
		}
		f, err := u.field(tag, s)
		if err != nil {
			return err
		}
		if seen&(1<<f.bit) != 0 {
			return fmt.Errorf("field %q of %s comes twice", f.name, s.of)
		}
		seen |= 1 << f.bit
		if err := u.value(f.shape, f.in(v)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
}

func (u *unpacker) field(tag byte, s *shape) (*field, error) {
	if tag >= wordBase {
		if f := s.byWord(int(tag - wordBase)); f != nil {
			return f, nil
		}
	}
	name, err := u.text(tag, false)
	if err != nil {
		return nil, err
	}
	if f := s.byName[name]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("unknown field %q of %s", name, s.of)
}

func (u *unpacker) number(tag byte, s *shape, v reflect.Value) (err error) {
	n := uint64(tag - numberBase)
	switch {
	case tag >= numberBase && tag < wordBase:
	case tag == tagNumber || tag == tagMinus:
		if n, err = u.uvarint(); err != nil {
			return err
		}
	default:
		return misplaced(tag, s)
	}
	if s.kind == kindUint {
		if tag == tagMinus || v.OverflowUint(n) {
			return fmt.Errorf("a number that is no %s", s.of)
		}
		v.SetUint(n)
		return nil
	}
	if n > 1<<63-1 || v.OverflowInt(int64(n)) {
		return fmt.Errorf("a number that is no %s", s.of)
	}
	if tag == tagMinus {
		v.SetInt(-1 - int64(n))
	} else {
		v.SetInt(int64(n))
	}
	return nil
}

func (u *unpacker) time(tag byte, s *shape, t *time.Time) error {
	if tag == tagNothing {
		return nil
	}
	if tag != tagTime && tag != tagNano {
		return misplaced(tag, s)
	}
	delta, size := binary.Varint(u.in[u.at:])
	if size <= 0 {
		return errShort
	}
	u.at += size
	micros, nanos := u.base+delta, uint64(0)
	if tag == tagNano {
		n, err := u.uvarint()
		if err != nil {
			return err
		}
		if nanos = n; n == 0 || n > 999 {
			return errors.New("a time with too many nanoseconds")
		}
	}
	if !u.begun {
		u.base, u.begun = micros, true
	}
	*t = time.UnixMicro(micros).UTC().Add(time.Duration(nanos))
	if y := t.Year(); y < firstYear || y > lastYear || t.IsZero() {
		return fmt.Errorf("a time in the year %d", y)
	}
	return nil
}

// text reads a string. A part of another one can't have parts.
func (u *unpacker) text(tag byte, part bool) (string, error) {
	switch {
	case tag >= wordBase:
		return wordAt(uint64(tag - wordBase))
	case tag >= textBase && tag < numberBase:
		return u.literal(uint64(tag - textBase))
	}
	switch tag {
	case tagText:
		n, err := u.uvarint()
		if err != nil {
			return "", err
		}
		return u.literal(n)
	case tagWord:
		n, err := u.uvarint()
		if err != nil {
			return "", err
		}
		return wordAt(min(n, 1<<32) + shortWords)
	case tagBefore:
		n, err := u.uvarint()
		if err != nil {
			return "", err
		}
		if n >= uint64(len(u.kept)) {
			return "", fmt.Errorf("string %d of %d", n, len(u.kept))
		}
		return u.kept[n], nil
	case tagTwo, tagThree:
		if !part {
			return u.joined(2 + int(tag-tagTwo))
		}
	case tagID, tagHex, tagDigest:
		return u.digits(tag)
	}
	return "", fmt.Errorf("byte %#02x for a string", tag)
}

func (u *unpacker) literal(n uint64) (string, error) {
	b, err := u.take(n)
	if err != nil {
		return "", err
	}
	return u.keep(string(b)), nil
}

func (u *unpacker) keep(s string) string {
	if len(s) >= keptText {
		u.kept = append(u.kept, s)
	}
	return s
}

func (u *unpacker) joined(n int) (string, error) {
	var all string
	for range n {
		tag, err := u.tag()
		if err != nil {
			return "", err
		}
		s, err := u.text(tag, true)
		if err != nil {
			return "", err
		}
		if all += s; len(all) > joinedMax {
			return "", fmt.Errorf("a string of parts with more than %d bytes", joinedMax)
		}
	}
	return u.keep(all), nil
}

func (u *unpacker) digits(tag byte) (string, error) {
	size, err := uint64(32), error(nil)
	switch tag {
	case tagID:
		size = 16
	case tagHex:
		if size, err = u.uvarint(); err != nil {
			return "", err
		}
	}
	b, err := u.take(size)
	switch {
	case err != nil:
		return "", err
	case tag == tagID:
		return u.keep(idText(b)), nil
	case tag == tagDigest:
		return u.keep(digestPrefix + hex.EncodeToString(b)), nil
	}
	return u.keep(hex.EncodeToString(b)), nil
}

func idText(b []byte) string {
	high, low := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	var out [idLength]byte
	for i := idLength - 1; i >= 0; i-- {
		out[i] = idAlphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(out[:])
}
