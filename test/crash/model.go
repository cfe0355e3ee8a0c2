package crash

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// never is when an operation returned whose outcome nobody was told: it may act any time.
const never = math.MaxInt64

// checkTime bounds one check; an unfinished one counts as not passed.
const checkTime = 2 * time.Minute

// subject is an input or an output of a history that belongs to one key, run or job:
// histories are checked subject by subject, for they would not end otherwise.
type subject interface{ of() string }

func bySubject(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		id := op.Input.(subject).of()
		parts[id] = append(parts[id], op)
	}
	var out [][]porcupine.Operation
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		out = append(out, parts[id])
	}
	return out
}

// linearizable checks a history and names the subjects that break the model.
func linearizable(name string, model porcupine.NondeterministicModel, history []porcupine.Operation) (broken []string) {
	for _, part := range bySubject(history) {
		id := part[0].Input.(subject).of()
		switch porcupine.CheckOperationsTimeout(model.ToModel(), part, checkTime) {
		case porcupine.Ok:
		case porcupine.Unknown:
			broken = append(broken, fmt.Sprintf("%s: the history of %s could not be checked within %s (%d operations)",
				name, id, checkTime, len(part)))
		case porcupine.Illegal:
			broken = append(broken, fmt.Sprintf("%s: the history of %s is not linearizable:\n%s", name, id, describe(part)))
		}
	}
	return broken
}

// describe prints a history in order of calls.
func describe(part []porcupine.Operation) (text string) {
	part = slices.Clone(part)
	slices.SortStableFunc(part, func(a, b porcupine.Operation) int { return int(min(max(a.Call-b.Call, -1), 1)) })
	for i, op := range part {
		if i == 200 {
			return text + fmt.Sprintf("\t… and %d more\n", len(part)-i)
		}
		returned := "never"
		if op.Return != never {
			returned = instant(op.Return).String()
		}
		text += fmt.Sprintf("\t%s to %s: %+v: %+v\n", instant(op.Call), returned, op.Input, op.Output)
	}
	return text
}

// createCall asks for a run with an idempotency key.
type createCall struct {
	key  string
	body int // which of the key's bodies
}

func (c createCall) of() string { return "key " + c.key }

// Answers to a call.
const (
	answered = "answered"
	refused  = "refused" // for sure: nothing happened
	mismatch = "mismatch"
	silent   = "silent" // no answer, or one that leaves open what happened
)

// createAnswer is what came back.
type createAnswer struct {
	kind   string
	run    string
	repeat bool
}

// created is what a key has done: nothing, or one run for one body.
type created struct {
	acted bool
	run   string // "" while nobody was told which
	body  int
}

// createModel: a key creates at most one run, everybody who asks with it is told the same
// run, only the first is told that it is new, and another body is refused.
var createModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{created{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(created), input.(createCall), output.(createAnswer)
		switch out.kind {
		case silent:
			next := []any{s}
			if !s.acted {
				next = append(next, created{acted: true, body: in.body})
			}
			return next
		case refused:
			return []any{s}
		case mismatch:
			if s.acted && s.body != in.body {
				return []any{s}
			}
			return nil
		}
		switch {
		case !s.acted && !out.repeat:
			return []any{created{true, out.run, in.body}}
		case s.acted && out.repeat && s.body == in.body && (s.run == "" || s.run == out.run):
			return []any{created{true, out.run, in.body}}
		}
		return nil
	},
}

// runCall reads a run, or asks for something of it. Each run is cancelled with one key and
// retried with one key, however often.
type runCall struct {
	run  string
	verb string // read, cancel, retry
}

func (c runCall) of() string { return c.run }

// runAnswer is what came back; the fields are those of a read.
type runAnswer struct {
	kind             string
	code             string
	desired, outcome string
	round            int32
	version          uint64
}

// concludedSomehow is an outcome that is there but was not seen.
const concludedSomehow = "?"

// register is what is known of a run: the write-once result of each round.
type register struct {
	version          uint64
	round            int32
	desired, outcome string
	cancelled        bool // its key has acted
	retried          bool
}

// resultModel: the result of a round is written once; versions only grow, and one version
// has one content; an acknowledged cancel is seen by everybody from then on; a retry is
// acknowledged only after a result, and opens exactly one round.
var resultModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{register{round: 1, desired: "run"}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(register), input.(runCall), output.(runAnswer)
		switch in.verb {
		case "read":
			return s.read(out)
		case "cancel":
			return s.cancel(out)
		}
		return s.retry(out)
	},
}

func (s register) read(out runAnswer) []any {
	if out.kind != answered {
		return []any{s}
	}
	known := s.outcome != "" && s.outcome != concludedSomehow
	switch {
	case out.version < s.version, out.round != s.round:
		return nil
	case out.version == s.version && (out.desired != s.desired || out.outcome != s.outcome):
		return nil
	case s.outcome != "" && out.outcome == "", known && out.outcome != s.outcome:
		return nil
	case s.desired == "cancel" && out.desired != "cancel", s.desired == "run" && out.desired != "run":
		return nil
	}
	s.version, s.desired, s.outcome = out.version, out.desired, out.outcome
	return []any{s}
}

func (s register) cancel(out runAnswer) []any {
	did := s
	did.cancelled, did.desired = true, "cancel"
	switch {
	case out.kind == silent && (s.cancelled || s.outcome != ""):
		return []any{s}
	case out.kind == silent:
		return []any{s, did}
	case out.kind == answered && s.cancelled:
		return []any{s}
	case out.kind == answered && s.outcome == "":
		return []any{did}
	case out.code == "run_concluded" && !s.cancelled:
		if s.outcome == "" {
			s.outcome = concludedSomehow
		}
		return []any{s}
	case out.kind == refused && out.code != "run_concluded":
		return []any{s}
	}
	return nil
}

func (s register) retry(out runAnswer) []any {
	did := s
	did.retried, did.round, did.outcome, did.desired = true, s.round+1, "", "run"
	switch {
	case out.kind == silent && s.retried:
		return []any{s}
	case out.kind == silent:
		return []any{s, did}
	case out.kind == answered && s.retried:
		return []any{s}
	case out.kind == answered:
		return []any{did}
	case out.code == "run_not_concluded" && s.outcome == "" && !s.retried:
		return []any{s}
	case out.kind == refused && out.code != "run_not_concluded":
		return []any{s}
	}
	return nil
}

// leaseCall is an act in the world or a look at a job.
type leaseCall struct {
	job  string
	verb string // act, look
}

func (c leaseCall) of() string { return c.job }

// leaseAnswer says which attempt acted, or is the latest.
type leaseAnswer struct {
	attempt int
	epoch   uint64 // of a look
}

// leaseModel: a job belongs to one attempt at a time. Who looks sees at least the attempt
// that acted already; once a later one was seen or has acted, an earlier one acts no more;
// epochs only grow.
var leaseModel = porcupine.NondeterministicModel{
	Init: func() []any { return []any{leaseAnswer{}} },
	Step: func(state, input, output any) []any {
		s, in, out := state.(leaseAnswer), input.(leaseCall), output.(leaseAnswer)
		switch {
		case out.attempt < s.attempt:
			return nil
		case in.verb == "act":
			return []any{leaseAnswer{out.attempt, s.epoch}}
		case out.epoch < s.epoch, out.attempt > s.attempt && s.epoch > 0 && out.epoch == s.epoch && out.epoch > 0:
			return nil
		}
		return []any{out}
	},
}
