package workflow

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Diagnostic is one problem of a workflow file. Its JSON form is part of the output of
// `lint --json` and of the API.
type Diagnostic = syntax.Diagnostic

// Pos is a place in a file; lines and columns count from 1.
type Pos = syntax.Pos

// Code is the stable name of a kind of diagnostic.
type Code = syntax.Code

// Severity is error, warning or info.
type Severity = syntax.Severity

// Severities.
const (
	Error   = syntax.Error
	Warning = syntax.Warning
	Info    = syntax.Info
)

// CodeEntry is one row of the table of codes.
type CodeEntry = syntax.CodeEntry

// Codes lists every code of diagnostics with its severity and one sentence.
func Codes() []CodeEntry { return syntax.Codes() }

// Schema is the JSON Schema of workflow files, for editors.
func Schema() []byte { return syntax.Schema() }

// Failed reports whether any of the diagnostics is an error.
func Failed(list []Diagnostic) bool {
	for _, d := range list {
		if d.Severity == Error {
			return true
		}
	}
	return false
}

// Required reports whether a diagnostic names something that executing the plan needs and this
// release does not do.
func Required(d Diagnostic) bool { return strings.HasPrefix(string(d.Code), "not_run_") }

// Refused makes errors of the requirements among the diagnostics: a run that would not do what its
// file says never starts.
func Refused(list []Diagnostic) []Diagnostic {
	out := slices.Clone(list)
	for i := range out {
		if Required(out[i]) {
			out[i].Severity = Error
		}
	}
	return out
}

// Warnings leaves out information, which is for those who look at the file and not for those
// who start it.
func Warnings(list []Diagnostic) []Diagnostic {
	return slices.DeleteFunc(slices.Clone(list), func(d Diagnostic) bool { return d.Severity == Info })
}

// Render writes diagnostics for a terminal: each with its source line, a caret under
// the place, and its hint. text is the file they belong to.
//
// Trust: text may come from anybody; what a terminal would act on is replaced.
func Render(list []Diagnostic, text []byte) string {
	var out strings.Builder
	lines := syntax.Lines(text)
	for i, d := range list {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(d.String())
		out.WriteByte('\n')
		if d.Pos.Line > 0 && d.Pos.Line <= len(lines) {
			excerpt(&out, d, lines[d.Pos.Line-1])
		}
		if d.Hint != "" {
			fmt.Fprintf(&out, "      = %s\n", d.Hint)
		}
	}
	return out.String()
}

// excerpt writes the source line with carets below it. A long line is cut around the
// place, so that a line of a megabyte stays readable.
func excerpt(out *strings.Builder, d Diagnostic, line string) {
	const before, width = 60, 110
	runes := printable(line, d.Pos.Column+width)
	start := min(max(d.Pos.Column-1, 0), len(runes))
	end := len(runes)
	if d.End.Line == d.Pos.Line {
		end = min(d.End.Column-1, len(runes))
	}
	if end <= start || d.End == (Pos{}) {
		end = start + 1
	}
	cut, mark := 0, ""
	if start > before {
		cut, mark = start-before, "…"
	}
	shown := runes[cut:min(len(runes), cut+width)]
	indent := start - cut + utf8.RuneCountInString(mark)
	carets := max(min(end-start, width-(start-cut)), 1)
	number := fmt.Sprintf("%4d", d.Pos.Line)
	fmt.Fprintf(out, "%s | %s%s\n", number, mark, string(shown))
	fmt.Fprintf(out, "%s | %s%s\n", strings.Repeat(" ", len(number)), strings.Repeat(" ", indent),
		strings.Repeat("^", carets))
}

// printable is the beginning of a line with one visible character for each character.
func printable(line string, limit int) []rune {
	var out []rune
	for _, r := range line {
		if len(out) >= limit {
			break
		}
		switch {
		case r == '\t':
			r = ' '
		case !unicode.IsPrint(r):
			r = '�'
		}
		out = append(out, r)
	}
	return out
}
