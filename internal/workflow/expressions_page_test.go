package workflow

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

const expressionsPage = docs + "/reference/expressions.md"

// Every example of the page about expressions has the value that it says.
func TestExamplesOfExpressions(t *testing.T) {
	page, err := os.ReadFile(expressionsPage)
	if err != nil {
		t.Fatal(err)
	}
	contexts, count, fence := expr.Object(), 0, ""
	var given strings.Builder
	for number, line := range strings.Split(string(page), "\n") {
		if word, fenced := strings.CutPrefix(line, "```"); fenced {
			if fence == "json contexts" {
				if contexts, err = expr.FromJSON(given.String()); err != nil {
					t.Fatal(err)
				}
			}
			fence = word
			continue
		}
		switch fence {
		case "json contexts":
			given.WriteString(line + "\n")
		case "expressions", "templates":
			count++
			text, want, ok := strings.Cut(line, "  =>  ")
			if !ok {
				t.Errorf("line %d has no =>", number+1)
			}
			a := expr.Ask(expr.Question{Text: strings.TrimRight(text, " "), Template: fence == "templates", Contexts: contexts,
				Status: expr.StepStatus{}})
			got := string(a.Value.Exact())
			if a.Err != nil {
				got = string(a.Err.Phase) + " error"
			}
			if got != want {
				t.Errorf("line %d: %s is %s, not %s", number+1, text, got, want)
			}
		}
	}
	if count < 60 {
		t.Errorf("only %d examples were found", count)
	}
}

// The table of sites on that page is made from the table in the code.
func TestTableOfSites(t *testing.T) {
	page, err := os.ReadFile(expressionsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- sites: written by go test ./internal/workflow -rewrite -->\n", "<!-- end of sites -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("the page has no place for the table")
	}
	var table strings.Builder
	table.WriteString("\n| keys | contexts | functions |\n| --- | --- | --- |\n")
	for _, row := range siteRows() {
		a, _ := row.sites[0].Availability()
		for _, other := range row.sites[1:] {
			if b, _ := other.Availability(); fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s and %s are in one row and differ", row.sites[0], other)
			}
		}
		var functions []string
		for _, f := range a.Functions {
			ids := ""
			if f.Max == math.MaxInt {
				ids = "ids…"
			}
			functions = append(functions, "`"+f.Name+"("+ids+")`")
		}
		fmt.Fprintf(&table, "| %s | `%s` | %s |\n", row.keys, strings.Join(a.Contexts, "` `"), strings.Join(functions, " "))
	}
	table.WriteString("\n")
	golden(t, expressionsPage, []byte(before+begin+table.String()+end+after))
}

// siteRow is keys that see the same things.
type siteRow struct {
	keys  string
	sites []expr.Site
}

func siteRows() []siteRow {
	return []siteRow{
		{"`run-name`, `concurrency` of the workflow, defaults of inputs of `workflow_call`",
			[]expr.Site{expr.SiteRunName, expr.SiteWorkflowConcurrency, expr.SiteCallInputDefault}},
		{"`env` of the workflow", []expr.Site{expr.SiteWorkflowEnv}},
		{"outputs of `workflow_call`", []expr.Site{expr.SiteCallOutput}},
		{"`if` of a job", []expr.Site{expr.SiteJobIf}},
		{"`strategy`", []expr.Site{expr.SiteStrategy}},
		{"`name`, `runs-on`, `timeout-minutes`, `continue-on-error`, `concurrency`, `environment`, `container`, " +
			"`services` and `with` of a job",
			[]expr.Site{expr.SiteJobName, expr.SiteRunsOn, expr.SiteJobTimeout, expr.SiteJobSoftFail, expr.SiteJobConcurrency,
				expr.SiteEnvironment, expr.SiteContainer, expr.SiteServices, expr.SiteCallWith}},
		{"`env` of a job", []expr.Site{expr.SiteJobEnv}},
		{"`secrets` of a job that calls a workflow", []expr.Site{expr.SiteCallSecrets}},
		{"`defaults.run` of a job", []expr.Site{expr.SiteDefaultsRun}},
		{"`credentials` of a container", []expr.Site{expr.SiteCredentials}},
		{"`outputs` of a job, `env` of a container", []expr.Site{expr.SiteJobOutputs}},
		{"`url` of an environment", []expr.Site{expr.SiteEnvironmentURL}},
		{"`if` of a step", []expr.Site{expr.SiteStepIf}},
		{"all other keys of a step", []expr.Site{expr.SiteStepText, expr.SiteStepName, expr.SiteStepEnv, expr.SiteStepWith,
			expr.SiteStepTimeout, expr.SiteStepSoftFail}},
	}
}
