package compare

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func TestValuesDifferAtTheirPaths(t *testing.T) {
	got := JSON([]byte(`{"a":{"b":[1,2,3],"c":null},"gone":true,"x.y":1}`),
		[]byte(`{"a":{"b":[1,4],"c":"null"},"new":{"k":1},"x.y":2}`))
	want := []Difference{{"a.b[1]", Changed, "2", "4"}, {"a.b[2]", Removed, "3", ""}, {"a.c", Changed, "null", "null"},
		{"gone", Removed, "true", ""}, {"new", Added, "", `{"k":1}`}, {`["x.y"]`, Changed, "1", "2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := JSON([]byte(`{"a":1}`), []byte(`{ "a": 1 }`)); got != nil {
		t.Errorf("space counts: %v", got)
	}
	for _, two := range [][2]string{{"", "{}"}, {"{", "{}"}, {`"a"`, `{"a":[]}`}, {`[]`, `{}`}, {"1", "1.0"}} {
		if got := JSON([]byte(two[0]), []byte(two[1])); len(got) == 0 {
			t.Errorf("%q and %q are equal", two[0], two[1])
		}
	}
}

func TestPlansAreComparedByKey(t *testing.T) {
	step := func(script string) []plan.Step { return []plan.Step{{ID: "a", Uses: plan.UsesRun, Script: script}} }
	before := &plan.Plan{Evaluator: 1, Name: "CI", Jobs: []plan.Job{{Index: 0, Key: "test", Steps: step("make")},
		{Index: 1, Key: "lint", Steps: step("lint")}, {Index: 2, Key: "deploy", Needs: []int{0, 1}, Steps: step("x")}}}
	after := &plan.Plan{Evaluator: 2, Name: "CI", Jobs: []plan.Job{{Index: 0, Key: "build", Steps: step("b")},
		{Index: 1, Key: "test", Needs: []int{0}, Steps: step("make check")},
		{Index: 2, Key: "deploy", Needs: []int{1}, If: "always()", Steps: step("x")}}}
	want := []Difference{{"job test: needs", Added, "", `["build"]`},
		{"job test: steps[0].script", Changed, "make", "make check"}, {"job lint", Removed, "", ""},
		{"job deploy: if", Added, "", "always()"}, {"job deploy: needs[0]", Changed, "lint", "test"},
		{"job deploy: needs[1]", Removed, "test", ""}, {"job build", Added, "", ""}}
	if diff := cmp.Diff(want, Plans(before, after)); diff != "" {
		t.Error(diff)
	}
	if got := Plans(before, before); got != nil {
		t.Errorf("a plan differs from itself: %v", got)
	}
	if got := Plans(nil, after); len(got) == 0 {
		t.Error("no plan is like one")
	}
}

// replayed makes the second text of a whole comparison of the first.
func replayed(before string, lines []Line) string {
	a, at := strings.SplitAfter(before, "\n"), 0
	var out []string
	for _, l := range lines {
		switch l.Kind {
		case Added:
			out = append(out, l.Text)
		case Cut:
			var n int
			_, _ = fmt.Sscanf(l.Text, "%d equal lines", &n)
			for range n {
				out = append(out, strings.TrimSuffix(a[at], "\n"))
				at++
			}
		default:
			if l.Kind == Same {
				out = append(out, l.Text)
			}
			at++
		}
	}
	return strings.Join(out, "\n")
}

func TestLinesMakeTheOtherText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string {
		var lines []string
		for range n {
			lines = append(lines, string(rune('a'+r.IntN(4))))
		}
		return strings.Join(lines, "\n")
	}
	for range 2_000 {
		a, b := text(r.IntN(12)), text(r.IntN(12))
		if got := replayed(a, Lines(a, b)); a != b && got != b {
			t.Fatalf("%q to %q gives %q by %v", a, b, got, Lines(a, b))
		}
	}
	got := Lines("a\nb\nc\nd\ne\nf\ng\n", "a\nb\nc\nd\nX\nf\ng\n")
	want := []Line{{Cut, 0, 0, "1 equal lines"}, {Same, 2, 2, "b"}, {Same, 3, 3, "c"}, {Same, 4, 4, "d"},
		{Removed, 5, 0, "e"}, {Added, 0, 5, "X"}, {Same, 6, 6, "f"}, {Same, 7, 7, "g"}, {Same, 8, 8, ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLinesAreBounded(t *testing.T) {
	var a, b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	got := Lines(a.String(), b.String())
	if len(got) != linesMax+1 || got[linesMax].Kind != Cut {
		t.Errorf("%d lines", len(got))
	}
	long := Lines(strings.Repeat("x", 1<<20), strings.Repeat("y", 1<<20))
	if len(long) != 2 || len(long[0].Text) > lineBytes+10 {
		t.Errorf("a long line is %d bytes", len(long[0].Text))
	}
}
