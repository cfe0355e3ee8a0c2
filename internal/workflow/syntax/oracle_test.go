package syntax_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

const (
	root      = "../../.."
	workflows = 2_000
)

// difference is a known one between GitHub's published parser and ours. Its reason is in
// docs/reference/compatibility.md under its name.
type difference struct {
	name    string
	example string
	ours    string // we refuse, and only with messages like this
	theirs  string // they refuse, and only with messages like this
}

func differences() []difference {
	job := func(keys string) string {
		return "on: push\njobs:\n  a: {runs-on: x, steps: [{run: x}], " + keys + "}\n"
	}
	steps := func(steps string) string { return "on: push\njobs:\n  a: {runs-on: x, steps: " + steps + "}\n" }
	on := func(on string) string { return "on: " + on + "\njobs:\n  a: {runs-on: x, steps: [{run: x}]}\n" }
	return []difference{
		{name: "references", example: steps("[{uses: x}]"), ours: `\[invalid_reference\]`},
		{name: "no steps", example: "on: push\njobs:\n  a: {runs-on: x}\n", ours: `\[no_steps\]`},
		{name: "empty lists", example: on("{push: {branches: []}}"),
			ours: `(branches|tags|paths|schedule|labels|runs-on)\S* is an empty list`},
		{name: "group names", example: "on: push\nconcurrency: ''\njobs:\n  a: {runs-on: x, steps: [{run: x}]}\n",
			ours: `concurrency group can't be empty|would wait for itself`},
		{name: "no labels", example: "on: push\njobs:\n  a: {runs-on: {}, steps: [{run: x}]}\n", ours: `key "labels"`},
		{name: "two lists", example: on("{push: {branches: [a], branches-ignore: [b]}}"), ours: `used together`},
		{name: "filters", example: on("{push: {branches: ['[']}}"), ours: `\[invalid_filter\]`},
		{name: "ids", example: strings.Replace(steps("[{run: x}]"), "a:", strings.Repeat("a", 100)+":", 1),
			theirs: `less than 100`},
		{name: "need ids", example: job("needs: [B]}\n  b: {runs-on: x, steps: [{run: x}]"), theirs: `unknown job`},
		{name: "step ids", example: steps("[{id: a, run: x}, {id: A, run: x}]"), ours: `\[duplicate_step_id\]`},
		{name: "timeouts", example: job("timeout-minutes: -1"), ours: `\[invalid_timeout\]`},
		{name: "images", example: job("container: {env: {A: '${{ github.sha }}'}}"), ours: `must have the key "image"`},
		{name: "shells", example: steps("[{run: x, shell: zsh}]"), ours: `\[unknown_shell\]`},
		{name: "shell expressions", example: steps("[{run: x, shell: '${{ github.sha }}'}]"),
			theirs: `Unrecognized named-value`},
		{name: "inputs", example: on("{workflow_dispatch: {inputs: {a: {type: number, default: x}}}}"),
			ours: `\[invalid_input_definition\]`},
		{name: "defaults of inputs", example: on("{workflow_dispatch: {inputs: {a: {type: boolean, default: 'true'}}}}"),
			theirs: `input default`},
		{name: "schedules", example: on("{schedule: [{cron: ' 5 4 * * * '}]}"), theirs: `Invalid cron expression`},
		{name: "built-ins", example: steps("[checkout]"), theirs: `Unexpected value 'checkout'`},
		{name: "empty mappings", example: strings.Replace(on("push"), "jobs", "env:\njobs", 1),
			theirs: `: Unexpected value ''$`},
	}
}

// GitHub's parser and ours accept and refuse the same files, apart from the differences above.
func TestGitHubsParserAcceptsTheSameFiles(t *testing.T) {
	var files []string
	for seed := range uint64(workflows) {
		files = append(files, syntax.Generate(seed))
	}
	for _, d := range differences() {
		files = append(files, d.example)
	}
	said := ask(t, files)
	counts, used := make(map[string]int), make(map[string]int)
	for i, text := range files {
		wrong := refusals(text)
		word := map[bool]string{true: "accept", false: "refuse"}
		counts["they "+word[len(said[i]) == 0]+", we "+word[len(wrong) == 0]]++
		if (len(said[i]) == 0) == (len(wrong) == 0) {
			continue
		}
		if name := explained(wrong, said[i]); name != "" {
			used[name]++
			continue
		}
		t.Errorf("seed %d\n%s  they: %s\n  we: %v", i, text, strings.Join(said[i], "\n        "), wrong)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range differences() {
		if got := explained(refusals(d.example), said[workflows+i]); got != d.name {
			t.Errorf("the example of %q is explained by %q: they %v, we %v", d.name, got, said[workflows+i], refusals(d.example))
		}
		if !strings.Contains(string(page), "| "+d.name+" |") {
			t.Errorf("the page of what is compatible does not say why %q differs", d.name)
		}
	}
	t.Log(counts, used)
}

// refusals are the errors that say that a file is wrong; what this release only lacks is none.
func refusals(text string) []workflow.Diagnostic {
	_, list := workflow.Compile(workflow.Source{Path: "w.yml", Text: []byte(text)}, workflow.Inputs{}, workflow.Limits{})
	return slices.DeleteFunc(list, func(d workflow.Diagnostic) bool {
		return d.Severity != workflow.Error || strings.HasPrefix(string(d.Code), "unsupported_")
	})
}

// explained names the difference that all of the refusals come from.
func explained(wrong []workflow.Diagnostic, said []string) string {
	for _, d := range differences() {
		ours := d.ours != "" && len(wrong) > 0 && !slices.ContainsFunc(wrong, func(w workflow.Diagnostic) bool {
			return !regexp.MustCompile(d.ours).MatchString(w.String())
		})
		theirs := d.theirs != "" && len(said) > 0 && !slices.ContainsFunc(said, func(s string) bool {
			return !regexp.MustCompile(d.theirs).MatchString(s)
		})
		if ours || theirs {
			return d.name
		}
	}
	return ""
}
