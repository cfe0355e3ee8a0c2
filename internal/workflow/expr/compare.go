package expr

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Equal is the language's ==. Values of different types are coerced to numbers, strings
// compare without case, and structures are equal only to themselves.
func Equal(a, b Value) bool {
	a, b = coerce(a, b)
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case KindBool:
		return a.truth == b.truth
	case KindNumber:
		return a.num == b.num // NaN equals nothing
	case KindString:
		return sameText(a.text, b.text)
	case KindArray:
		return a.array == b.array
	case KindObject:
		return a.obj == b.obj
	}
	return true
}

// order is -1, 0 or 1, or ok false where the language orders nothing: unlike types
// that coerce to NaN, null against null, structures.
func order(a, b Value) (sign int, ok bool) {
	a, b = coerce(a, b)
	if a.kind != b.kind {
		return 0, false
	}
	switch a.kind {
	case KindBool:
		return truthOrder(a.truth) - truthOrder(b.truth), true
	case KindNumber:
		if math.IsNaN(a.num) || math.IsNaN(b.num) {
			return 0, false
		}
		switch {
		case a.num < b.num:
			return -1, true
		case a.num > b.num:
			return 1, true
		}
		return 0, true
	case KindString:
		return compareUnits(fold(a.text), fold(b.text)), true
	}
	return 0, false
}

func truthOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// coerce brings two values to one kind where the language does.
func coerce(a, b Value) (Value, Value) {
	switch {
	case a.kind == b.kind:
		return a, b
	case a.kind == KindNumber && b.kind == KindString:
		return a, Number(b.number())
	case a.kind == KindString && b.kind == KindNumber:
		return Number(a.number()), b
	case a.kind == KindBool || a.kind == KindNull:
		return coerce(Number(a.number()), b)
	case b.kind == KindBool || b.kind == KindNull:
		return coerce(a, Number(b.number()))
	}
	return a, b
}

// fold is text in the form in which case does not count. It maps letter by letter to
// upper case, as an ordinal comparison does; the dotless i and the long s keep apart.
func fold(text string) string {
	ascii := true
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c >= 'a' && c <= 'z' {
			ascii = false
			break
		}
	}
	if ascii {
		return text
	}
	return strings.Map(foldRune, text)
}

// sameText compares without case and without making copies.
func sameText(a, b string) bool {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb && foldRune(ra) != foldRune(rb) {
			return false
		}
		a, b = a[na:], b[nb:]
	}
	return a == b
}

func foldRune(r rune) rune {
	if r == 'ı' || r == 'ſ' {
		return r
	}
	return unicode.ToUpper(r)
}

// compareUnits orders two strings by UTF-16 code units, which differs from the order
// of code points above the basic plane.
func compareUnits(a, b string) int {
	for a != "" && b != "" {
		ra, na := utf8.DecodeRuneInString(a)
		rb, nb := utf8.DecodeRuneInString(b)
		if ra != rb {
			return sign(unitKey(ra), unitKey(rb))
		}
		a, b = a[na:], b[nb:]
	}
	return sign(int64(len(a)), int64(len(b)))
}

// unitKey places a code point above the basic plane where its first surrogate sorts.
func unitKey(r rune) int64 {
	if r < 0x10000 {
		return int64(r) << 20
	}
	return int64(0xD800)<<20 + int64(r)
}

func sign(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
