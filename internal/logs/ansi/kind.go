package ansi

import (
	"bytes"
	"strings"
)

// Kind is what a line means to a page.
type Kind uint8

// The kinds of lines. Everything that is none of them is Plain.
const (
	Plain Kind = iota
	Group
	EndGroup
	Error
	Warning
	Notice
	Debug
	Command
)

// kindNames are the words between "::" that have a meaning on a page.
var kindNames = map[string]Kind{
	"group": Group, "endgroup": EndGroup, "error": Error, "warning": Warning, "notice": Notice, "debug": Debug,
	"command": Command,
}

// titleBytesMax bounds a title: a page shows it in one line.
const titleBytesMax = 1 << 10

// Classify recognises workflow commands at the start of a line: "::group::title",
// "::error file=a.go,line=3::message" and the older "##[group]title". The title is plain
// text: what follows the command, with %25, %0D and %0A decoded and sequences removed. It is
// not escaped; a template has to do that.
//
// Trust: the line is written by an attacker; nothing but the title leaves this function.
func Classify(line []byte) (Kind, string) {
	// Colours may stand before the command. Only the head of the line matters.
	line = bytes.TrimLeft(Strip(line[:min(len(line), 4*titleBytesMax)]), " \t")
	var name, title []byte
	switch {
	case bytes.HasPrefix(line, []byte("::")):
		head, rest, ok := bytes.Cut(line[2:], []byte("::"))
		if !ok {
			return Plain, ""
		}
		name, _, _ = bytes.Cut(head, []byte{' '})
		title = rest
	case bytes.HasPrefix(line, []byte("##[")):
		head, rest, ok := bytes.Cut(line[3:], []byte("]"))
		if !ok {
			return Plain, ""
		}
		name, title = head, rest
	default:
		return Plain, ""
	}
	kind, ok := kindNames[strings.ToLower(string(name[:min(len(name), 16)]))]
	if !ok {
		return Plain, ""
	}
	return kind, decodeTitle(title)
}

var titleEscapes = strings.NewReplacer("%25", "%", "%0D", " ", "%0A", " ", "%0d", " ", "%0a", " ")

func decodeTitle(title []byte) string {
	text := titleEscapes.Replace(strings.ToValidUTF8(string(title[:min(len(title), titleBytesMax)]), "\uFFFD"))
	text = strings.Map(func(r rune) rune {
		switch {
		case r < ' ' && r != '\t', r >= 0x7f && r < 0xa0:
			return -1
		case reorders(r):
			return '\uFFFD'
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}
