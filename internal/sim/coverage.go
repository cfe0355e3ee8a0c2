package sim

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

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
		switch e := job.Evaluation; {
		case e != nil && !e.Answered && e.Matrix:
			return "waiting for its matrix"
		case e != nil && !e.Answered:
			return "waiting for its condition"
		case job.Reason.Code == run.ReasonCallUnopened:
			return "called, its call has not begun"
		case job.Reason.Code == run.ReasonMaxParallel:
			return "a leg that waits for a place"
		case job.Reason.Code == run.ReasonGroup:
			return "held by the run's concurrency group"
		case s.Skeleton(j).Leg != nil:
			return "a leg whose job has not begun"
		}
		return "waiting for needs"
	case run.StateExpanded:
		switch job.Reason.Code {
		case run.ReasonCallInputs:
			return "a call that waits for its inputs"
		case run.ReasonCallUnfinished:
			return "the jobs that it calls run"
		case run.ReasonCallOutputs:
			return "a call that waits for its outputs"
		}
		return "its legs run"
	case run.StateHeld:
		switch job.Reason.Code {
		case run.ReasonGroup:
			return "held by its concurrency group"
		case run.ReasonGroupEvaluating:
			return "waiting for the name of its group"
		}
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
	case outOfTime(a):
		return "active, timeout passed"
	case a.Desired == domain.DesiredCancel && a.Stop.Code == run.ReasonFailFastGrace:
		return "active, another leg failed"
	case a.Desired == domain.DesiredCancel && a.Stop.Code == run.ReasonYieldGrace:
		return "yielding to a newer member"
	case a.Desired == domain.DesiredCancel:
		return "active, cancel requested"
	}
	return "active"
}

// outOfTime reports whether the server asked an attempt to end because its time had passed.
func outOfTime(a *run.Attempt) bool {
	return a.Desired == domain.DesiredCancel && a.Stop.Code == run.ReasonTimeoutGrace
}

// Report compares what worlds met with what is legal.
type Report struct {
	Legal, Met int
	Counts     []Covered
	Zero       []Unmet
	Other      []Covered // met, and not on the page: events of several commands in one batch
}

// Unmet is a legal transition that no world met, and why; an empty reason is a gap.
type Unmet struct {
	Transition
	Reason string
}

// Excused counts the unmet transitions with a reason.
func (r *Report) Excused() (n int) {
	for _, u := range r.Zero {
		if u.Reason != "" {
			n++
		}
	}
	return n
}

// Print writes all of it.
func (r *Report) Print(out io.Writer) {
	for _, c := range r.Counts {
		_, _ = fmt.Fprintf(out, "  %-28s %-24s %d\n", c.State, c.Event, c.Count)
	}
	for _, u := range r.Zero {
		_, _ = fmt.Fprintf(out, "  %-28s %-24s 0 %s\n", u.State, u.Event, u.Reason)
	}
	for _, c := range r.Other {
		_, _ = fmt.Fprintf(out, "  beside the page: %-28s %-24s %d\n", c.State, c.Event, c.Count)
	}
}

// Compare reads the page of all transitions, which is generated from the core, and says
// which of them were met.
func Compare(c Coverage, page string) *Report {
	legal := legalTransitions(page)
	r := &Report{Legal: len(legal)}
	for _, t := range slices.SortedFunc(maps.Keys(legal), func(a, b Transition) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Event, b.Event))
	}) {
		if n := c[t]; n > 0 {
			r.Met++
			r.Counts = append(r.Counts, Covered{t, n})
		} else {
			r.Zero = append(r.Zero, Unmet{t, whyUnmet(t)})
		}
	}
	for _, covered := range c.sorted() {
		if !legal[covered.Transition] {
			r.Other = append(r.Other, covered)
		}
	}
	return r
}

// legalTransitions reads which events follow from commands in each state.
func legalTransitions(page string) map[Transition]bool {
	out := map[Transition]bool{}
	state := ""
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "## State: "); ok {
			state = strings.TrimSpace(name)
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || state == "" {
			continue
		}
		for _, event := range strings.Split(cells[2], ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(event), " ")
			if name != "" && name[0] >= 'A' && name[0] <= 'Z' {
				out[Transition{state, name}] = true
			}
		}
	}
	return out
}

// whyUnmet says why a world never meets a transition that the page lists.
func whyUnmet(t Transition) string {
	switch {
	case t.State == "waiting for needs" && (t.Event == "AttemptStopRequested" || t.Event == "AttemptConcluded"):
		return "the page's command is about the other job of its example, which is active"
	case t.State == "active, timeout passed" && t.Event == "LeaseDeclined":
		return "who declines never renewed, and such a lease has lapsed long before its time has passed"
	case t.Event == "RefusalsCounted":
		return "a hundred refusals of one attempt: the liar of a world does not live that long"
	}
	return ""
}
