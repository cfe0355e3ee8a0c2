package expr

import (
	"strings"
	"unicode/utf8"
)

// Pointer is the line of text that a span starts in, and below it a mark for the span:
// one caret, and as many waves as the span has more characters in that line. Tabs stay tabs,
// so that the mark stands where the text is.
func Pointer(text string, at Span) (line, mark string) {
	const widthMax = 160
	start := strings.LastIndexByte(text[:at.Start], '\n') + 1
	end := len(text)
	if next := strings.IndexByte(text[at.Start:], '\n'); next >= 0 {
		end = at.Start + next
	}
	if at.Start-start > widthMax { // far to the right in a long line
		start = at.Start - widthMax/2
		for !utf8.RuneStart(text[start]) {
			start++
		}
	}
	if end-start > 2*widthMax {
		end = start + 2*widthMax
		for !utf8.RuneStart(text[end]) {
			end++
		}
	}
	var out strings.Builder
	for _, r := range text[start:at.Start] {
		if r != '\t' {
			r = ' '
		}
		out.WriteRune(r)
	}
	out.WriteByte('^')
	if last := min(at.End, end); last > at.Start {
		out.WriteString(strings.Repeat("~", utf8.RuneCountInString(text[at.Start:last])-1))
	}
	return strings.TrimRight(text[start:end], "\r"), out.String()
}
