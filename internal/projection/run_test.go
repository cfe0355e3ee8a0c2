package projection

import (
	"testing"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

func TestTheLogOfADeclinedAttemptHasItsEnd(t *testing.T) {
	s := &run.State{Request: run.Request{Skeleton: []run.JobSkeleton{{Key: "a"}}}, Jobs: []*run.Job{{}}}
	for declined, want := range map[bool]bool{true: true, false: false} {
		a := &run.Attempt{Number: 1, Outcome: domain.OutcomeFailure, Declined: declined}
		if got := attempt(s, 0, a).GetLog().GetSealed(); got != want {
			t.Errorf("declined %v: sealed %v", declined, got)
		}
	}
}
