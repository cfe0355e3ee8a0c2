package run

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var walks = flag.Int("walks", 250, "random walks, each from its own seed")
var firstWalk = flag.Uint64("walk", 1, "seed of the first random walk")

// TestRandomWalks throws commands of all kinds, most of them nonsense, at a random plan,
// then heals the world and requires that the run comes to its end. The world checks every
// law after every event; see world.do.
// Promises: [HIST-5].
func TestRandomWalks(t *testing.T) {
	seen := map[string]bool{}
	for seed := *firstWalk; seed < *firstWalk+uint64(*walks); seed++ {
		w := &walker{world: newWorld(), r: rand.New(rand.NewPCG(seed, 1)), seen: seen}
		if err := w.walk(); err != nil {
			t.Fatalf("-walk %d -walks 1: %v\n%s", seed, err, strings.Join(w.trace, "\n"))
		}
	}
	for _, name := range eventNames() {
		if *walks >= 250 && !seen[name] {
			t.Errorf("no walk met %s", name)
		}
	}
}

type walker struct {
	*world
	r     *rand.Rand
	slots int
	trace []string
	seen  map[string]bool
}

func (w *walker) walk() error {
	if err := w.send(w.plan()); err != nil {
		return err
	}
	for range 80 + w.r.IntN(60) {
		w.now = w.now.Add(time.Duration(w.r.IntN(1+w.r.IntN(90))) * time.Second)
		if err := w.send(w.command()); err != nil {
			return err
		}
	}
	if err := w.heal(); err != nil {
		return err
	}
	again, err := w.replayAll()
	if err != nil {
		return err
	}
	if !bytes.Equal(EncodeState(again), EncodeState(w.live)) {
		return fmt.Errorf("the state rebuilt from all stored events is another one")
	}
	return nil
}

func (w *walker) send(c Command) error {
	d, rejection, err := w.do(c)
	line := fmt.Sprintf("%s %+v", since(w.now), c)
	if rejection != nil {
		line += " -> rejected " + string(rejection.Code)
	}
	for _, e := range d.Events {
		w.seen[e.Name()] = true
		line += "\n    " + traceEvent(w.live, e)
	}
	w.trace = append(w.trace, line)
	return err
}

func (w *walker) chance(percent int) bool { return w.r.IntN(100) < percent }

func oneOf[T any](w *walker, from ...T) T { return from[w.r.IntN(len(from))] }

func (w *walker) plan() Command {
	var jobs, legs []JobSkeleton
	for i := range 1 + w.r.IntN(6) {
		k := JobSkeleton{
			Key: fmt.Sprintf("j%d", i), Effectful: w.chance(30), SoftFail: w.chance(15), Steps: []string{"a", "b"},
			TimeoutSeconds: int64(30 + w.r.IntN(600)), QueueTimeoutSeconds: int64(60 + w.r.IntN(3600)),
			Retry: Retry{Max: w.r.IntN(3), BackoffSeconds: int64(w.r.IntN(30)), On: []domain.FailureClass{
				domain.FailureRunnerLost, domain.FailurePlatform, oneOf(w, domain.FailureUserCode, domain.FailureTimeout),
			}},
			If: oneOf(w, "", "", "", "always()", "failure()", "!cancelled()", "success() || failure()", "false",
				"github.ref == 'x'", "always() && needs.x.result == 'success'"),
		}
		for n := range i {
			if w.chance(40) {
				k.Needs = append(k.Needs, n)
			}
		}
		if w.chance(20) {
			k.Group = &Group{FailFast: w.chance(60), MaxParallel: w.r.IntN(3), Later: w.chance(40)}
			for n := range 1 + w.r.IntN(2) {
				if leg := (JobSkeleton{Key: legKey(k.Key, n+1), Effectful: k.Effectful, SoftFail: k.SoftFail || w.chance(10),
					TimeoutSeconds: k.TimeoutSeconds, Retry: k.Retry, Leg: &Leg{Of: i}}); !k.Group.Later {
					legs = append(legs, leg)
				}
			}
		}
		if w.chance(20) {
			k.Concurrency = &JobConcurrency{Concurrency{oneOf(w, "g", "whole", "h"), w.chance(30), w.chance(30)}, w.chance(30)}
		}
		jobs = append(jobs, k)
	}
	for i := range legs {
		legs[i].Concurrency = jobs[legs[i].Leg.Of].Concurrency
	}
	c := testRequest(w.calls(jobs, legs)...)
	if w.chance(20) {
		c.Request.Concurrency = &Concurrency{Group: "whole", Cancel: w.chance(30)}
	}
	return c
}

