package workflow

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// CallInputs evaluates the inputs of a called workflow in the contexts of its caller: the context
// inputs that its jobs see. The error is a sentence for the author of the caller.
//
// Trust: the values in the contexts may come from anybody.
func CallInputs(call *plan.Call, contexts Contexts) (expr.Value, error) {
	out := make([]plan.Input, 0, len(call.Inputs))
	for _, in := range call.Inputs {
		if !expr.HasExpression(in.Value) {
			out = append(out, in)
			continue
		}
		v, err := evaluateText(in.Value, contexts)
		if err != nil {
			return expr.Null(), fmt.Errorf("%s: %w", in.Name, err)
		}
		spec := InputSpec{Name: in.Name, Type: in.Type}
		if why := spec.check(v.Text()); why != "" {
			return expr.Null(), fmt.Errorf("%s: %s", in.Name, why)
		}
		in.Value = spec.normal(v.Text())
		out = append(out, in)
	}
	return InputsContext(out), nil
}

// CallOutputs evaluates the outputs of a called workflow in its own contexts. Empty ones are left out,
// as those of jobs are.
//
// Trust: the values in the contexts may come from anybody.
func CallOutputs(call *plan.Call, contexts Contexts) ([]plan.Binding, error) {
	var out []plan.Binding
	for _, o := range call.Outputs {
		v, err := evaluateText(o.Value, contexts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		if text := v.Text(); text != "" {
			out = append(out, plan.Binding{Name: o.Name, Value: text})
		}
	}
	return out, nil
}

func evaluateText(text string, contexts Contexts) (expr.Value, error) {
	t, err := expr.ParseTemplate(text)
	if err != nil {
		return expr.Null(), err
	}
	return t.Eval(expr.Env{Context: contexts})
}
