package sim

import (
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Coverage counts events by the state of the job that they met. States have the names that
// docs/reference/transitions.md gives them.
type Coverage map[Transition]int

// Transition is an event in a state.
type Transition struct{ State, Event string }

// Add sums up another coverage.
func (c Coverage) Add(other Coverage) {
	for t, n := range other {
		c[t] += n
	}
}

// count adds an event. Its state is the one before the row that it is in: a decision's events
// belong together, and the page lists them by the state before the command.
func (c Coverage) count(e *seen) {
	if e.job >= 0 && e.job < len(e.states) {
		c[Transition{e.states[e.job], e.event.Name()}]++
		return
	}
	met := map[string]bool{}
	for _, state := range e.states {
		met[state] = true
	}
	if len(e.states) == 0 {
		met["no run"] = !e.existed
		met["invalid"] = e.existed
	}
	for state, yes := range met {
		if yes {
			c[Transition{state, e.event.Name()}]++
		}
	}
}

// statesOf names the states of all jobs.
func statesOf(s *run.State) (states []string) {
	for j := range s.Jobs {
		states = append(states, stateOf(s, j))
	}
	return states
}

// stateOf names the state of a job.
func stateOf(s *run.State, j int) string {
	job := s.Jobs[j]
	switch job.State {
	case run.StateWaiting:
		if job.Evaluation != nil && !job.Evaluation.Answered {
			return "waiting for its condition"
		}
		return "waiting for needs"
	case run.StateHeld:
		return "held for back-off"
	case run.StateReady:
		return "ready"
	case run.StateActive:
		return activeState(s, j)
	}
	if n := len(job.Attempts); n > 0 {
		if a := &job.Attempts[n-1]; a.Outcome == domain.OutcomeLost && a.Effect == domain.EffectUnknown {
			return "concluded, effect unknown"
		}
	}
	if job.Outcome == domain.OutcomeSuccess {
		return "concluded, succeeded"
	}
	return "concluded, failed"
}

func activeState(s *run.State, j int) string {
	a := s.Jobs[j].Current()
	switch {
	case a.Held:
		return "held for a person"
	case a.Uncertain && s.Skeleton(j).Effectful:
		return "uncertain and effectful"
	case a.Uncertain:
		return "uncertain"
	case a.Desired == domain.DesiredCancel && a.Stop.Code == run.ReasonTimeoutGrace:
		return "active, timeout passed"
	case a.Desired == domain.DesiredCancel:
		return "active, cancel requested"
	}
	return "active"
}
