package plan

import (
	"encoding/json"
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

// formOne is a plan with a value in every field of the first form.
func formOne() *Plan {
	return &Plan{
		Evaluator: 1, Name: "CI <é> & more", Path: ".fairlead/workflows/ci.yml", Event: "workflow_dispatch",
		Inputs: []Input{{"depth", InputNumber, "1.5"}, {"target", InputChoice, "a"}},
		Jobs: []Job{
			{Index: 0, Key: "build", Name: "Build", TimeoutSeconds: 3600,
				Retry: Retry{Max: 2, On: []domain.FailureClass{domain.FailureRunnerLost}, BackoffSeconds: 30},
				Steps: []Step{{Index: 0, ID: "__checkout", Name: "Checkout", Uses: UsesCheckout, Line: 9}}},
			{Index: 1, Key: "deploy", Name: "Deploy", Needs: []int{0}, If: "success() && true",
				RunsOn: []string{"default", "linux"}, Env: []Binding{{"A", "${{ github.sha }}"}}, TimeoutSeconds: 60,
				SoftFail: true, Effectful: true,
				Steps: []Step{{Index: 1, ID: "it", Name: "Do it", Uses: UsesRun, Script: "echo \"1\" > a\n", Shell: "bash",
					WorkDir: "sub", Env: []Binding{{"B", "2"}}, If: "always()", TimeoutSeconds: 5, SoftFail: true,
					Cleanup: true, Line: 20}}},
		},
	}
}

// formTwo adds the name of the run, permissions, outputs, matrices, and what of a step only its
// runner knows.
func formTwo() *Plan {
	p, soft := formOne(), true
	p.RunName = "CI of ${{ github.ref_name }}"
	p.Jobs[0].Permissions = &Permissions{All: "read-all"}
	p.Jobs[1].Permissions = &Permissions{All: "write-all",
		Scopes: []Permission{{"contents", "read"}, {"id-token", "write"}}}
	p.Jobs[0].Outputs = []Binding{{"list", "${{ steps.it.outputs.list }}"}}
	p.Jobs[0].Strategy = &Strategy{FailFast: true, MaxParallel: 2}
	p.Jobs[1].Strategy = &Strategy{Later: &Later{
		Matrix:   json.RawMessage(`{"os":"${{ fromJSON(needs.build.outputs.list) }}","n":[1,"a & b"]}`),
		FailFast: "${{ true }}", MaxParallel: "${{ 2 }}", Name: "On ${{ matrix.os }}", RunsOn: []string{"${{ matrix.os }}"},
		Timeout: "${{ matrix.n }}", SoftFail: "${{ matrix.n == 1 }}",
	}}
	step := &p.Jobs[1].Steps[0]
	step.SoftFailText, step.TimeoutText = "${{ matrix.n == 1 }}", "${{ matrix.n }}"
	p.Legs = []Leg{{Of: 0, Key: "build.1", Name: "Build (<a>)", Matrix: json.RawMessage(`{"os":"<a>"}`),
		RunsOn: []string{"linux"}, TimeoutSeconds: 60, SoftFail: &soft}, {Of: 1, Key: "deploy.1", Name: "Deploy (b)",
		Matrix: json.RawMessage(`{"os":"b"}`)}}
	return p
}

// formThree adds called workflows, groups, environments, containers and actions.
func formThree() *Plan {
	p, caller := formTwo(), 0
	group := &Concurrency{Group: "ci-${{ github.ref }}", Cancel: "${{ true }}", Queue: "single", Line: 3}
	p.Concurrency, p.Jobs[1].Concurrency = group, group
	p.Jobs[0].Call = &Call{
		Workflow: "a/b/.github/workflows/c.yml@v1", Component: "git:c8", Path: ".github/workflows/c.yml", Name: "C",
		Inputs: []Input{{"x", InputNumber, "${{ 1 }}"}}, Outputs: []Binding{{"o", "${{ jobs.a.outputs.o }}"}},
		Secrets: &Secrets{Inherit: true, Named: []Binding{{"s", "${{ secrets.S }}"}}},
	}
	p.Jobs[1].In, p.Jobs[1].ID = &caller, "deploy"
	p.Jobs[1].Environment = &Environment{Name: "staging", URL: "https://${{ github.ref }}", NoDeployment: true}
	p.Jobs[1].Container = &Container{Image: "alpine", Env: []Binding{{"A", "1"}}, Ports: []string{"80"},
		Volumes: []string{"a:/b"}, Options: "--cpus 1", User: "u", Password: "${{ secrets.P }}", Entrypoint: "e",
		Command: "c"}
	p.Jobs[1].Services = []Service{{"db", *p.Jobs[1].Container}}
	p.Jobs[1].Steps = append(p.Jobs[1].Steps, Step{Index: 2, ID: "c", Name: "C", Uses: UsesComposite, Line: 30,
		With: []Binding{{"w", "1"}}, Action: "a/b@v1", Component: "git:c9", ActionPath: "sub",
		Steps: []Step{{ID: "i", Name: "I", Uses: UsesRun, Script: "true"}}, Outputs: []Binding{{"o", "${{ 1 }}"}}})
	return p
}

// A run's history names its plan by the digest of these bytes.
// Promises: [FORMAT-14], [FORMAT-17].
func TestStoredPlans(t *testing.T) {
	form := frozen.Form{Name: "testdata/frozen/plan", Newest: 3, Text: true, Rewrite: *rewrite}
	frozen.Full(t, formThree())
	form.Written(t, formThree().Encode())
	for number, want := range []*Plan{formOne(), formTwo(), formThree()} {
		readsAs(t, form, number+1, want)
	}
}

func readsAs(t *testing.T, form frozen.Form, number int, want *Plan) {
	t.Helper()
	data := form.Read(t, number)
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("form %d is read as another plan: %s", number, diff)
	}
	if got.Digest() != domain.DigestOf(data) {
		t.Errorf("form %d has another digest when it was read", number)
	}
}
