package trigger

import (
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// groupOf evaluates the concurrency group of a run over its frozen contexts. The error is a
// sentence: it will be the same each time.
func groupOf(c *plan.Concurrency, github, inputs []byte) (*run.Concurrency, error) {
	got, err := workflow.GroupOfRun(c, github, inputs)
	if err != nil {
		return nil, err
	}
	if why := group.Wrong(got.Group); why != "" {
		return nil, fmt.Errorf("%s", why)
	}
	return &run.Concurrency{Group: got.Group, Cancel: got.Cancel, Max: got.Max}, nil
}
