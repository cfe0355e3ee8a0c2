package domain

import (
	"strings"
	"time"
)

// ClipMark ends a text that Clip cut.
const ClipMark = "…"

// Clip bounds text that comes from outside before it enters history: at most bytesMax
// bytes, valid UTF-8, and a cut shows. bytesMax is larger than ClipMark.
func Clip(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return validText(text)
	}
	cut := bytesMax - len(ClipMark)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not inside a rune
		cut--
	}
	return validText(text[:cut]) + ClipMark
}

// validText replaces what is not UTF-8, byte for byte, so that the text doesn't grow.
func validText(text string) string { return strings.ToValidUTF8(text, "?") }

// PlainTime makes a time from outside fit for history: no zone, no monotonic part, and
// nothing that an encoding could not hold. A time that can't be meant is the zero time.
func PlainTime(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if y := t.Year(); y < 1970 || y > 9999 {
		return time.Time{}
	}
	return t
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
