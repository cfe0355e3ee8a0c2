package trigger

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// groupOf evaluates the concurrency group of a run over its frozen contexts. The error is a
// sentence: it will be the same each time.
func groupOf(c *plan.Concurrency, github, inputs []byte) (*run.Concurrency, error) {
	values := map[string]expr.Value{}
	for name, raw := range map[string][]byte{"github": github, "inputs": inputs} {
		v, err := expr.FromJSON(string(raw))
		if err != nil {
			return nil, fmt.Errorf("the %s context can't be read: %w", name, err)
		}
		values[name] = v
	}
	got, err := workflow.Group(c, func(name string) (expr.Value, bool) { v, ok := values[name]; return v, ok })
	if err != nil {
		return nil, err
	}
	if why := group.Wrong(got.Group); why != "" {
		return nil, fmt.Errorf("%s", why)
	}
	return &run.Concurrency{Group: got.Group, Cancel: got.Cancel, Max: got.Max}, nil
}
