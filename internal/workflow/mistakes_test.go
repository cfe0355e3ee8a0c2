package workflow

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A line of a file in testdata/mistakes reads "RIGHT #! WRONG #= CODE: PHRASE". The file with
// the right line has no problem; with the wrong one it has exactly one more, at that line, and
// the phrase is in what it says.
func TestAMistakeInOneLineIsFoundThere(t *testing.T) {
	list := files(t, "mistakes")
	if len(list) < 30 {
		t.Errorf("there are %d files", len(list))
	}
	for _, path := range list {
		t.Run(filepath.Base(path), func(t *testing.T) {
			m := readMistake(t, string(read(t, path)))
			before := problems(m.right)
			for _, d := range before {
				if d.Severity == Error {
					t.Errorf("the right file has a problem: %s", d)
				}
			}
			var found []Diagnostic
			for _, d := range problems(m.wrong) {
				if !slices.Contains(before, d) {
					found = append(found, d)
				}
			}
			shown := Render(found, []byte(m.wrong))
			switch {
			case len(found) != 1:
				t.Errorf("%d problems\n%s", len(found), shown)
			case string(found[0].Code) != m.code || found[0].Pos.Line != m.line:
				t.Errorf("want %s at line %d:\n%s", m.code, m.line, shown)
			case !strings.Contains(shown, m.phrase):
				t.Errorf("it does not say %q:\n%s", m.phrase, shown)
			}
		})
	}
}

// problems leaves out information, which is about the file as it is.
func problems(text string) []Diagnostic {
	_, list := Compile(Source{Path: "ci.yml", Text: []byte(text)}, Inputs{}, Limits{})
	return Warnings(list)
}

type mistake struct {
	right, wrong string
	line         int
	code, phrase string
}

func readMistake(t *testing.T, text string) mistake {
	t.Helper()
	var m mistake
	for number, line := range strings.Split(text, "\n") {
		right, rest, marked := strings.Cut(line, " #! ")
		if !marked {
			m.right, m.wrong = m.right+line+"\n", m.wrong+line+"\n"
			continue
		}
		wrong, want, _ := strings.Cut(rest, " #= ")
		m.right, m.wrong, m.line = m.right+right+"\n", m.wrong+wrong+"\n", number+1
		m.code, m.phrase, _ = strings.Cut(want, ": ")
	}
	if m.line == 0 || m.phrase == "" {
		t.Fatal("no line has a mistake")
	}
	return m
}
