package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Expansion is a strategy that was expanded.
type Expansion struct {
	FailFast    bool
	MaxParallel int // 0: all legs
	Legs        []plan.Leg
}

// Contexts gives the value of a context by name.
type Contexts func(name string) (expr.Value, bool)

// Expand makes the legs of a job whose strategy only run time tells. The error is a sentence
// for the job's author: it names the key that it is about.
//
// Trust: the values in the contexts may come from anybody; the cost is bounded.
func Expand(job *plan.Job, contexts Contexts) (Expansion, error) {
	e, later := expansion{key: job.Key, base: job.Name}, job.Strategy.Later
	for _, one := range []struct {
		key, text string
		into      **expr.Template
	}{
		{"name", later.Name, &e.name}, {"timeout-minutes", later.Timeout, &e.timeout},
		{"continue-on-error", later.SoftFail, &e.softFail}, {"fail-fast", later.FailFast, &e.failFast},
		{"max-parallel", later.MaxParallel, &e.maxParallel},
	} {
		if one.text == "" {
			continue
		}
		t, err := expr.ParseTemplate(one.text)
		if err != nil {
			return Expansion{}, &legError{key: one.key, err: err}
		}
		*one.into = t
	}
	for _, text := range later.RunsOn {
		t, err := expr.ParseTemplate(text)
		if err != nil {
			return Expansion{}, &legError{key: "runs-on", err: err}
		}
		e.runsOn = append(e.runsOn, t)
	}
	written, err := expr.FromJSON(string(later.Matrix))
	if err != nil {
		return Expansion{}, &legError{key: "matrix", err: err}
	}
	value, err := evaluateTree(written, contexts)
	if err != nil {
		return Expansion{}, &legError{key: "matrix", err: err}
	}
	return e.expand(value, contexts, matrix.LegsMax)
}

// evaluateTree replaces every text of a tree by its value.
func evaluateTree(v expr.Value, contexts Contexts) (expr.Value, error) {
	switch v.Kind() {
	case expr.KindString:
		if !expr.HasExpression(v.Text()) {
			return v, nil
		}
		t, err := expr.ParseTemplate(v.Text())
		if err != nil {
			return v, err
		}
		return t.Eval(expr.Env{Context: contexts})
	case expr.KindArray:
		items := make([]expr.Value, v.Len())
		for i := range items {
			item, err := evaluateTree(v.At(i), contexts)
			if err != nil {
				return v, err
			}
			items[i] = item
		}
		return expr.Array(items...), nil
	case expr.KindObject:
		fields := v.Fields()
		for i := range fields {
			value, err := evaluateTree(fields[i].Value, contexts)
			if err != nil {
				return v, err
			}
			fields[i].Value = value
		}
		return expr.Object(fields...), nil
	}
	return v, nil
}

// expansion is a strategy with its templates parsed; nil ones are keys that say nothing
// about single legs.
type expansion struct {
	key, base             string // of the job; the name of a leg is its base with the leg's values
	name                  *expr.Template
	runsOn                []*expr.Template
	timeout, softFail     *expr.Template
	failFast, maxParallel *expr.Template
}

// legError is what keeps a strategy from being expanded: the key that it is about, and the
// *matrix.Error or expression's error.
type legError struct {
	key string
	err error
}

// Error implements error.
func (e *legError) Error() string {
	var m *matrix.Error
	var x *expr.Error
	switch {
	case errors.As(e.err, &m):
		return m.Message
	case errors.As(e.err, &x):
		return fmt.Sprintf("%s: %s", e.key, x.Message)
	}
	return fmt.Sprintf("%s: %v", e.key, e.err)
}

// Unwrap gives the cause.
func (e *legError) Unwrap() error { return e.err }

