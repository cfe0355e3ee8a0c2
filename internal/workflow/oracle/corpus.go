package oracle

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// Tally counts the cases of one file of a corpus by who says what they shall give.
type Tally struct {
	File, Authority string
	Passed          int
	Differ          []Difference
}

// Difference is a case that we answer in another way. Reason says why that is meant; it is
// empty for what needs to be looked into.
type Difference struct {
	ID, Text, Detail, Reason string

	asked Asked
	ours  expr.Answer
}

// Reasons for a difference.
const (
	// ReasonGitHub: GitHub's own implementation answers as we do, and not as the author of the
	// case says. Only asked where the author is somebody else.
	ReasonGitHub = "GitHub's implementation answers as we do"
	// ReasonRule: GitHub's implementation answers as we do once the rules are in force.
	ReasonRule = "a rule says so: "
	// ReasonMemory: the bound on memory in GitHub's case is smaller than that of workflows.
	ReasonMemory = "the case has the bound of a unit test, 1 MiB in UTF-16; workflows have 10 MiB"
	// ReasonContexts: the case refers to values that its file does not give.
	ReasonContexts = "the values that the case is about are not in it"
)

// corpusCase is one line of a corpus.
type corpusCase struct {
	ID        string          `json:"id"`
	Authority string          `json:"authority"`
	Expr      string          `json:"expr"`
	Template  string          `json:"template"`
	Contexts  json.RawMessage `json:"contexts"`
	Custom    []string        `json:"custom"`
	Expect    json.RawMessage `json:"expect"`
}

// Corpus runs every case of the files eval, fuzz, interp, syntax and check (.jsonl) in a
// folder, as far as they are there. What a case means depends on its file.
func Corpus(folder string) ([]*Tally, error) {
	var out []*Tally
	for _, kind := range []struct {
		name  string
		judge func(corpusCase) string
	}{{"eval", judgeEval}, {"fuzz", judgeEval}, {"interp", judgeInterp}, {"syntax", judgeSyntax}, {"check", judgeCheck}} {
		file, err := os.Open(filepath.Join(folder, kind.name+".jsonl"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tallies, err := runCorpus(file, kind.name, kind.judge)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s.jsonl: %w", kind.name, err)
		}
		out = append(out, tallies...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds none of eval.jsonl, fuzz.jsonl, interp.jsonl, syntax.jsonl, check.jsonl", folder)
	}
	return out, nil
}

func runCorpus(in io.Reader, name string, judge func(corpusCase) string) ([]*Tally, error) {
	const lineMax = 16 << 20
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineMax)
	var out []*Tally
	by := make(map[string]*Tally)
	for lines.Scan() {
		var c corpusCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, err
		}
		if c.Authority == "" {
			c.Authority = "@actions/expressions"
		}
		t := by[c.Authority]
		if t == nil {
			t = &Tally{File: name, Authority: c.Authority}
			by[c.Authority] = t
			out = append(out, t)
		}
		if why := judge(c); why != "" {
			t.Differ = append(t.Differ, c.differs(name, why))
			continue
		}
		t.Passed++
	}
	return out, lines.Err()
}

// differs is the report of a case, with what may explain it.
func (c corpusCase) differs(file, why string) Difference {
	d := Difference{ID: c.ID, Text: c.Expr + c.Template, Detail: why, asked: Asked{Expr: c.Expr,
		Contexts: string(c.Contexts)}}
	switch {
	case strings.Contains(string(c.Expect), "The maximum allowed memory size was exceeded"):
		d.Reason = ReasonMemory
	case c.Template != "" && strings.Contains(why, string(expr.CodeUnknownContext)):
		d.Reason = ReasonContexts
	}
	if file == "syntax" || file == "check" {
		d.asked.Contexts = worldOf(c.Expr)
	}
	if answer, err := ask(d.asked.Expr, false, d.asked.Contexts); err == nil {
		d.ours = answer
	}
	return d
}

// worldOf is contexts for everything that a text may mean.
func worldOf(text string) string {
	var out strings.Builder
	for _, name := range append(words.FindAllString(text, -1), expr.ContextNames()...) {
		if out.Len() > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "%q: {}", name)
	}
	return "{" + out.String() + "}"
}

