package workflow

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// FuzzCompile holds that no file makes the compiler panic, that the same file gives the
// same answer, that a plan comes out exactly when there is no error, and that every
// diagnostic has a sentence and a place inside the file.
func FuzzCompile(f *testing.F) {
	for _, folder := range []string{"ok", "err", "golden"} {
		list, err := filepath.Glob(filepath.Join("testdata", folder, "*.yml"))
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range list {
			f.Add(readFile(f, path), "refs/heads/main")
		}
	}
	f.Add([]byte(bomb(9)), "")
	f.Fuzz(func(t *testing.T, text []byte, ref string) {
		src := Source{Path: "w.yml", Text: text}
		lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + bytes.Count(text, []byte("\u0085")) +
			bytes.Count(text, []byte("\u2028")) + bytes.Count(text, []byte("\u2029")) + 1
		for _, event := range []string{"", EventPush, EventDispatch} {
			in := Inputs{Event: event, Ref: ref, Dispatch: map[string]string{"a": ref}}
			p, list := Compile(src, in, Limits{})
			if (p == nil) != Failed(list) {
				t.Fatalf("plan is nil: %v, diagnostics: %v", p == nil, list)
			}
			for _, d := range list {
				if d.Message == "" || d.Pos.Line > lines || d.Pos.Line < 0 || d.Pos.Column < 0 || d.End.Line > lines {
					t.Fatalf("diagnostic %+v of a file with %d lines", d, lines)
				}
			}
			Render(list, text)
			if p == nil {
				continue
			}
			again, _ := Compile(src, in, Limits{})
			if !bytes.Equal(p.Encode(), again.Encode()) {
				t.Fatal("two compilations differ")
			}
			if back, err := plan.Decode(p.Encode()); err != nil || !bytes.Equal(back.Encode(), p.Encode()) {
				t.Fatalf("the plan does not survive encoding: %v", err)
			}
		}
		triggers, _ := Inspect(src, Limits{})
		triggers.Match(Event{Name: EventPush, Ref: ref, Changed: []string{ref}})
	})
}