// calls makes callers of some jobs, and adds what they call.
func (w *walker) calls(jobs, legs []JobSkeleton) []JobSkeleton {
	type caller struct{ job, leg int }
	var in []caller // of the jobs from first on
	first := len(jobs)
	for i := 0; i < len(jobs) && len(jobs) < 20; i++ {
		k := &jobs[i]
		if !w.chance(20) || k.Group != nil && k.Group.Later {
			continue
		}
		k.Effectful, k.Steps = false, nil
		k.Call = &CallSkeleton{Inputs: "{}", Outputs: w.chance(40)}
		if w.chance(40) {
			k.Call.Inputs, k.Call.Ask = "", true
		}
		callers := []caller{{i, -1}}
		if k.Group != nil {
			callers = nil
			for l := range legs {
				if legs[l].Leg.Of == i {
					legs[l].Call, legs[l].Effectful = k.Call, false
					callers = append(callers, caller{i, l})
				}
			}
		}
		key := k.Key
		for n, c := range callers {
			size := 1 + w.r.IntN(3)
			for m := range size {
				child := JobSkeleton{Key: fmt.Sprintf("%s.%d/c%d", key, n, m), ID: fmt.Sprintf("c%d", m), Steps: []string{"a", "b"},
					TimeoutSeconds: 60, QueueTimeoutSeconds: 600, Effectful: w.chance(30), SoftFail: w.chance(10),
					If: oneOf(w, "", "", "always()", "failure()", "inputs.x")}
				if m > 0 && w.chance(50) {
					child.Needs = []int{len(jobs) - 1}
				}
				if w.chance(15) {
					child.Group = &Group{FailFast: w.chance(60), MaxParallel: w.r.IntN(2), Later: w.chance(50)}
					for n := range 1 + w.r.IntN(2) {
						if !child.Group.Later {
							legs = append(legs, JobSkeleton{Key: legKey(child.Key, n+1), Effectful: child.Effectful,
								SoftFail: child.SoftFail, TimeoutSeconds: 60, Leg: &Leg{Of: len(jobs)}})
						}
					}
				}
				jobs, in = append(jobs, child), append(in, c)
			}
		}
	}
	for i, c := range in {
		at := c.job
		if c.leg >= 0 {
			at = len(jobs) + c.leg
		}
		jobs[first+i].In = &at
	}
	return append(jobs, legs...)
}

// call answers a job that may have asked for the values of its call.
func (w *walker) call(j int, fine bool) Command {
	c := RecordCall{Job: w.live.JobID(j), Inputs: CallInputs{Value: `{"x":true}`}}
	if e := w.live.Jobs[j].Evaluation; e != nil {
		c.InputDigest, c.What = e.InputDigest, e.Call
	}
	if c.What == CallAsksOutputs {
		c.Inputs, c.Outputs = CallInputs{}, []Output{{Name: "out", Value: fmt.Sprint(w.r.IntN(5))}}
	}
	if !fine && w.chance(15) {
		c.Error = "broken"
	}
	return c
}

// matrix answers a job that may have asked for its legs.
func (w *walker) matrix(j int, fine bool) Command {
	c := RecordMatrix{Job: w.live.JobID(j), FailFast: w.chance(50), MaxParallel: w.r.IntN(3)}
	if e := w.live.Jobs[j].Evaluation; e != nil {
		c.InputDigest = e.InputDigest
	}
	if !fine && w.chance(15) {
		c.Error = "broken"
	}
	for range 1 + w.r.IntN(3) {
		c.Legs = append(c.Legs, NewLeg{Name: "leg", Matrix: fmt.Sprintf(`{"n":%d}`, w.r.IntN(4)), SoftFail: w.chance(10)})
	}
	return c
}

