package syntax

import "strings"

// estimate counts nodes of a text before it is parsed, because a parser spends a few hundred
// bytes on each and a megabyte can hold half a million. It counts lines with something in
// them and commas in brackets, and leaves out comments, quotes and block scalars. It counts
// too few rather than too many; only a plain text over many lines is counted for more than it
// is, so what is refused by it must be far above the bound.
func estimate(src *source) int {
	e := &estimator{}
	for i, start := range src.lines {
		end := len(src.text)
		if i+1 < len(src.lines) {
			end = src.lines[i+1]
		}
		e.line(src.text[start:end])
	}
	return e.nodes
}

type estimator struct {
	nodes int
	depth int  // of brackets
	quote byte // that is open
	block int  // indentation of the key of an open block scalar, plus 1
}

func (e *estimator) line(line string) {
	content := strings.TrimLeft(line, " ")
	indent := len(line) - len(content)
	content = strings.TrimRight(content, " \t\r\n")
	if content == "" || e.block > 0 && indent >= e.block {
		return
	}
	e.block = 0
	if e.quote == 0 && content[0] == '#' {
		return
	}
	fresh := e.depth == 0 && e.quote == 0
	if e.quote == 0 {
		e.nodes++
	}
	for fresh && strings.HasPrefix(content, "- ") {
		rest := strings.TrimLeft(content[2:], " ")
		indent += len(content) - len(rest)
		content = rest
		e.nodes++
	}
	last := e.characters(content)
	if fresh && e.depth == 0 && e.quote == 0 && (last == '|' || last == '>') {
		e.block = indent + 1
	}
}

// characters walks over the content of a line. last is the header of a block scalar that the
// line ends with, or 0.
func (e *estimator) characters(content string) (last byte) {
	before := byte(' ')
	for i := 0; i < len(content); i++ {
		c := content[i]
		switch {
		case e.quote == '"' && c == '\\':
			i++
		case e.quote != 0:
			if c == e.quote {
				e.quote = 0
			}
		case c == '#' && before == ' ':
			return last
		case (c == '"' || c == '\'') && (strings.IndexByte(" [{,:", before) >= 0):
			e.quote = c
		case (c == '[' || c == '{') && (e.depth > 0 || before == ' '):
			e.depth++
		case (c == ']' || c == '}') && e.depth > 0:
			e.depth--
		case c == ',' && e.depth > 0:
			e.nodes++
		}
		switch {
		case (c == '|' || c == '>') && before == ' ':
			last = c
		case strings.IndexByte("+-0123456789 ", c) < 0:
			last = 0
		}
		before = c
	}
	return last
}
