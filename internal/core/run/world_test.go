package run

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// start is second zero of every test.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const testRun = domain.RunID("run_00000000000000000000000001")

// world is one run that is lived twice: once by the events as decided, once by the events
// as they come back from their stored form. After every event and every decision it checks
// everything that has to hold.
type world struct {
	live   *State
	replay *State
	now    time.Time
	log    [][]byte
	names  []string // of all events: version n at n-1
	lastAt time.Time
}

func newWorld() *world { return &world{live: New(), replay: New(), now: start} }

// do decides, applies and checks. The error is a broken law, never a refusal.
func (w *world) do(c Command) (Decision, *domain.Rejection, error) {
	before := EncodeState(w.live)
	frozen := freeze(w.live)
	d, rejection := Decide(w.live, c, w.now)
	if !bytes.Equal(before, EncodeState(w.live)) {
		return d, rejection, fmt.Errorf("%s: Decide changed the state", c.Name())
	}
	if rejection != nil && len(d.Events) > 0 {
		return d, rejection, fmt.Errorf("%s: a rejection with events", c.Name())
	}
	if len(d.Events) == 0 {
		return d, rejection, nil
	}
	data, err := EncodeEvents(d.Events, codec.Format)
	if err != nil {
		return d, rejection, err
	}
	if err := sameAsText(d.Events, data); err != nil {
		return d, rejection, err
	}
	again, err := DecodeEvents(data)
	if err != nil {
		return d, rejection, err
	}
	w.log = append(w.log, data)
	for i := range d.Events {
		if d.Events[i].Time().Before(w.lastAt) {
			return d, rejection, fmt.Errorf("%s: %s goes back in time", c.Name(), d.Events[i].Name())
		}
		w.lastAt = d.Events[i].Time()
		w.names = append(w.names, again[i].Name())
		open := Open(w.live) + Opens(d.Events[i])
		Evolve(w.live, d.Events[i])
		if Open(w.live) != open {
			return d, rejection, fmt.Errorf("%s: %d jobs are open after %s, told are %d", c.Name(), Open(w.live),
				d.Events[i].Name(), open)
		}
		Evolve(w.replay, again[i])
		if err := checkAlways(w.live); err != nil {
			return d, rejection, fmt.Errorf("%s after %s: %w", c.Name(), d.Events[i].Name(), err)
		}
	}
	return d, rejection, w.check(c, frozen)
}

// sameAsText says that the forms of both kinds of reader mean the same.
func sameAsText(events []Event, data []byte) error {
	text, err := EncodeEvents(events, codec.FormatPacked-1)
	if err != nil {
		return err
	}
	fromText, err1 := DecodeEvents(text)
	fromPacked, err2 := DecodeEvents(data)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !reflect.DeepEqual(fromText, fromPacked) {
		return fmt.Errorf("packed and as text they are not the same: %s", text)
	}
	return nil
}