// place is what a group may say of the run or one of its jobs, mostly the truth.
func (w *walker) place() Command {
	j := w.r.IntN(len(w.live.Jobs)+1) - 1
	c := RecordPlace{Job: j, Round: w.live.Round(), Generation: 1, By: group.Successor{Run: "run_other", Number: 7},
		Phase: oneOf(w, PlaceJoined, PlaceAdmitted, PlaceAdmitted, PlaceSuperseded, PlaceYield, PlaceRefused)}
	if w.chance(10) {
		c.Generation, c.Round = 2, c.Round+w.r.IntN(2)-1
	}
	if j >= 0 && w.chance(40) {
		named := RecordConcurrency{Job: w.live.JobID(j), Group: oneOf(w, "g", "whole", ""), CancelInProgress: w.chance(30)}
		if e := w.live.Jobs[j].Evaluation; e != nil {
			named.InputDigest = e.InputDigest
		}
		return named
	}
	return c
}

// anyAttempt names an attempt that may exist, mostly with its own epoch.
func (w *walker) anyAttempt() (domain.AttemptID, uint64) {
	j := w.r.IntN(len(w.live.Jobs))
	n := max(1, len(w.live.Jobs[j].Attempts)-w.r.IntN(2))
	epoch := uint64(n)
	if w.chance(10) {
		epoch = uint64(w.r.IntN(4))
	}
	return w.live.AttemptID(j, n), epoch
}

func (w *walker) command() Command {
	j := w.r.IntN(len(w.live.Jobs))
	id, epoch := w.anyAttempt()
	for _, l := range Leases(w.live) {
		if l.Uncertain && w.chance(8) {
			return RegainLease{Attempt: l.Attempt, Epoch: l.Epoch, Until: w.now.Add(time.Minute),
				AbandonBy: w.now.Add(2 * time.Minute)}
		}
	}
	if w.chance(12) {
		return w.place()
	}
	switch w.r.IntN(20) {
	case 0, 1, 2, 3:
		return w.lease(j)
	case 4:
		return ReportProgress{Attempt: id, Epoch: epoch,
			Observed: oneOf(w, domain.ObservedPreparing, domain.ObservedRunning,
				domain.ObservedFinishing), Steps: w.steps(), At: w.now}
	case 5, 6, 7:
		return w.result(id, epoch)
	case 8, 9:
		return LapseLease{Attempt: id, Epoch: epoch, LastSeen: w.now.Add(-time.Minute), AbandonBy: w.now.Add(time.Minute)}
	case 10:
		return RegainLease{Attempt: id, Epoch: epoch, Until: w.now.Add(time.Minute), AbandonBy: w.now.Add(2 * time.Minute)}
	case 11:
		if w.chance(25) {
			return RequestCancel{Cause: by("ben"), Reason: "enough"}
		}
		return DeclineLease{Attempt: id, Epoch: epoch, Reason: "busy"}
	case 12, 13:
		return Wake{}
	case 14:
		if e := w.live.Jobs[j].Evaluation; e != nil && e.Matrix {
			return w.matrix(j, false)
		} else if e != nil && e.Call != "" {
			return w.call(j, false)
		}
		return w.evaluation(j)
	case 15:
		return Rerun{Cause: by("ben"), Mode: oneOf(w, RerunAll, RerunFailed, RerunJobs),
			Jobs: []domain.JobID{w.live.JobID(j)}}
	case 16:
		return Settle{Cause: by("eve"), Attempt: id,
			Effect: oneOf(w, domain.EffectNone, domain.EffectConfirmed, domain.EffectUnknown),
			Then:   oneOf(w, ThenRetry, ThenSuccess, ThenFailure), Note: "looked"}
	case 17:
		return RecordLog{Attempt: id, Log: Log{Lines: int64(w.r.IntN(2))}}
	case 18:
		return RefuseAccess{Attempt: id, Epoch: epoch + 7, What: oneOf(w, RefusedChunk, RefusedFetch),
			Count: uint64(w.r.IntN(3))}
	}
	return w.plan()
}

func (w *walker) lease(j int) Command {
	if w.chance(90) {
		w.slots++
	}
	until := w.now.Add(time.Duration(30+w.r.IntN(120)) * time.Second)
	return GrantLease{
		Job: w.live.JobID(j), Runner: "m1", RunnerName: "m1", Pool: "default", Tiers: []domain.Tier{domain.TierTrusted},
		Slot: domain.SlotToken(fmt.Sprintf("m1/0/%d", w.slots)), Until: until, AbandonBy: until.Add(30 * time.Second),
	}
}

