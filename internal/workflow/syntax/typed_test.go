package syntax

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every part of the language has a typed form, with places, also what is refused yet.
func TestTypedForms(t *testing.T) {
	root, reports := load(t, `name: all
run-name: run
on:
  push: {branches: [a], tags-ignore: b, paths: [c]}
  pull_request: {types: [opened], paths-ignore: [d]}
  schedule: [{cron: '0 1 * * *', timezone: Europe/Berlin}]
  workflow_run: {workflows: [x], types: completed}
  workflow_call:
    inputs: {i: {type: string}}
    secrets: {s: {required: true}}
    outputs: {o: {value: v}}
permissions: read-all
defaults: {run: {shell: bash}}
concurrency: {group: g, queue: max}
jobs:
  a:
    runs-on: {group: big, labels: [l]}
    permissions: {contents: write}
    environment: {name: e, url: u, deployment: false}
    container: {image: i, credentials: {username: n, password: p}, ports: [80], options: o}
    services: {db: {image: pg, command: c, entrypoint: e}}
    snapshot: {image-name: s, version: 1.*}
    steps: [{run: x}]
  b: {uses: ./.github/workflows/x.yml, with: {k: v}, secrets: inherit}
`)
	w := Read(root, reports)
	text := func(n *Node) string {
		if n == nil || n.Start.Line == 0 {
			return "?"
		}
		return n.Value
	}
	a, b := w.Jobs[0], w.Jobs[1]
	on, service := w.On, a.Services[0]
	got := []string{
		text(w.Name), text(w.RunName), text(on.Push.Branches.Patterns[0]), text(on.Push.TagsIgnore.Patterns[0]),
		text(on.Push.Paths.Patterns[0]), text(on.Events[0].Name), text(on.Events[0].Types[0]),
		text(on.Events[0].PathsIgnore.Patterns[0]), text(on.Schedule[0].Cron), text(on.Schedule[0].Timezone),
		text(on.Events[1].Workflows[0]), text(on.Call.Inputs[0].Type), text(on.Call.Secrets[0].Required),
		text(on.Call.Outputs[0].Value), text(w.Permissions.All), text(w.Defaults.Shell), text(w.Concurrency.Group),
		text(w.Concurrency.Queue), text(a.Group), text(a.RunsOn[0]), text(a.Permissions.Scopes[0].Value),
		text(a.Environment.Name), text(a.Environment.URL), text(a.Environment.Deployment), text(a.Container.Image),
		text(a.Container.Password), text(a.Container.Ports[0]), text(service.Name), text(service.Image),
		text(service.Command), text(service.Entrypoint), text(a.Snapshot.ImageName), text(a.Snapshot.Version),
		text(b.Call.Uses), text(b.Call.With[0].Value), text(b.Call.Inherit),
	}
	want := strings.Fields("all run a b c pull_request opened d 0_1_*_*_* Europe/Berlin x string true v read-all " +
		"bash g max big l write e u false i p 80 db pg c e s 1.* ./.github/workflows/x.yml v inherit")
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "_1_", " 1 ")
		want[i] = strings.ReplaceAll(want[i], "*_", "* ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, d := range reports.Sorted() {
		if d.Severity == Error && !strings.HasPrefix(string(d.Code), "unsupported_") {
			t.Errorf("problem: %s", d)
		}
	}
}
