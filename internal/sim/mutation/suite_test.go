package mutation

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/sim"
)

// passing is a report of a suite in which everything is as it should be.
func passing() Report {
	r := Report{Clean: 10}
	for i, sentence := range sim.Sentences() {
		r.Verdicts = append(r.Verdicts, Verdict{
			Mutation: Mutation{Name: "a-" + string(rune('a'+i)), Breaks: "x | y", Worlds: 10},
			Catches:  []Catch{{Seed: uint64(i + 1), Check: sentence, What: "one\ntwo"}},
		})
	}
	for len(r.Verdicts) < Fewest {
		r.Verdicts = append(r.Verdicts, r.Verdicts[0])
	}
	return r
}

func TestSuiteFails(t *testing.T) {
	r := passing()
	if r.judge(true); len(r.Problems) > 0 || r.Caught() != len(r.Verdicts) {
		t.Fatalf("a suite that should pass: %d caught, %q", r.Caught(), r.Problems)
	}
	for want, spoil := range map[string]func(*Report){
		"escaped":                     func(r *Report) { r.Verdicts[len(r.Verdicts)-1].Catches = nil },
		"no verdict":                  func(r *Report) { r.Verdicts[len(r.Verdicts)-1].Err = errors.New("does not build") },
		"the unbroken build":          func(r *Report) { r.Dirty = []Catch{{Seed: 3, Check: "c", What: "w"}} },
		"are required":                func(r *Report) { r.Verdicts = r.Verdicts[:Fewest-1] },
		"no mutation was caught":      func(r *Report) { r.Verdicts[1].Catches[0].Check = "something else" },
		sim.Sentences()[1] + `"`:      func(r *Report) { r.Verdicts[1].Catches[0].Check = "something else" },
		"a-b escaped: 10 worlds, and": func(r *Report) { r.Verdicts[1].Catches = nil },
	} {
		r := passing()
		spoil(&r)
		r.judge(true)
		if len(r.Problems) == 0 || !strings.Contains(strings.Join(r.Problems, "\n"), want) {
			t.Errorf("%s: the suite says %q", want, r.Problems)
		}
	}
	part := passing()
	part.Verdicts = part.Verdicts[:1]
	if part.judge(false); len(part.Problems) > 0 {
		t.Errorf("a part of the suite need not hit every check: %q", part.Problems)
	}
}

func TestRecord(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := passing()
	if err := Record(page, &r, at); err == nil {
		t.Error("recorded in a page that is not there")
	}
	write := func(text string) {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n")
	if err := Record(page, &r, at); err == nil {
		t.Error("recorded in a page without marks")
	}
	write("before\n" + recordBegins + "TABLE OF YESTERDAY\n" + recordEnds + "after\n")
	for range 2 { // again changes nothing
		if err := Record(page, &r, at); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if !strings.HasPrefix(text, "before\n"+recordBegins) || !strings.HasSuffix(text, recordEnds+"after\n") ||
		strings.Contains(text, "YESTERDAY") || !strings.Contains(text, "mutations caught on 2026-01-02") ||
		!strings.Contains(text, "| `a-a` | x \\| y | 1 | "+sim.Sentences()[0]+" |") {
		t.Errorf("the page is now\n%s", text)
	}
	r.Dirty = []Catch{{Seed: 1}}
	if err := Record(page, &r, at); err == nil {
		t.Error("recorded a suite whose unbroken build was not clean")
	}
}

// The probe of the build that this test is writes nothing where nothing is wrong, and leaves
// out what it is told to.
func TestProbe(t *testing.T) {
	var out bytes.Buffer
	if err := Probe(&out, 1, 2, 1, []uint64{2}); err != nil || out.Len() > 0 {
		t.Errorf("worlds of the unbroken build: %v, %s", err, out.String())
	}
}
