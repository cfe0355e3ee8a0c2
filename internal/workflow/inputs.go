package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Inputs are what a compilation depends on beside the file. They are part of the
// snapshot of a run. The zero Inputs stand for a look at the file alone, as linting
// takes it: nothing is known of any event, and the plan is only good for showing.
type Inputs struct {
	Event      string // EventPush or EventDispatch
	Ref        string // full, like "refs/heads/main"; empty when there is none
	SHA        string
	Repository string
	Actor      string
	Dispatch   map[string]string // values of inputs by name; names count without case
	// Components are what the file's references were resolved to, and theirs; nil: none is followed.
	Components Components
	Pins       Pins
}

// check says why a value does not fit the input's type; empty when it does.
func (s InputSpec) check(value string) string {
	switch s.Type {
	case plan.InputBoolean:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			return fmt.Sprintf("%s is neither true nor false", syntax.Quote(value))
		}
	case plan.InputNumber:
		if !expr.IsNumber(value) {
			return fmt.Sprintf("%s is not a number", syntax.Quote(value))
		}
	case plan.InputChoice:
		if !slices.Contains(s.Options, value) {
			return fmt.Sprintf("%s is not one of the options %s", syntax.Quote(value), quoteAll(s.Options))
		}
	}
	return ""
}

// normal is a fitting value in the one way in which it is written in a plan.
func (s InputSpec) normal(value string) string {
	switch s.Type {
	case plan.InputBoolean:
		return strings.ToLower(value)
	case plan.InputNumber:
		return expr.NumberText(value)
	}
	return value
}

// absent is the value of an input that was not given and has no default.
func (s InputSpec) absent() string {
	switch s.Type {
	case plan.InputBoolean:
		return "false"
	case plan.InputNumber:
		return "0"
	}
	return ""
}

// inputs decides the value of every declared input.
func (c *compiler) inputs() []plan.Input {
	if c.in.Event != EventDispatch {
		return nil
	}
	given := c.given()
	var out []plan.Input
	for _, spec := range c.triggers.Inputs {
		value, ok := given[strings.ToLower(spec.Name)]
		switch {
		case !ok && spec.hasDefault:
			value = spec.Default
		case !ok && spec.Required:
			c.reports.Add(syntax.CodeMissingInput, spec.node.Range,
				fmt.Sprintf("the input %s is required, and no value was given", syntax.Quote(spec.Name)),
				fmt.Sprintf("give it with --input %s=VALUE", spec.Name))
		case !ok:
			value = spec.absent()
		default:
			if why := spec.check(value); why != "" {
				c.reports.Add(syntax.CodeInvalidInputValue, spec.node.Range,
					fmt.Sprintf("the value given for the input %s does not fit: %s", syntax.Quote(spec.Name), why), "")
			} else {
				value = spec.normal(value)
			}
		}
		out = append(out, plan.Input{Name: spec.Name, Type: spec.Type, Value: value})
	}
	return out
}

// given is the given values by lower-case name. Unknown names and too much text are
// reported; sorted names make the reports independent of map order.
func (c *compiler) given() map[string]string {
	out := make(map[string]string, len(c.in.Dispatch))
	var names []string
	for _, spec := range c.triggers.Inputs {
		names = append(names, spec.Name)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(c.in.Dispatch)) {
		size += len(name) + len(c.in.Dispatch[name])
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			c.reports.Add(syntax.CodeUnknownInput, c.onRange(),
				fmt.Sprintf("the workflow has no input %s", syntax.Quote(name)), c.reports.Suggest(name, names, ""))
			continue
		}
		out[strings.ToLower(name)] = c.in.Dispatch[name]
	}
	if size > c.lim.InputBytes {
		c.reports.Add(syntax.CodeInvalidInputValue, c.onRange(),
			fmt.Sprintf("the inputs have %d bytes in all; at most %d are allowed", size, c.lim.InputBytes), "")
	}
	return out
}

func (c *compiler) onRange() syntax.Range {
	if c.file.On == nil {
		return syntax.Range{}
	}
	return c.file.On.Key.Range
}

// InputsContext is the context `inputs` that the values make: booleans and numbers have
// their type.
func InputsContext(inputs []plan.Input) expr.Value {
	fields := make([]expr.Field, len(inputs))
	for i, in := range inputs {
		fields[i] = expr.Field{Name: in.Name, Value: expr.Typed(in.Type, in.Value)}
	}
	return expr.Object(fields...)
}

func quoteAll(list []string) string {
	const shown = 10
	var out []string
	for i, s := range list {
		if i == shown {
			out = append(out, fmt.Sprintf("and %d more", len(list)-shown))
			break
		}
		out = append(out, syntax.Quote(s))
	}
	return strings.Join(out, ", ")
}
