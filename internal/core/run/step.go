package run

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// changedSteps picks from a report the steps that say something new, cleaned up. Facts
// only grow: a step that started stays started, one that ended stays ended, so a report
// that arrives late can't take anything back.
func changedSteps(names []string, known, reported []Step) ([]Step, *domain.Rejection) {
	if len(reported) > stepsMax {
		return nil, tooLarge("steps", "A report has %d steps; the limit is %d.", len(reported), stepsMax)
	}
	var changed []Step
	for _, s := range reported {
		if s.Index < 0 || s.Index >= max(len(names), 1) {
			return nil, invalidArgument("steps", "The job has no step with index %d.", s.Index)
		}
		if !stepOutcome(s.Outcome) || !stepOutcome(s.Conclusion) {
			return nil, invalidArgument("steps", "Step %d can't end as %q.", s.Index+1, s.Outcome)
		}
		s.Started, s.Finished = utc(s.Started), utc(s.Finished)
		s.Name, s.Message = clip(s.Name, nameBytesMax), clip(s.Message, textBytesMax)
		if s.Conclusion == domain.OutcomeNone {
			s.Conclusion = s.Outcome
		}
		before := Step{Index: s.Index}
		if i, ok := stepAt(known, s.Index); ok {
			before = known[i]
		}
		if before.Outcome != domain.OutcomeNone && s.Outcome == domain.OutcomeNone {
			continue
		}
		if s.Started.IsZero() {
			s.Started = before.Started
		}
		if s.Name == "" {
			s.Name = before.Name
		}
		if s != before {
			changed = mergeSteps(changed, []Step{s})
		}
	}
	return changed, nil
}

func stepOutcome(o domain.Outcome) bool {
	switch o {
	case domain.OutcomeNone, domain.OutcomeSuccess, domain.OutcomeFailure, domain.OutcomeSkipped,
		domain.OutcomeCancelled, domain.OutcomeTimedOut:
		return true
	}
	return false
}

func stepAt(steps []Step, index int) (int, bool) {
	return slices.BinarySearchFunc(steps, index, func(s Step, i int) int { return s.Index - i })
}

// mergeSteps returns the known steps with the changed ones put in their places. It never
// writes into known: a state that somebody still holds may share it.
func mergeSteps(known, changed []Step) []Step {
	out := slices.Clone(known)
	for _, s := range changed {
		if i, ok := stepAt(out, s.Index); ok {
			out[i] = s
		} else {
			out = slices.Insert(out, i, s)
		}
	}
	return out
}

func anyStarted(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return !s.Started.IsZero() })
}

func validOutputs(outputs []Output) *domain.Rejection {
	if len(outputs) > outputsMax {
		return tooLarge("outputs", "The job has %d outputs; the limit is %d.", len(outputs), outputsMax)
	}
	for i, o := range outputs {
		switch {
		case o.Name == "" || len(o.Name) > nameBytesMax:
			return invalidArgument("outputs", "Output %d has no name, or one over %d bytes.", i, nameBytesMax)
		case len(o.Value) > OutputBytesMax:
			return tooLarge("outputs", "Output %q is over %d bytes and must be an object.", o.Name, OutputBytesMax)
		case !valid(o.Name, o.Value):
			return invalidArgument("outputs", "Output %q is not UTF-8.", o.Name)
		case o.Digest != "" && (!o.Digest.Valid() || o.Value != "" || o.Size < 0), o.Digest == "" && o.Size != 0:
			return invalidArgument("outputs", "Output %q is an object without a proper digest or size.", o.Name)
		}
	}
	return nil
}