func (w *walker) steps() []Step {
	var out []Step
	for i := range 2 {
		if w.chance(50) {
			s := Step{Index: i, Started: w.now}
			if w.chance(50) {
				s.Outcome, s.Finished = oneOf(w, domain.OutcomeSuccess, domain.OutcomeFailure), w.now
			}
			out = append(out, s)
		}
	}
	return out
}

func (w *walker) result(id domain.AttemptID, epoch uint64) Command {
	return ReportResult{
		Attempt: id, Epoch: epoch, Digest: domain.DigestOf([]byte{byte(w.r.IntN(3))}), Steps: w.steps(),
		Outcome: oneOf(w, domain.OutcomeSuccess, domain.OutcomeSuccess, domain.OutcomeFailure, domain.OutcomeTimedOut,
			domain.OutcomeCancelled),
		Class: oneOf(w, domain.FailureUserCode, domain.FailurePlatform, domain.FailureRunnerLost),
	}
}

func (w *walker) evaluation(j int) Command {
	c := RecordEvaluation{Job: w.live.JobID(j), Result: w.chance(60)}
	if e := w.live.Jobs[j].Evaluation; e != nil {
		c.Expression, c.InputDigest = e.Expression, e.InputDigest
	}
	if w.chance(15) {
		c.Error = "broken"
	}
	return c
}

// heal is a world in which everybody does what they should: runners report, timers fire,
// people decide, logs are sealed. The run must end within a bounded number of steps.
func (w *walker) heal() error {
	for range 600 {
		waits := Waits(w.live)
		if len(waits) == 0 {
			if Live(w.live) {
				return fmt.Errorf("alive with nothing to wait for")
			}
			return nil
		}
		c := w.remedy(waits)
		if err := w.send(c); err != nil {
			return err
		}
	}
	return fmt.Errorf("the run does not end: %+v", Waits(w.live))
}

// remedy does what the first wait that can be ended now is waiting for, or lets time pass.
func (w *walker) remedy(waits []Wait) Command {
	for _, wait := range waits {
		job := w.live.Jobs[wait.Job]
		id := w.live.AttemptID(wait.Job, max(wait.Attempt, 1))
		switch wait.Reason.Code {
		case ReasonLogUnsealed:
			return RecordLog{Attempt: id}
		case ReasonEvaluating:
			return RecordEvaluation{
				Job: w.live.JobID(wait.Job), Expression: job.Evaluation.Expression, InputDigest: job.Evaluation.InputDigest,
				Result: true,
			}
		case ReasonCallInputs, ReasonCallOutputs:
			return w.call(wait.Job, true)
		case ReasonGroup:
			c := RecordPlace{Job: wait.Job, Round: w.live.Round(), Generation: 1, Phase: PlaceAdmitted}
			if w.live.blocked() {
				c.Job = group.Whole
			}
			if p := w.live.place(c.Job); p.Generation > 0 {
				c.Generation = p.Generation
			}
			return c
		case ReasonGroupEvaluating:
			return RecordConcurrency{Job: w.live.JobID(wait.Job), Group: "g", InputDigest: job.Evaluation.InputDigest}
		case ReasonExpanding:
			return w.matrix(wait.Job, true)
		case ReasonWaitingForRunner:
			w.slots++
			return w.lease(wait.Job)
		case ReasonExecuting, ReasonCancelGrace, ReasonTimeoutGrace, ReasonFailFastGrace, ReasonYieldGrace:
			return ReportResult{
				Attempt: id, Epoch: job.Epoch, Digest: domain.DigestOf([]byte("end")),
				Outcome: oneOf(w, domain.OutcomeSuccess, domain.OutcomeCancelled),
			}
		case ReasonUncertainHeld:
			return Settle{Cause: by("eve"), Attempt: id, Effect: domain.EffectNone, Then: oneOf(w, ThenRetry, ThenFailure)}
		}
	}
	if next, ok := NextWake(w.live); ok && next.After(w.now) {
		w.now = next
	}
	return Wake{}
}
