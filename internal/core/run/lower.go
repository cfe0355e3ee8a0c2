package run

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
)

// Servers of neighbouring formats share one history. What the lower one does not know is
// left out of events, and of commands on their way to it, while it is there. The functions
// here change copies: the caller's value stays as it was.

const (
	// formatRunnerVersion is the format that brought the runner's version to leases.
	formatRunnerVersion = 2
	// formatMatrix is the format that brought matrices, and the size of outputs.
	formatMatrix = 4
	// formatCall is the format that brought called workflows and concurrency groups.
	formatCall = 5
)

// Lower gives an event as readers of a format understand it. The error says that there is no
// such form, and the command that led to it is refused: nothing of a matrix can be left out.
func Lower(e Event, format uint32) (Event, error) {
	if format >= formatCall {
		return e, nil
	}
	switch e := e.(type) {
	case *ConcurrencyAsked, *GroupAsked, *GroupJoined, *GroupAdmitted, *GroupReplaced, *GroupLeft:
		return nil, codec.ErrFormat
	case *RunRequested:
		if calls(e.Request.Skeleton) || joins(&e.Request) {
			return nil, codec.ErrFormat
		}
	case *MatrixExpanded:
		if calls(e.Added) || joins(&Request{Skeleton: e.Added}) {
			return nil, codec.ErrFormat
		}
	case *CallAsked, *CallOpened:
		return nil, codec.ErrFormat
	case *JobConcluded:
		if len(e.Outputs) > 0 {
			return nil, codec.ErrFormat
		}
	}
	if format >= formatMatrix {
		return e, nil
	}
	switch e := e.(type) {
	case *LeaseGranted:
		if format < formatRunnerVersion {
			lowered := *e
			lowered.RunnerVersion = ""
			return &lowered, nil
		}
	case *RunRequested:
		if matrices(e.Request.Skeleton) {
			return nil, codec.ErrFormat
		}
	case *MatrixAsked, *MatrixExpanded:
		return nil, codec.ErrFormat
	case *RoundOpened:
		if len(e.Kept) > 0 {
			return nil, codec.ErrFormat
		}
	case *AttemptConcluded:
		lowered := *e
		lowered.Outputs = unsized(e.Outputs)
		return &lowered, nil
	}
	return e, nil
}

// LowerCommand is Lower for a command that another server is to decide.
func LowerCommand(c Command, format uint32) (Command, error) {
	if format >= formatCall {
		return c, nil
	}
	switch c := c.(type) {
	case RequestRun:
		if calls(c.Request.Skeleton) || joins(&c.Request) {
			return nil, codec.ErrFormat
		}
	case RecordCall, RecordConcurrency, RecordPlace:
		return nil, codec.ErrFormat
	}
	if format >= formatMatrix {
		return c, nil
	}
	switch c := c.(type) {
	case GrantLease:
		if format < formatRunnerVersion {
			c.RunnerVersion = ""
		}
		return c, nil
	case RequestRun:
		if matrices(c.Request.Skeleton) {
			return nil, codec.ErrFormat
		}
	case RecordMatrix:
		return nil, codec.ErrFormat
	case ReportResult:
		c.Outputs = unsized(c.Outputs)
		return c, nil
	}
	return c, nil
}

// joins reports whether the run or one of its jobs joins a concurrency group.
func joins(r *Request) bool {
	return r.Concurrency != nil ||
		slices.ContainsFunc(r.Skeleton, func(k JobSkeleton) bool { return k.Concurrency != nil })
}

// matrices reports whether a job has legs, now or later.
func matrices(jobs []JobSkeleton) bool {
	return slices.ContainsFunc(jobs, func(k JobSkeleton) bool { return k.Group != nil || k.Leg != nil })
}

// calls reports whether a job calls a workflow.
func calls(jobs []JobSkeleton) bool {
	return slices.ContainsFunc(jobs, func(k JobSkeleton) bool { return k.Call != nil || k.In != nil })
}

// unsized leaves the sizes out, which only a bound rests on.
func unsized(outputs []Output) []Output {
	out := slices.Clone(outputs)
	for i := range out {
		out[i].Size = 0
	}
	return out
}
