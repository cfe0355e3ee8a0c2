package workflow

import (
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Limits bound one workflow. They can be lowered (per tenant), never raised: a field
// that is zero or above its default counts as the default.
type Limits struct {
	SourceBytes int // bytes of a file; a larger one is refused unread
	Nodes       int // nodes of a file after alias expansion
	Depth       int // nesting of a file after alias expansion
	Jobs        int // jobs of a plan
	Steps       int // steps of one job
	PlanBytes   int // text in a plan: scripts, variables, names
	InputBytes  int // values of all inputs together
}

// DefaultLimits are the limits of a server that was told of no others.
func DefaultLimits() Limits {
	return Limits{
		SourceBytes: 1 << 20,
		Nodes:       50_000,
		Depth:       50,
		Jobs:        1_000,
		Steps:       1_000,
		PlanBytes:   10 << 20,
		InputBytes:  65_535,
	}
}

// Bounds that are part of the language and not configurable.
const (
	idMax          = 100   // characters of a job's or step's id
	labelMax       = 256   // characters of a label of runs-on
	variableMax    = 256   // characters of a variable's name
	patternMax     = 1_024 // characters of a filter pattern
	inputsMax      = 25    // inputs of workflow_dispatch
	retriesMax     = 10    // further attempts of one job
	backoffMax     = 3_600 // seconds
	timeoutMax     = matrix.TimeoutMax
	timeoutDefault = 360 * 60
	retriesDefault = 2
	backoffDefault = 10
	actionDepthMax = 10 // actions within actions
	cycleJobsMax   = 10 // jobs named in a report of a circle
)

// lowered is l with every field within the defaults.
func (l Limits) lowered() Limits {
	d := DefaultLimits()
	lower := func(value, limit int) int {
		if value <= 0 || value > limit {
			return limit
		}
		return value
	}
	return Limits{
		SourceBytes: lower(l.SourceBytes, d.SourceBytes),
		Nodes:       lower(l.Nodes, d.Nodes),
		Depth:       lower(l.Depth, d.Depth),
		Jobs:        lower(l.Jobs, d.Jobs),
		Steps:       lower(l.Steps, d.Steps),
		PlanBytes:   lower(l.PlanBytes, d.PlanBytes),
		InputBytes:  lower(l.InputBytes, d.InputBytes),
	}
}

func (l Limits) bounds() syntax.Bounds {
	return syntax.Bounds{SourceBytes: l.SourceBytes, Nodes: l.Nodes, Depth: l.Depth, ScalarBytes: l.PlanBytes}
}
