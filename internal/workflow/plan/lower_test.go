package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Promises: [FORMAT-2].
func TestAPlanForOldReaders(t *testing.T) {
	shown := formOne()
	shown.RunName, shown.Jobs[0].Permissions = "CI", &Permissions{All: "read-all"}
	got, ok := shown.FormOne()
	if diff := cmp.Diff(formOne(), got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if shown.RunName == "" || shown.Jobs[0].Permissions == nil {
		t.Error("the plan itself was changed")
	}
	for name, add := range map[string]func(*Plan){
		"outputs":  func(p *Plan) { p.Jobs[0].Outputs = []Binding{{"a", "b"}} },
		"a matrix": func(p *Plan) { p.Jobs[0].Strategy = &Strategy{} },
		"legs":     func(p *Plan) { p.Legs = []Leg{{}} },
		"a text":   func(p *Plan) { p.Jobs[0].Steps[0].TimeoutText = "${{ 1 }}" },
		"a shell":  func(p *Plan) { p.Jobs[0].Steps[0].Shell = "${{ env.SHELL }}" },
		"another":  func(p *Plan) { p.Jobs[0].Steps[0].SoftFailText = "${{ true }}" },
	} {
		p := formOne()
		add(p)
		if _, ok := p.FormOne(); ok {
			t.Errorf("readers of form 1 would not understand %s", name)
		}
	}
}

// Promises: [FORMAT-2].
func TestAPlanForReadersOfFormTwo(t *testing.T) {
	shown := formTwo()
	shown.Jobs[1].Environment = &Environment{Name: "staging"}
	got, ok := shown.FormTwo()
	if diff := cmp.Diff(formTwo(), got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	for name, add := range map[string]func(*Plan){
		"a group":       func(p *Plan) { p.Concurrency = &Concurrency{} },
		"a job's group": func(p *Plan) { p.Jobs[0].Concurrency = &Concurrency{} },
		"a call":        func(p *Plan) { p.Jobs[0].Call = &Call{} },
		"a called job":  func(p *Plan) { p.Jobs[1].In = new(int) },
		"a container":   func(p *Plan) { p.Jobs[0].Container = &Container{} },
		"services":      func(p *Plan) { p.Jobs[0].Services = []Service{{}} },
		"options":       func(p *Plan) { p.Jobs[0].Steps[0].With = []Binding{{"a", "b"}} },
		"an action":     func(p *Plan) { p.Jobs[0].Steps[0].Action = "a/b@v1" },
	} {
		p := formTwo()
		add(p)
		if _, ok := p.FormTwo(); ok {
			t.Errorf("readers of form 2 would not understand %s", name)
		}
	}
}
