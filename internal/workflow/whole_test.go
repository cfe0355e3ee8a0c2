package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// The nearest default counts, each key for itself, and only for steps with run.
func TestDefaultsOfRun(t *testing.T) {
	p := compiled(t, `on: push
defaults: {run: {shell: bash, working-directory: top}}
jobs:
  a:
    runs-on: linux
    steps: [checkout, {run: x}, {run: x, shell: sh, working-directory: own}]
  b:
    runs-on: linux
    defaults: {run: {working-directory: 'of/${{ github.ref_name }}'}}
    steps: [{run: x}, {run: x, shell: python}]
  c:
    runs-on: linux
    defaults: {run: {shell: "${{ github.ref_name == 'main' && 'pwsh' || 'sh' }}"}}
    steps: [{run: x}]
`)
	var got []string
	for _, job := range p.Jobs {
		for _, s := range job.Steps {
			got = append(got, fmt.Sprintf("%s: %s in %s", job.Key, s.Shell, s.WorkDir))
		}
	}
	want := []string{"a:  in ", "a: bash in top", "a: sh in own", "b: bash in of/${{ github.ref_name }}",
		"b: python in of/${{ github.ref_name }}", "c: pwsh in top"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The name of the run is kept as a template; the permissions of a job are its own or else the
// workflow's, in the order of the file.
func TestRunNameAndPermissions(t *testing.T) {
	p := compiled(t, `on: push
run-name: build of ${{ github.ref_name }} by ${{ github.actor }}
permissions: {contents: read, id-token: write}
jobs:
  a: {runs-on: linux, steps: [checkout]}
  b: {runs-on: linux, steps: [checkout], permissions: write-all}
  c: {runs-on: linux, steps: [checkout], permissions: {}}
`)
	if p.RunName != "build of ${{ github.ref_name }} by ${{ github.actor }}" {
		t.Errorf("run name %q", p.RunName)
	}
	var got []*plan.Permissions
	for _, job := range p.Jobs {
		got = append(got, job.Permissions)
	}
	want := []*plan.Permissions{
		{Scopes: []plan.Permission{{Scope: "contents", Level: "read"}, {Scope: "id-token", Level: "write"}}},
		{All: "write-all"}, {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p := compiled(t, minimal); p.RunName != "" || p.Jobs[0].Permissions != nil {
		t.Errorf("a file that says nothing of it has %q, %v", p.RunName, p.Jobs[0].Permissions)
	}
}

// What this release has not got is refused, and what is wrong beside it or in it is reported
// all the same.
func TestWhatIsRefusedIsCheckedToo(t *testing.T) {
	list := problems(`on: push
jobs:
  a:
    runs-on: linux
    concurrency: {group: 'x-${{ github.reff }}', cancel-in-progres: true, queue: max}
    environment: {name: 'y-${{ nope.x }}', url: '${{ steps.deploy.outputs.url }}'}
    container: {image: alpine, env: {A: [1]}, credentials: {username: u, password: '${{ secrets.P }}'}}
    services: {db: {image: postgres, port: ['5432:5432']}}
    steps:
      - {id: deploy, run: make deploy}
`)
	var got []string
	for _, d := range list {
		if !strings.HasPrefix(string(d.Code), "unsupported_") {
			got = append(got, fmt.Sprintf("%d:%d %s", d.Pos.Line, d.Pos.Column, d.Code))
		}
	}
	want := []string{"5:33 undefined_reference", "5:50 unknown_key", "6:32 unknown_context", "7:41 wrong_type",
		"8:38 unknown_key"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, list)
	}
}

// Errors are never hidden behind a hundred warnings.
func TestErrorsComeBeforeWarnings(t *testing.T) {
	text := "on: push\njobs:\n  a:\n    runs-on: linux\n    steps:\n" +
		strings.Repeat("      - run: echo ${{ github.head_ref }}\n", 150) + "      - rum: echo\n"
	list := problems(text)
	last := list[len(list)-1]
	if len(list) != 101 || !Failed(list[:100]) || last.Code != "too_many_problems" || last.Severity != Warning {
		t.Errorf("%d problems, an error among them: %v, the last is %v", len(list), Failed(list[:100]), last)
	}
}
