package web

import (
	"fmt"
	"strconv"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// actionID names a form on its page by where it goes and what it sends, so that a live
// refresh finds it again and leaves it open.
func actionID(a action) string {
	id := strings.NewReplacer("/", "-").Replace(strings.TrimPrefix(a.Path, "/"))
	for _, f := range a.Fields {
		if f.Label == "" {
			id += "-" + f.Value
		}
	}
	return id
}

// count10 writes a number as addresses and attributes need it.
func count10(n uint64) string { return strconv.FormatUint(n, 10) }

// sentenceKinds are the kinds of sentences that have a look of their own.
var sentenceKinds = map[string]bool{"run": true, "skip": true, "wait": true, "retry": true, "fail": true,
	"request": true, "lease": true, "report": true, "refuse": true, "reconcile": true, "log": true}

// sentenceKind keeps what the server does not know out of the class attribute.
func sentenceKind(kind string) string {
	if sentenceKinds[kind] {
		return kind
	}
	return "other"
}

// diagnosticText is one diagnostic the way compilers write them.
func diagnosticText(d *fairleadv1.Diagnostic) string {
	text := fmt.Sprintf("%s:%d:%d: %s: %s [%s]", d.GetPath(), d.GetLine(), d.GetColumn(), d.GetSeverity(),
		d.GetMessage(), d.GetCode())
	if d.GetHint() != "" {
		text += "\n" + d.GetHint()
	}
	return text
}
