package workflow

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

var rewrite = flag.Bool("rewrite", false, "write golden files and generated pages anew")

// files lists the workflow files of one folder of testdata.
func files(t *testing.T, folder string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("testdata", folder, "*.yml"))
	if err != nil || len(list) == 0 {
		t.Fatalf("list testdata/%s: %d files, %v", folder, len(list), err)
	}
	return list
}

func read(t *testing.T, path string) []byte { return readFile(t, path) }

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// event takes the inputs of a test from the first line of a file:
// "# event: workflow_dispatch ref=refs/heads/main name=value …".
func event(text []byte) Inputs {
	line, _, _ := strings.Cut(string(text), "\n")
	rest, ok := strings.CutPrefix(line, "# event: ")
	if !ok {
		return Inputs{}
	}
	words := strings.Fields(rest)
	in := Inputs{Event: words[0], Repository: "acme/shop", SHA: strings.Repeat("a", 40), Actor: "mona"}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if name == "ref" {
			in.Ref = value
			continue
		}
		if in.Dispatch == nil {
			in.Dispatch = make(map[string]string)
		}
		in.Dispatch[name] = value
	}
	return in
}

func compile(path string, text []byte) (*plan.Plan, []Diagnostic) {
	return Compile(Source{Path: ".fairlead/workflows/" + filepath.Base(path), Text: text}, event(text), Limits{})
}

// Promises: [FORMAT-11].
func TestOKFilesCompileInSilence(t *testing.T) {
	for _, path := range append(files(t, "ok"), files(t, "golden")...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := read(t, path)
			p, list := compile(path, text)
			if len(list) > 0 {
				t.Errorf("diagnostics:\n%s", Render(list, text))
			}
			if p == nil {
				t.Fatal("no plan")
			}
			if again, err := plan.Decode(p.Encode()); err != nil || !bytes.Equal(again.Encode(), p.Encode()) {
				t.Errorf("the plan does not survive encoding: %v", err)
			}
		})
	}
}

// An err file says in comments which diagnostics it must have, all of them and no
// other: "# want: LINE:COLUMN CODE", where LINE may be "." for the comment's own line.
// Promises: [FORMAT-11].
func TestErrFilesHaveExactlyTheirDiagnostics(t *testing.T) {
	for _, path := range files(t, "err") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := read(t, path)
			want := wanted(string(text))
			p, list := compile(path, text)
			var got []string
			for _, d := range list {
				got = append(got, fmt.Sprintf("%d:%d %s", d.Pos.Line, d.Pos.Column, d.Code))
				if d.Message == "" || strings.Contains(d.Message, "%!") || strings.Contains(d.Hint, "%!") {
					t.Errorf("diagnostic without a proper sentence: %+v", d)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s\n%s", diff, Render(list, text))
			}
			if (p == nil) != Failed(list) {
				t.Errorf("plan is nil: %v, errors: %v", p == nil, Failed(list))
			}
		})
	}
}

func wanted(text string) []string {
	var out []string
	for number, line := range strings.Split(text, "\n") {
		_, list, found := strings.Cut(line, "# want:")
		if !found {
			continue
		}
		for _, want := range strings.Split(list, ",") {
			want = strings.TrimSpace(want)
			if rest, own := strings.CutPrefix(want, ".:"); own {
				want = fmt.Sprintf("%d:%s", number+1, rest)
			}
			out = append(out, want)
		}
	}
	return out
}

func TestGoldenPlans(t *testing.T) {
	for _, path := range files(t, "golden") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			p, list := compile(path, read(t, path))
			if p == nil {
				t.Fatalf("no plan: %v", list)
			}
			golden(t, strings.TrimSuffix(path, ".yml")+".json", indent(t, p.Encode()))
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, path)), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got), rewrite with -rewrite:\n%s", path, diff)
	}
}
