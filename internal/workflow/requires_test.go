package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Whatever compiles and is not run is a requirement with its place, and nothing else is.
func TestWhatIsNotRunIsARequirement(t *testing.T) {
	p, list := Compile(Source{Path: "w.yml", Text: []byte(`on: push
jobs:
  a:
    runs-on: {group: big, labels: [linux]}
    environment: {name: staging, url: 'https://x'}
    container: {image: alpine, credentials: {username: u, password: '${{ secrets.P }}'}}
    services: {db: {image: 'postgres:17', ports: ['5432:5432'], env: {A: b}}}
    resources: {cpu: 2}
    env: {A: '${{ vars.A }}'}
    steps:
      - uses: actions/checkout@v4
        with: {fetch-depth: 1, token: '${{ secrets.GITHUB_TOKEN }}', submodules: recursive}
      - {uses: actions/setup-go@v5, with: {go-version: stable}, id: go}
      - run: echo ${{ steps.go.outputs.go-version }}
        env: {T: '${{ github.token }}'}
      - {run: dir, shell: cmd}
      - {run: serve, background: true, id: s}
      - wait: s
      - deploy: it
  b:
    runs-on: '${{ vars.RUNNER }}'
    steps: [{run: 'echo ${{ toJSON(vars) }}', env: '${{ fromJSON(vars.E) }}'}]
  c:
    runs-on: linux
    steps: [checkout, run: make]
`)}, Inputs{Event: EventPush}, Limits{})
	if p == nil {
		t.Fatal(list)
	}
	var got, warned []string
	for _, r := range plan.Requires(p) {
		got = append(got, fmt.Sprintf("%s %d:%d %s", p.Jobs[r.Job].Key, r.Step, r.Line, r.Code))
	}
	for _, d := range list {
		if Required(d) {
			warned = append(warned, string(d.Code))
		}
	}
	want := []string{
		"a -1:11 not_run_container", "a -1:11 not_run_services", "a -1:11 not_run_runner_group", "a -1:11 not_run_key",
		"a -1:11 not_run_secrets", "a -1:11 not_run_vars", "a 0:11 not_run_checkout_option", "a 1:13 not_run_action",
		"a 3:16 not_run_shell", "a 4:17 not_run_background_steps", "a 5:18 not_run_background_steps",
		"a 6:19 not_run_deployment",
		"b -1:22 not_run_dynamic_value", "b -1:22 not_run_vars", "b 0:22 not_run_dynamic_value",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(warned) != len(want) {
		t.Errorf("warnings of %v", warned)
	}
	if !p.Jobs[0].Effectful || p.Jobs[1].Effectful || p.Jobs[0].Environment.Name != "staging" {
		t.Error("a job with an environment or a secret is effectful, and no other")
	}
	for _, d := range Refused(list) {
		if Required(d) && d.Severity != Error {
			t.Errorf("%s is no refusal", d)
		}
	}
}

// Values that ask for what happens anyway leave nothing in the plan, so such files run.
func TestNeutralOptionsOfCheckout(t *testing.T) {
	p := compiled(t, `on: push
jobs:
  a:
    runs-on: linux
    steps:
      - uses: actions/checkout@v4
        with:
          Fetch-Depth: 1
          ref: ${{ github.sha }}
          repository: ${{ github.repository }}
          token: ${{ secrets.GITHUB_TOKEN }}
          persist-credentials: false
          clean: true
          lfs: false
          show-progress: false
`)
	if step := p.Jobs[0].Steps[0]; len(step.With) > 0 || step.Uses != plan.UsesCheckout || p.Jobs[0].Effectful {
		t.Errorf("%+v", step)
	}
	if _, lowered := p.FormTwo(); !lowered {
		t.Error("a reader of form 2 can't execute it")
	}
}

// F10: steps without an id have the one that other systems give them.
func TestF10IDsOfUnnamedSteps(t *testing.T) {
	p := compiled(t, "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n"+
		"      - uses: actions/checkout@v4\n      - uses: Actions/Checkout@v4\n      - uses: a/b.c/d@v1\n"+
		"      - uses: ./x\n      - uses: $/y\n      - uses: docker://alpine:3\n      - run: make\n      - run: make\n")
	var got []string
	for _, s := range p.Jobs[0].Steps {
		got = append(got, s.ID)
	}
	want := "__actions_checkout __Actions_Checkout_2 __a_b_c __self __self_2 __alpine_3 __run __run_2"
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Error(diff)
	}
}
