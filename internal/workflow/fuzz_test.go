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

// The definition of an action comes from a repository that somebody else may own.
func FuzzAction(f *testing.F) {
	f.Add("inputs: {x: {default: '${{ github.actor }}'}}\nruns:\n  using: composite\n  steps:\n    - uses: ./a\n")
	f.Add("outputs: {o: {value: '${{ steps.x.outputs.y }}'}}\nruns:\n  using: composite\n" +
		"  steps:\n    - run: x\n      shell: sh\n")
	f.Add("runs: {using: node20, main: x.js}")
	f.Fuzz(func(t *testing.T, text string) {
		src := Source{Path: "w.yml", Text: []byte("on: push\njobs:\n  j:\n    runs-on: x\n    steps:\n      - uses: ./a\n")}
		in := Inputs{Components: Components{}}
		for range actionDepthMax + 3 {
			for _, r := range Wanted(src, in, Limits{}) {
				in.Components[r.String()] = Component{Reference: r, File: "action.yml", Text: []byte(text)}
			}
		}
		p, list := Compile(src, in, Limits{})
		if (p == nil) != Failed(list) {
			t.Errorf("plan %v, %v", p != nil, list)
		}
	})
}

func FuzzLock(f *testing.F) {
	f.Add("octo/greet@v1 git:a:b\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		lock, err := ParseLock([]byte(text))
		if err != nil {
			return
		}
		if back, err := ParseLock(lock.Encode()); err != nil || len(back) != len(lock) {
			t.Errorf("%v comes back as %v, %v", lock, back, err)
		}
	})
}
