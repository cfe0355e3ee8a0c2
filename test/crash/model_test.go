package crash

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// op is an operation of a doctored history.
func op(input, output any, call, returned int64) porcupine.Operation {
	return porcupine.Operation{Input: input, Output: output, Call: call, Return: returned}
}

// wants checks one history against a model.
func wants(t *testing.T, model porcupine.NondeterministicModel, sound bool, history ...porcupine.Operation) {
	t.Helper()
	if broken := linearizable("doctored", model, history); (len(broken) == 0) != sound {
		t.Errorf("sound %t, want %t:\n%s", !sound, sound, describe(history))
	}
}

func TestACreateThatActsTwiceIsFound(t *testing.T) {
	k, other := createCall{"k", 0}, createCall{"k", 1}
	first, again := createAnswer{kind: answered, run: "run_1"}, createAnswer{kind: answered, run: "run_1", repeat: true}
	quiet := createAnswer{kind: silent}

	wants(t, createModel, true, op(k, first, 1, 2), op(k, again, 3, 4), op(other, createAnswer{kind: mismatch}, 5, 6))
	wants(t, createModel, true, op(k, again, 1, 4), op(k, first, 2, 3))     // concurrent: either may be first
	wants(t, createModel, true, op(k, quiet, 1, never), op(k, again, 5, 6)) // the lost answer was an acceptance
	wants(t, createModel, true, op(k, quiet, 1, never), op(k, first, 5, 6)) // it was not
	wants(t, createModel, true, op(k, first, 5, 6), op(k, quiet, 1, never)) // order of the list says nothing
	wants(t, createModel, true, op(k, createAnswer{kind: refused}, 1, 2), op(k, first, 3, 4))

	second := createAnswer{kind: answered, run: "run_2"}
	wants(t, createModel, false, op(k, first, 1, 2), op(k, second, 3, 4)) // dedupe key ignored
	wants(t, createModel, false, op(k, first, 1, 2), op(k, createAnswer{kind: answered, run: "run_2", repeat: true}, 3, 4))
	wants(t, createModel, false, op(k, again, 1, 2), op(k, first, 3, 4)) // repeat of what was not there yet
	wants(t, createModel, false, op(k, quiet, 1, never), op(k, first, 3, 4), op(k, first, 5, 6))
	wants(t, createModel, false, op(k, first, 1, 2), op(other, again, 3, 4)) // another body was taken
	wants(t, createModel, false, op(k, createAnswer{kind: mismatch}, 1, 2))
	wants(t, createModel, false, op(k, first, 1, 2), op(k, quiet, 1, never), op(k, first, 3, 4)) // forgotten by a restart
}

// Promises: [RUN-1].
func TestAResultThatChangesIsFound(t *testing.T) {
	read := func(version uint64, desired, outcome string) runAnswer {
		return runAnswer{kind: answered, version: version, desired: desired, outcome: outcome, round: 1}
	}
	second := runAnswer{kind: answered, version: 9, desired: "run", outcome: "", round: 2}
	look, cancel, retry := runCall{"r", "read"}, runCall{"r", "cancel"}, runCall{"r", "retry"}
	yes, quiet := runAnswer{kind: answered}, runAnswer{kind: silent}
	late := runAnswer{kind: refused, code: "run_concluded"}

	wants(t, resultModel, true, op(look, read(1, "run", ""), 1, 2), op(look, read(5, "run", "success"), 3, 4))
	wants(t, resultModel, true, op(cancel, yes, 1, 4), op(look, read(2, "run", ""), 2, 3))
	wants(t, resultModel, true, op(cancel, quiet, 1, never), op(look, read(2, "run", ""), 5, 6))
	wants(t, resultModel, true, op(cancel, quiet, 1, never), op(look, read(2, "cancel", ""), 5, 6))
	wants(t, resultModel, true, op(look, read(5, "run", "failure"), 1, 2), op(cancel, late, 3, 4), op(retry, yes, 5, 6),
		op(look, second, 7, 8))
	wants(t, resultModel, true, op(retry, yes, 1, 2), op(retry, yes, 3, 4), op(look, second, 7, 8)) // the same key

	wants(t, resultModel, false, op(look, read(5, "run", "success"), 1, 2), op(look, read(6, "run", "failure"), 3, 4))
	wants(t, resultModel, false, op(look, read(5, "run", "success"), 1, 2), op(look, read(5, "run", ""), 3, 4))
	wants(t, resultModel, false, op(look, read(5, "run", ""), 1, 2), op(look, read(4, "run", ""), 3, 4))
	wants(t, resultModel, false, op(cancel, yes, 1, 2), op(look, read(5, "run", ""), 3, 4)) // a lost cancel
	wants(t, resultModel, false, op(look, read(5, "cancel", ""), 1, 2))                     // one that nobody asked for
	wants(t, resultModel, false, op(cancel, late, 1, 2), op(look, read(5, "run", ""), 3, 4))
	wants(t, resultModel, false, op(look, second, 1, 2))                                   // a round out of nothing
	wants(t, resultModel, false, op(retry, yes, 1, 2), op(look, read(5, "run", ""), 3, 4)) // a lost retry
	wants(t, resultModel, false, op(retry, quiet, 1, never), op(retry, yes, 2, 3),
		op(look, runAnswer{kind: answered, version: 9, desired: "run", round: 3}, 4, 5)) // acted twice
}

// Promises: [LEASE-1].
func TestALeaseHeldTwiceIsFound(t *testing.T) {
	look, act := leaseCall{"j", "look"}, leaseCall{"j", "act"}
	by := func(attempt int, epoch uint64) leaseAnswer { return leaseAnswer{attempt, epoch} }

	wants(t, leaseModel, true, op(look, by(1, 1), 1, 2), op(act, by(1, 0), 3, 4), op(look, by(2, 2), 5, 6),
		op(act, by(2, 0), 7, 8))
	wants(t, leaseModel, true, op(look, by(2, 2), 1, 6), op(act, by(1, 0), 2, 3)) // it was granted after the act

	wants(t, leaseModel, false, op(look, by(2, 2), 1, 2), op(act, by(1, 0), 3, 4)) // two attempts act
	wants(t, leaseModel, false, op(act, by(2, 0), 1, 2), op(act, by(1, 0), 3, 4))
	wants(t, leaseModel, false, op(act, by(2, 0), 1, 2), op(look, by(1, 1), 3, 4)) // it acted on a lease that was lost
	wants(t, leaseModel, false, op(look, by(1, 2), 1, 2), op(look, by(2, 2), 3, 4))
	wants(t, leaseModel, false, op(look, by(1, 2), 1, 2), op(look, by(1, 1), 3, 4)) // an epoch that shrinks
}

func TestAHistoryIsCheckedSubjectBySubject(t *testing.T) {
	first := createAnswer{kind: answered, run: "run_1"}
	broken := linearizable("doctored", createModel, []porcupine.Operation{
		op(createCall{"a", 0}, first, 1, 2), op(createCall{"b", 0}, first, 1, 2),
		op(createCall{"b", 0}, first, 3, 4),
	})
	if len(broken) != 1 {
		t.Fatalf("%d subjects are broken, want b only: %v", len(broken), broken)
	}
}