var words = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_-]*`)

// Explain asks GitHub's implementation about every difference that has no reason. root is
// the root of the repository.
func Explain(root string, tallies []*Tally) error {
	var open []*Difference
	var asked []Asked
	for _, t := range tallies {
		for i := range t.Differ {
			if d := &t.Differ[i]; d.Reason == "" && d.asked.Expr != "" {
				open, asked = append(open, d), append(asked, d.asked)
			}
		}
	}
	said, err := Ask(root, asked)
	if err != nil {
		return err
	}
	for i, d := range open {
		switch {
		case said[i].Raw.Agrees(d.ours):
			d.Reason = ReasonGitHub
		case said[i].Ruled.Agrees(d.ours):
			d.Reason = ReasonRule + strings.Join(said[i].Rules, ", ")
		}
	}
	return nil
}

// expectation is what a case of eval.jsonl shall give.
type expectation struct {
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
	Error *struct {
		Phase   string `json:"phase"`
		Message string `json:"message"`
	} `json:"error"`
}

var position = regexp.MustCompile(`Located at position (\d+) within`)

func judgeEval(c corpusCase) string {
	var want expectation
	if err := json.Unmarshal(c.Expect, &want); err != nil {
		return err.Error()
	}
	got, err := ask(c.Expr, false, string(c.Contexts))
	if err != nil {
		return err.Error()
	}
	shown, err := json.Marshal(got)
	if err != nil {
		return err.Error()
	}
	same := got.Err == nil && want.Error == nil && got.Value.Kind().String() == want.Kind &&
		sameJSON(got.Value.Exact(), want.Value)
	if got.Err != nil && want.Error != nil {
		same = c.Authority != "github" || want.Error.Phase == string(got.Err.Phase) && samePlace(c.Expr, got.Err,
			want.Error.Message)
	}
	if same {
		return ""
	}
	return fmt.Sprintf("want %s\n    got  %s", c.Expect, shown)
}

// samePlace compares the place of a problem with the one in a message that names it, where
// characters are counted from 1.
func samePlace(text string, got *expr.Error, message string) bool {
	found := position.FindStringSubmatch(message)
	if found == nil || strings.HasPrefix(message, "Unexpected end of expression") {
		return true // at the end of a text, GitHub names the last symbol and we name the end
	}
	want, err := strconv.Atoi(found[1])
	return err == nil && units(text[:got.Span.Start])+1 == want
}

// units is the length of text in UTF-16.
func units(text string) int {
	count := 0
	for _, r := range text {
		if count++; r > 0xFFFF {
			count++
		}
	}
	return count
}

// sameJSON compares two JSON texts as values; the order of names does not count, and minus
// zero, which can't be told from zero in the language, is zero.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	if x == 0.0 && y == 0.0 {
		return true
	}
	p, errP := json.Marshal(x)
	q, errQ := json.Marshal(y)
	return errP == nil && errQ == nil && string(p) == string(q)
}

func judgeInterp(c corpusCase) string {
	var want string
	if err := json.Unmarshal(c.Expect, &want); err != nil {
		return err.Error()
	}
	got, err := ask(c.Template, true, string(c.Contexts))
	switch {
	case err != nil:
		return err.Error()
	case got.Err != nil:
		return got.Err.Error()
	case got.Value.Text() != want:
		return fmt.Sprintf("want %q, got %q", want, got.Value.Text())
	}
	return ""
}

// judgeSyntax looks at reading alone: which contexts exist does not count.
func judgeSyntax(c corpusCase) string {
	var want string
	if json.Unmarshal(c.Expect, &want) != nil {
		want = "error"
	}
	_, err := expr.Parse(c.Expr)
	switch {
	case want == "error" && err == nil:
		return fmt.Sprintf("want %s, but it can be read", c.Expect)
	case want == "ok" && err != nil, want == "lexes" && err != nil && phaseOf(err) == expr.PhaseLexing:
		return err.Error()
	}
	return ""
}

func phaseOf(err error) expr.Phase {
	if e, ok := err.(*expr.Error); ok {
		return e.Phase
	}
	return ""
}

// judgeCheck looks at what the checks before a run find. A case does not say where its
// expression stands, so it is fine if it is fine at one place.
func judgeCheck(c corpusCase) string {
	var want string
	if json.Unmarshal(c.Expect, &want) != nil {
		want = "error"
	}
	var problems []string
	t, err := expr.ParseTemplate("${{ " + c.Expr + " }}")
	if err != nil {
		problems = append(problems, err.Error())
	} else {
		for _, site := range expr.Sites() {
			found := t.Check(site, string(site))
			if len(found) == 0 {
				problems = nil
				break
			}
			problems = append(problems, found[0].Error())
		}
	}
	if (want == "ok") == (len(problems) == 0) {
		return ""
	}
	return fmt.Sprintf("want %s, got %s", c.Expect, strings.Join(problems, "; "))
}
