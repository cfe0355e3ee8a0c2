package ansi

import (
	"bytes"
	"html/template"
	"strconv"
	"unicode/utf8"
)

// Render turns one line, without its line feed, into HTML, and gives the style in force
// after it. A carriage return makes what follows replace what came before, as a progress bar
// means it; the style set by what was replaced stays in force.
//
// Trust: the line is written by an attacker. Everything but spans with fixed class names is
// escaped; control characters and all sequences but SGR are removed; bytes that are not
// UTF-8, and characters that reorder text, show as U+FFFD.
func Render(line []byte, style Style) (template.HTML, Style) {
	hidden, shown := collapse(line)
	style = style.Then(DeltaOf(hidden))
	var b []byte
	open := false
	for len(shown) > 0 {
		if shown[0] == escape {
			s := parse(shown)
			before := style
			if s.complete {
				var d Delta
				s.apply(&d)
				style = style.Then(d)
			}
			if open && style != before {
				b = append(b, "</span>"...)
				open = false
			}
			shown = shown[s.length:]
			continue
		}
		end := bytes.IndexByte(shown, escape)
		if end < 0 {
			end = len(shown)
		}
		if style != (Style{}) && !open {
			b = style.appendTag(b)
			open = true
		}
		b = appendText(b, shown[:end])
		shown = shown[end:]
	}
	if open {
		b = append(b, "</span>"...)
	}
	return template.HTML(b), style
}

// collapse parts a line at the last carriage return that something visible follows.
func collapse(line []byte) (hidden, shown []byte) {
	end := len(line)
	for end > 0 && line[end-1] == '\r' {
		end--
	}
	if i := bytes.LastIndexByte(line[:end], '\r'); i >= 0 {
		return line[:i+1], line[i+1 : end]
	}
	return nil, line[:end]
}

// appendTag opens a span with the classes of the style.
func (s Style) appendTag(b []byte) []byte {
	text, ground := s.Text, s.Ground
	if s.Attributes&Inverse != 0 {
		text, ground = ground, text
	}
	b = append(b, `<span class="`...)
	at := len(b)
	for _, a := range [...]struct {
		bit  uint8
		name string
	}{{Bold, "t-b"}, {Faint, "t-f"}, {Italic, "t-i"}, {Underline, "t-u"}, {Strike, "t-s"}, {Concealed, "t-c"}} {
		if s.Attributes&a.bit != 0 {
			b = append(append(b, a.name...), ' ')
		}
	}
	b = appendColor(b, "t-fg", text, s.Attributes&Inverse != 0)
	b = appendColor(b, "t-bg", ground, s.Attributes&Inverse != 0)
	if len(b) > at {
		b = b[:len(b)-1]
	}
	return append(b, `">`...)
}

func appendColor(b []byte, class string, c Color, inverse bool) []byte {
	switch {
	case c > 0:
		b = strconv.AppendInt(append(b, class...), int64(c)-1, 10)
	case inverse:
		b = append(append(b, class...), 'd')
	default:
		return b
	}
	return append(b, ' ')
}

// appendText escapes what has no escape sequence in it.
func appendText(b, text []byte) []byte {
	for len(text) > 0 {
		if c := text[0]; c < utf8.RuneSelf {
			text = text[1:]
			switch {
			case c == '<':
				b = append(b, "&lt;"...)
			case c == '>':
				b = append(b, "&gt;"...)
			case c == '&':
				b = append(b, "&amp;"...)
			case c == '"':
				b = append(b, "&#34;"...)
			case c == '\'':
				b = append(b, "&#39;"...)
			case c >= ' ' && c != 0x7f, c == '\t':
				b = append(b, c)
			}
			continue
		}
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case r >= 0x80 && r < 0xa0: // C1 controls
		case r == utf8.RuneError, reorders(r):
			b = utf8.AppendRune(b, utf8.RuneError)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// reorders is true of characters that make text look other than it is: embeddings,
// overrides and isolates, with which a line can hide its meaning, and line separators.
func reorders(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// Strip removes escape sequences and nothing else, for searching.
func Strip(line []byte) []byte {
	i := bytes.IndexByte(line, escape)
	if i < 0 {
		return line
	}
	out := make([]byte, 0, len(line))
	for i >= 0 {
		out = append(out, line[:i]...)
		line = line[i+parse(line[i:]).length:]
		i = bytes.IndexByte(line, escape)
	}
	return append(out, line...)
}
