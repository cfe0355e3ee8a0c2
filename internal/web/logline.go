package web

import (
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf8"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
)

// lineView is one line of a log as a page shows it. The JSON form is what the scroller
// in the browser fetches; its names are short because there are thousands of them.
type lineView struct {
	Number  int64  `json:"n"`           // from 1, as people count
	At      string `json:"t,omitempty"` // clock time
	Full    string `json:"f,omitempty"` // the exact time
	Step    int32  `json:"s"`
	Kind    string `json:"k,omitempty"` // group, endgroup, error, warning, notice, debug, command, mark
	HTML    string `json:"h"`           // safe: only spans with fixed classes, everything else escaped
	Cut     string `json:"c,omitempty"` // what is not shown of a long line
	RawFrom int64  `json:"o,omitempty"` // where its bytes start, when it was cut
	NewStep bool   `json:"-"`           // the first line of a step in this window
}

var kindWords = map[ansi.Kind]string{
	ansi.Group: "group", ansi.EndGroup: "endgroup", ansi.Error: "error", ansi.Warning: "warning",
	ansi.Notice: "notice", ansi.Debug: "debug", ansi.Command: "command",
}

// lineViewsOf renders a window. The first warm lines only carry the colours that are in
// force into the window and are not part of the answer.
//
// Trust: every line was written by a job and may hold anything.
func lineViewsOf(lines []*fairleadv1.Line, warm int) []lineView {
	out := make([]lineView, 0, len(lines))
	style, step := ansi.Style{}, int32(-1)
	for i, line := range lines {
		if line.GetStep() != step { // steps don't colour each other
			style = ansi.Style{}
		}
		view := lineView{Number: line.GetNumber() + 1, Step: line.GetStep(), NewStep: line.GetStep() != step}
		step = line.GetStep()
		if at := parseMoment(line.GetAt()); !at.IsZero() {
			view.At, view.Full = at.Format("15:04:05.000"), at.Format(time.RFC3339Nano)
		}
		text := trimLine(line, &view)
		var rendered string
		if kind, title := ansi.Classify([]byte(text)); kind != ansi.Plain {
			view.Kind = kindWords[kind]
			rendered = html.EscapeString(title)
		} else {
			safe, after := ansi.Render([]byte(text), style)
			rendered, style = string(safe), after
		}
		view.HTML = rendered
		if mark := line.GetMark(); mark != "" {
			view.Kind = "mark"
			view.HTML = strings.TrimSpace(markSentence(mark) + " " + rendered)
		}
		if i >= warm {
			out = append(out, view)
		}
	}
	return out
}

// trimLine cuts what is too long for a page and says how much that is.
func trimLine(line *fairleadv1.Line, view *lineView) string {
	text := line.GetText()
	full := max(line.GetBytes(), int64(len(text)))
	if len(text) > lineBytesMax {
		end := lineBytesMax
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if full > int64(len(text)) && text != "" { // a mark alone has no text to cut
		view.Cut = fmt.Sprintf("cut: %s of %s shown", bytesText(int64(len(text))), bytesText(full))
		view.RawFrom = line.GetOffset()
	}
	return text
}

// markSentence says what a mark in the log stands for.
//
// Trust: the part after the colon came from a runner; it is escaped.
func markSentence(mark string) string {
	kind, what, _ := strings.Cut(mark, ":")
	what = html.EscapeString(strings.ReplaceAll(what, "_", " "))
	switch kind {
	case "truncated":
		return strings.TrimSpace("Output was cut here by a limit. " + what)
	case "gap":
		return strings.TrimSpace("Output is missing here. " + what)
	}
	return html.EscapeString(strings.ReplaceAll(mark, "_", " "))
}
