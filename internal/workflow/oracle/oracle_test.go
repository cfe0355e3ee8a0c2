package oracle

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

const root = "../../.."

// Each run of the suite asks the same questions; another seed is tried by hand.
const (
	seed      = 1
	questions = 12_000
)

// GitHub's published implementation and ours answer alike, apart from what a rule says.
func TestGitHubsImplementationAnswersAlike(t *testing.T) {
	asked := Generate(seed, questions)
	said, err := Ask(root, asked)
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]int)
	values, problems, unexplained := 0, 0, 0
	for i, q := range asked {
		ours, err := ask(q.Expr, false, q.Contexts)
		if err != nil {
			t.Fatal(err)
		}
		if ours.Err == nil {
			values++
		} else {
			problems++
		}
		for _, name := range said[i].Rules {
			used[name]++
		}
		if said[i].Ruled.Agrees(ours) {
			continue
		}
		if unexplained++; unexplained <= 20 {
			t.Errorf("%s\n  over %.40s…\n  ours   %s\n  theirs %s\n  ruled  %s %v", q.Expr, q.Contexts, shown(ours),
				said[i].Raw, said[i].Ruled, said[i].Rules)
		}
	}
	var lines []string
	for _, rule := range Rules() {
		if used[rule.Name] == 0 {
			t.Errorf("the rule %s explains nothing", rule.Name)
		}
		lines = append(lines, fmt.Sprintf("%s %d", rule.Name, used[rule.Name]))
	}
	t.Logf("%d expressions: %d values, %d problems, %d unexplained; by rule: %s", len(asked), values, problems,
		unexplained,
		strings.Join(lines, ", "))
}

// The table of what is available where is that of GitHub's published schema.
func TestAvailabilityIsThatOfGitHubsSchema(t *testing.T) {
	modules, err := Modules(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(modules, "@actions/workflow-parser/dist/workflow-v1.0.min.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Definitions map[string]struct {
			Context []string `json:"context"`
		} `json:"definitions"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	for _, site := range expr.Sites() {
		a, ok := site.Availability()
		if !ok {
			t.Errorf("%s has no row", site)
		}
		var want []string
		for _, name := range schema.Definitions[string(site)].Context {
			want = append(want, strings.ToLower(name))
		}
		if diff := cmp.Diff(sorted(want), sorted(names(a))); diff != "" {
			t.Errorf("%s: %s", site, diff)
		}
	}
}

func names(a expr.Availability) []string {
	out := slices.Clone(a.Contexts)
	for _, f := range a.Functions {
		most := fmt.Sprint(f.Max)
		if f.Max == math.MaxInt {
			most = "max"
		}
		out = append(out, strings.ToLower(fmt.Sprintf("%s(%d,%s)", f.Name, f.Min, most)))
	}
	return out
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

var rewrite = flag.Bool("rewrite", false, "write the table of rules into the manual")

// The manual has the rules as the code has them.
func TestTheManualListsTheRules(t *testing.T) {
	page := filepath.Join(root, "docs/reference/compatibility.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rules: written by go test ./internal/workflow/oracle -rewrite -->\n",
		"<!-- end of rules -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no place for the rules")
	}
	var table strings.Builder
	table.WriteString("\n| rule | says |\n| --- | --- |\n")
	for _, rule := range Rules() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", rule.Name, rule.Says)
	}
	want := before + begin + table.String() + "\n" + end + after
	if *rewrite {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
}
