package rule

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// site is a step's script with what the tests below know about its surroundings.
func site(t *testing.T, text string) Site {
	t.Helper()
	tmpl, err := expr.ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return Site{
		Key: "run", Text: text, Template: tmpl, Node: &syntax.Node{Value: text},
		Inputs: []Input{{"free", "string"}, {"pick", "choice"}, {"count", "number"}},
		Jobs:   []string{"a", "b"}, Needs: []string{"a"}, Before: []string{"one"}, Later: []string{"two"},
		Outputs: map[string][]string{"A": {"x", "Y"}}, Matrix: []string{"os"},
	}
}

func TestInjectionFollowsWhereTextFlows(t *testing.T) {
	for text, want := range map[string]int{
		"${{ github.head_ref }}": 1, "${{ github.event.issue.title }}": 1, "${{ github.event.inputs.free }}": 1,
		"${{ github.event.inputs.pick }}": 0, "${{ inputs.free }}": 1, "${{ inputs.pick }}": 0, "${{ inputs.count }}": 0,
		"${{ github.event.pull_request.number }}": 0, "${{ github.event.pull_request.head.sha }}": 0,
		"${{ github.event.workflow_run.head_branch }}": 1, "${{ github.event.comment.created_at }}": 0,
		"${{ github.event }}": 1, "${{ toJSON(github.event) }}": 1,
		"${{ inputs.undeclared }}": 1, "${{ inputs.*.x }}": 1, "${{ toJSON(inputs) }}": 1, "${{ github.sha }}": 0,
		"${{ inputs.free == 'x' }}": 0, "${{ contains(inputs.free, 'x') }}": 0, "${{ inputs.free && 'yes' || 'no' }}": 0,
		"${{ inputs.free || 'no' }}": 1, "${{ format('{0}', inputs.free) }}": 1,
		"${{ case(inputs.free == 'x', 1, inputs.free) }}": 1,
		"${{ GITHUB.HEAD_REF }}":                          1, "$HEAD ${{ github.ref_name }} ${{ inputs['free'] }}": 2,
	} {
		if got := Injection(site(t, text)); len(got) != want {
			t.Errorf("%s: %d findings, want %d", text, len(got), want)
		}
	}
	other := site(t, "${{ inputs.free }}")
	other.Key = "env"
	if got := Injection(other); len(got) != 0 {
		t.Errorf("a variable is the cure, not the illness: %v", got)
	}
	got := Injection(site(t, "${{ github.event.pull_request.head-ref }}"))
	want := `give it to the step as env: { HEAD_REF: ${{ github.event.pull_request.head-ref }} } ` +
		`and write "$HEAD_REF" in the script`
	if diff := cmp.Diff(want, got[0].Hint); diff != "" {
		t.Error(diff)
	}
}

func TestUndefinedNamesWhatIsMissing(t *testing.T) {
	for text, want := range map[string]string{
		"${{ steps.ONE.outcome }}": "", "${{ steps.one.outputs.x }}": "", "${{ steps.*.outcome }}": "", "${{ steps }}": "",
		"${{ steps.one.result }}":   `a step has no property "result"`,
		"${{ steps.two.outcome }}":  `the step "two" has not run yet at this place`,
		"${{ steps.nope.outcome }}": `the job has no step with the id "nope"`,
		"${{ needs.a.result }}":     "", "${{ needs.a.outputs.x }}": "",
		"${{ needs.A.outputs.y }}": "", "${{ needs.a.outputs.*.x }}": "", "${{ needs.a.outputs }}": "",
		"${{ needs.a.outputs.z }}": `the job "a" has no output "z"`,
		"${{ matrix.OS }}":         "", "${{ matrix }}": "", "${{ matrix.arch }}": `no leg of the matrix has "arch"`,
		"${{ needs.a.outcome }}": `a needed job has no property "outcome"`,
		"${{ needs.b.result }}":  `the job "b" is not among this job's needs`,
		"${{ needs.c.result }}":  `there is no job "c"`,
		"${{ inputs.FREE }}":     "", "${{ env.anything }}": "", "${{ github.event.anything }}": "",
		"${{ inputs.nope }}":    `the workflow has no input "nope"`,
		"${{ github.nope }}":    `github has no property "nope"`,
		"${{ runner.nope }}":    `runner has no property "nope"`,
		"${{ job['nope'].x }}":  `job has no property "nope"`,
		"${{ steps[env.X].x }}": "",
	} {
		got := ""
		for _, f := range Undefined(site(t, text)) {
			got += f.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestAlwaysTrueFindsTexts(t *testing.T) {
	for text, want := range map[string]int{
		"github.ref == 'a' || 'b'": 1, "'false'": 1, "${{ 'x' }}": 1, "${{ true }} ": 1, "toJSON(env)": 1, "'a' && 'b'": 1,
		"env.A && 'b'": 0, "true": 0, "always()": 0, "''": 0, "env.A || ''": 0, "github.ref == 'a' || github.ref == 'b'": 0,
		"contains('a b', env.A)": 0, "": 0,
	} {
		cond, err := expr.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := AlwaysTrue(Site{Key: "if", Text: text, Condition: cond}); len(got) != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