// stateText is a state for people.
func stateText(s *State) string {
	data, err := codec.Marshal(s)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (w *world) check(c Command, before map[string]string) error {
	if err := Check(w.live); err != nil {
		return fmt.Errorf("after %s: %w", c.Name(), err)
	}
	state := EncodeState(w.live)
	if !bytes.Equal(state, EncodeState(w.replay)) {
		return fmt.Errorf("after %s: replay differs\nlive   %s\nreplay %s", c.Name(), stateText(w.live), stateText(w.replay))
	}
	restored, err := DecodeState(state)
	if err != nil {
		return err
	}
	if !bytes.Equal(state, EncodeState(restored)) {
		return fmt.Errorf("after %s: a checkpoint differs from what it was made of", c.Name())
	}
	after := freeze(w.live)
	_, opened := c.(Rerun) // takes jobs into the next round; the round before keeps its outcomes
	for key, value := range before {
		if after[key] != value && !(opened && strings.HasPrefix(key, "job ")) {
			return fmt.Errorf("after %s: %s was committed as %q and is %q (3)", c.Name(), key, value, after[key])
		}
	}
	return w.checkWaits()
}

// checkWaits proves that whatever waits has a reason, a cause and an end.
func (w *world) checkWaits() error {
	waits := Waits(w.live)
	for _, wait := range waits {
		if !wait.Reason.Code.Waits() || wait.CausedBy.Version == 0 || len(wait.EndedBy) == 0 || wait.Since.IsZero() {
			return fmt.Errorf("job %d waits without reason, cause or end: %+v", wait.Job, wait)
		}
		if cause := w.names[wait.CausedBy.Version-1]; cause != wait.CausedBy.Event {
			return fmt.Errorf("job %d waits because of event %d, which is %s, not %s",
				wait.Job, wait.CausedBy.Version, cause, wait.CausedBy.Event)
		}
		next, ok := NextWake(w.live)
		for _, end := range wait.EndedBy {
			if end.Kind == EndsByTimer && (!ok || next.After(end.At)) {
				return fmt.Errorf("job %d waits for a timer at %s that nobody sets", wait.Job, end.At)
			}
		}
	}
	if Live(w.live) != (len(waits) > 0) {
		return fmt.Errorf("live is %t with %d waits", Live(w.live), len(waits))
	}
	return nil
}

// replayAll rebuilds the state from nothing but the stored events.
func (w *world) replayAll() (*State, error) {
	s := New()
	for _, data := range w.log {
		events, err := DecodeEvents(data)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			Evolve(s, e)
		}
	}
	return s, nil
}

// freeze lists what is committed and may never change.
func freeze(s *State) map[string]string {
	out := map[string]string{}
	for j, job := range s.Jobs {
		for i := range job.Attempts {
			a := &job.Attempts[i]
			if a.Outcome != domain.OutcomeNone {
				key := string(s.AttemptID(j, a.Number))
				out[key] = fmt.Sprint(a.Outcome, a.Class, a.Report, a.Reason.Code, a.ConcludedAt, a.Epoch, a.Runner)
				if a.Log != nil {
					out[key+" log"] = fmt.Sprint(*a.Log)
				}
			}
		}
	}
	for _, round := range s.Rounds {
		if round.Outcome != domain.OutcomeNone {
			out[fmt.Sprint("round ", round.Number)] = fmt.Sprint(round.Outcome, round.ConcludedAt, round.Outcomes)
		}
	}
	for j, job := range s.Jobs {
		if g, leg := s.GroupOf(j); leg && !slices.Contains(s.Jobs[g].Legs, j) {
			continue // of an earlier round, until its group has it again
		}
		if job.State == StateConcluded {
			out[fmt.Sprint("job ", j, " in round ", s.Round())] = fmt.Sprint(job.Outcome, job.Decider)
		}
	}
	return out
}

func by(name string) domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "user", ID: name}, At: start}
}

// testRequest is a run of the given jobs as somebody would request it.
func testRequest(jobs ...JobSkeleton) RequestRun {
	for i := range jobs {
		jobs[i].Index = i
		if jobs[i].Name == "" {
			jobs[i].Name = jobs[i].Key
		}
		if jobs[i].TimeoutSeconds == 0 {
			jobs[i].TimeoutSeconds = 3600
		}
	}
	return RequestRun{Cause: by("ada"), Request: Request{
		Run: testRun, Tenant: domain.DefaultTenant, Repository: "rep_00000000000000000000000001",
		RepositoryName: "shop", Number: 7,
		Trigger: Trigger{
			Event: "push", Key: "k1", Actor: domain.Actor{Kind: "user", ID: "ada"}, ReceivedAt: start,
		},
		Source: Source{Commit: "c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7c7", Ref: "refs/heads/main",
			Title: "Sell boats"},
		WorkflowPath: ".fairlead/workflows/ci.yml", WorkflowName: "ci",
		Snapshot: domain.DigestOf([]byte("snapshot")), Plan: domain.DigestOf([]byte("plan")),
		Tier: domain.TierTrusted, Class: domain.ClassInteractive, Skeleton: slices.Clone(jobs),
	}}
}
