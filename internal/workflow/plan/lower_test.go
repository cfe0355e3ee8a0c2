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