func (e *expansion) expand(value expr.Value, contexts Contexts, limit int) (Expansion, error) {
	out := Expansion{FailFast: true}
	if e.failFast != nil {
		v, err := e.failFast.Eval(expr.Env{Context: contexts})
		truth, ok := matrix.TruthOf(v)
		if err == nil && !ok {
			err = fmt.Errorf("%q is not true or false", shorter(v.Text()))
		}
		if err != nil {
			return out, &legError{"fail-fast", err}
		}
		out.FailFast = truth
	}
	if e.maxParallel != nil {
		v, err := e.maxParallel.Eval(expr.Env{Context: contexts})
		n, ok := v.Whole()
		if err == nil && (!ok || n < 1) {
			err = fmt.Errorf("%q is not a whole number from 1", shorter(v.Text()))
		}
		if err != nil {
			return out, &legError{"max-parallel", err}
		}
		out.MaxParallel = int(min(n, matrix.LegsMax))
	}
	definition, err := matrix.Read(value)
	if err != nil {
		return out, &legError{"matrix", err}
	}
	legs, err := definition.Expand(limit)
	if err != nil {
		return out, &legError{"matrix", err}
	}
	out.Legs = make([]plan.Leg, 0, len(legs))
	for i := range legs {
		leg, err := e.leg(legs[i], i, len(legs), out, contexts)
		if err != nil {
			return out, err
		}
		out.Legs = append(out.Legs, leg)
	}
	return out, nil
}

func (e *expansion) leg(in matrix.Leg, index, total int, all Expansion, contexts Contexts) (plan.Leg, error) {
	values, err := in.Values.MarshalJSON()
	if err != nil {
		return plan.Leg{}, &legError{"matrix", err}
	}
	leg := plan.Leg{Key: plan.LegKey(e.key, index+1), Name: matrix.Name(e.base, in), Matrix: json.RawMessage(values)}
	if e.name == nil && e.runsOn == nil && e.timeout == nil && e.softFail == nil {
		return leg, nil
	}
	env := expr.Env{Context: func(name string) (expr.Value, bool) {
		switch name {
		case "matrix":
			return in.Values, true
		case "strategy":
			return matrix.StrategyContext(all.FailFast, all.MaxParallel, index, total), true
		}
		return contexts(name)
	}}
	if e.name != nil {
		v, err := e.name.Eval(env)
		if err != nil {
			return leg, &legError{"name", err}
		}
		if text := strings.TrimSpace(v.Text()); text != "" {
			leg.Name = v.Text()
		}
	}
	if leg.RunsOn, err = e.labels(env); err != nil {
		return leg, &legError{"runs-on", err}
	}
	if e.timeout != nil {
		v, err := e.timeout.Eval(env)
		seconds, ok := matrix.TimeoutOf(v)
		if err == nil && !ok {
			err = fmt.Errorf("%q is not a number of minutes between 0 and %d", shorter(v.Text()), matrix.TimeoutMax/60)
		}
		if err != nil {
			return leg, &legError{"timeout-minutes", err}
		}
		leg.TimeoutSeconds = seconds
	}
	if e.softFail != nil {
		v, err := e.softFail.Eval(env)
		truth, ok := matrix.TruthOf(v)
		if err == nil && !ok {
			err = fmt.Errorf("%q is not true or false", shorter(v.Text()))
		}
		if err != nil {
			return leg, &legError{"continue-on-error", err}
		}
		leg.SoftFail = &truth
	}
	return leg, nil
}

func (e *expansion) labels(env expr.Env) ([]string, error) {
	var out []string
	for _, t := range e.runsOn {
		v, err := t.Eval(env)
		if err != nil {
			return nil, err
		}
		labels, problem := labelsOf(v)
		if problem != "" {
			return nil, errors.New(problem)
		}
		out = append(out, labels...)
	}
	return out, nil
}

// labelsOf reads one label, or a list of them. problem says what is wrong with them.
func labelsOf(v expr.Value) (labels []string, problem string) {
	items := []expr.Value{v}
	if v.Kind() == expr.KindArray {
		items = nil
		for i := range v.Len() {
			items = append(items, v.At(i))
		}
	}
	if len(items) == 0 {
		return nil, "the expression gives an empty list of labels"
	}
	for _, item := range items {
		label := strings.TrimSpace(item.Text())
		if why := badLabel(item, label); why != "" {
			return nil, fmt.Sprintf("%q can't be a label of runs-on: %s", shorter(label), why)
		}
		labels = append(labels, label)
	}
	return slices.Clip(labels), ""
}

// shorter cuts text for a message.
func shorter(text string) string {
	const charactersMax = 60
	if runes := []rune(text); len(runes) > charactersMax {
		return string(runes[:charactersMax]) + "…"
	}
	return text
}
