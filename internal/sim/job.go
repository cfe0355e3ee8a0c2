package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// attempt is a supervisor with its job, and the folder in which it spools. It stands for
// what internal/runner/supervisor and job do with processes.
type attempt struct {
	machine   *machine
	id        string
	order     *manifest.Manifest
	random    *rand.Rand
	abandonAt supervisor.Instant
	alive     bool // the supervisor is
	acting    bool // a step runs
	hangs     bool // its supervisor does nothing any more
	started   bool // a step began
	step      int
	steps     []*runnerv1.Step
	seq, said uint64 // of chunks and of progress
	ending    string // why it is being stopped

	frames                     []any // what was spooled, in order
	read                       int
	chunksAcked, progressAcked uint64
	concluded                  bool // the result is in the spool
	ended                      bool // the agent was told that nothing is left
}

func newAttempt(m *machine, order *manifest.Manifest, abandonAt supervisor.Instant) *attempt {
	id := string(order.Attempt)
	a := &attempt{machine: m, id: id, order: order, abandonAt: abandonAt, alive: true,
		random: stream(m.world.seed, fmt.Sprintf("job/%s/%d", id, order.Epoch))}
	for i := range order.Steps {
		a.steps = append(a.steps, &runnerv1.Step{Index: uint32(i)})
	}
	return a
}

// kept is how much of the spool need not be read again by a new agent.
func (a *attempt) kept() int {
	for i, f := range a.frames {
		switch f := f.(type) {
		case *runnerv1.Chunk:
			if f.GetSequence() > a.chunksAcked {
				return i
			}
		case *runnerv1.Progress:
			if f.GetSequence() > a.progressAcked {
				return i
			}
		case *runnerv1.Result:
			return i
		}
	}
	return len(a.frames)
}

// next reads the next batch of the spool.
func (a *attempt) next() (chunks []*runnerv1.Chunk, progress []*runnerv1.Progress, result *runnerv1.Result) {
	for ; a.read < len(a.frames) && len(chunks) < 64; a.read++ {
		switch f := a.frames[a.read].(type) {
		case *runnerv1.Chunk:
			chunks = append(chunks, f)
		case *runnerv1.Progress:
			progress = append(progress, f)
		case *runnerv1.Result:
			result = f
		}
	}
	return chunks, progress, result
}

func (a *attempt) spool(frame any) {
	a.frames = append(a.frames, frame)
	a.machine.news()
}

// later plans something of the job. Whoever runs it first asks whether the lease ran out:
// a machine that was stopped kills before it goes on.
func (a *attempt) later(d time.Duration, f func()) {
	m := a.machine
	m.world.sched.after(m.jobs.takes(d), m.jobs, func() {
		if !a.alive {
			return
		}
		if m.now() >= a.killAt() {
			a.abandon()
			return
		}
		f()
	})
}

// killAt leaves the room for killing that a supervisor leaves.
func (a *attempt) killAt() supervisor.Instant {
	return a.abandonAt - supervisor.Instant(50*time.Millisecond)
}

func (a *attempt) start() {
	a.machine.world.book.mayAct(a)
	a.watch()
	a.progress(domain.ObservedPreparing)
	a.later(between(a.random, 20*time.Millisecond, time.Second), func() {
		limit := time.Duration(a.order.TimeoutSeconds) * time.Second
		a.later(limit, func() { a.stop("timeout", a.machine.world.swarm.grace) })
		a.runStep()
	})
}

// watch kills when the lease has run out.
func (a *attempt) watch() {
	at := a.killAt()
	a.machine.world.sched.at(a.machine.when(at)+1, a.machine.jobs, func() {
		if a.alive && a.killAt() == at {
			a.abandon()
		}
	})
}

func (a *attempt) extend(to supervisor.Instant) {
	if to > a.abandonAt {
		a.abandonAt = to
		a.machine.world.book.mayAct(a)
		a.watch()
	}
}

func (a *attempt) progress(seen domain.Observed, steps ...*runnerv1.Step) {
	a.said++
	p := &runnerv1.Progress{Attempt: a.id, Epoch: a.order.Epoch, Sequence: a.said, Observed: string(seen),
		AtUs: a.machine.wall().UnixMicro()}
	for _, s := range steps {
		p.Steps = append(p.Steps, cloneStep(s))
	}
	a.spool(p)
}

func cloneStep(s *runnerv1.Step) *runnerv1.Step {
	return &runnerv1.Step{Index: s.GetIndex(), Outcome: s.GetOutcome(), Conclusion: s.GetConclusion(),
		ExitCode: s.GetExitCode(), StartedUs: s.GetStartedUs(), FinishedUs: s.GetFinishedUs()}
}

// print spools a piece of log.
func (a *attempt) print() {
	a.seq++
	text := []byte(fmt.Sprintf("%s %d step %d: %x\n", a.id, a.seq, a.step, a.random.Uint64()))
	c := &runnerv1.Chunk{Attempt: a.id, Epoch: a.order.Epoch, Sequence: a.seq, Step: uint32(a.step), Stream: 1,
		AtUs: a.machine.wall().UnixMicro(), Data: text, Checksum: domain.Checksum(text)}
	a.machine.world.book.printed(a, c)
	a.spool(c)
}

// runStep begins the next step, or ends the job.
func (a *attempt) runStep() {
	m := a.machine
	if a.step == len(a.steps) {
		a.conclude(domain.OutcomeSuccess, domain.FailureNone, "")
		return
	}
	if m.world.chance(supervisorDies) {
		a.stopped(string(supervisorDies))
		m.news()
		return
	}
	a.hangs = m.world.chance(supervisorHang)
	s := a.steps[a.step]
	s.StartedUs = m.wall().UnixMicro()
	a.acting, a.started = true, true
	m.world.book.acts(a, true)
	a.progress(domain.ObservedRunning, s)
	left := a.random.IntN(m.world.swarm.chatty + 1)
	whole := between(a.random, 50*time.Millisecond, m.world.swarm.long)
	for range left {
		a.later(between(a.random, 0, whole), func() {
			if a.ending == "" {
				a.print()
			}
		})
	}
	step := a.step
	a.later(whole+1, func() {
		if a.step == step && a.ending == "" && !a.hangs {
			a.endStep()
		}
	})
}

func (a *attempt) endStep() {
	m, s := a.machine, a.steps[a.step]
	a.acting = false
	m.world.book.acts(a, false)
	s.FinishedUs = m.wall().UnixMicro()
	s.Outcome, s.Conclusion = string(domain.OutcomeSuccess), string(domain.OutcomeSuccess)
	if a.random.Float64() < m.world.swarm.failing {
		s.Outcome, s.Conclusion, s.ExitCode = string(domain.OutcomeFailure), string(domain.OutcomeFailure), 1
		class := pick(a.random, domain.FailureUserCode, domain.FailureUserCode, domain.FailurePlatform)
		a.conclude(domain.OutcomeFailure, class, "exit code 1")
		return
	}
	a.progress(domain.ObservedRunning, s)
	a.step++
	a.later(time.Millisecond, a.runStep)
}

// cancel is the server's request to stop.
func (a *attempt) cancel(reason string, grace time.Duration) {
	if a.alive {
		a.machine.world.line(a.machine.name, "cancels", "%s %s", short(a.id), reason)
		a.stop(reason, grace)
	}
}

// stop lets the job tidy up, at most for the grace period.
func (a *attempt) stop(reason string, grace time.Duration) {
	if a.ending != "" || a.concluded || a.hangs {
		return
	}
	a.ending = reason
	a.later(between(a.random, time.Millisecond, grace+time.Millisecond), func() {
		a.halt()
		if reason == "timeout" {
			a.conclude(domain.OutcomeTimedOut, domain.FailureTimeout, "it ran too long")
			return
		}
		a.conclude(domain.OutcomeCancelled, domain.FailureCancelled, "")
	})
}

// halt ends what the job does to the world.
func (a *attempt) halt() {
	if a.acting {
		a.acting = false
		a.machine.world.book.acts(a, false)
	}
}

// pauseActing notes that jobs on a machine that stands still do nothing to the world, and that
// those whose time has not come go on when it wakes: the others are killed before.
func (m *machine) pauseActing(pause bool) {
	for _, id := range slices.Sorted(maps.Keys(m.attempts)) {
		if a := m.attempts[id]; a.acting && a.alive && (pause || m.now() < a.killAt()) {
			m.world.book.acts(a, !pause)
		}
	}
}

// abandon is what a supervisor does when its lease has run out.
func (a *attempt) abandon() {
	a.machine.world.line(a.machine.name, "abandons", "%s", short(a.id))
	a.halt()
	a.conclude(domain.OutcomeFailure, domain.FailureRunnerLost, "the runner had no contact for so long")
}

// conclude spools the result and ends the supervisor.
func (a *attempt) conclude(o domain.Outcome, class domain.FailureClass, message string) {
	if a.concluded {
		return
	}
	a.halt()
	r := &runnerv1.Result{Attempt: a.id, Epoch: a.order.Epoch, Outcome: string(o), FailureClass: string(class),
		Message: message, LogEnd: a.seq, AtUs: a.machine.wall().UnixMicro(), Effect: string(a.effect(o))}
	for _, s := range a.steps {
		if s.GetStartedUs() > 0 {
			r.Steps = append(r.Steps, cloneStep(s))
		}
	}
	for _, o := range a.order.Outputs {
		r.Outputs = append(r.Outputs, a.output(o.Name))
	}
	job.Seal(r)
	a.concluded = true
	a.spool(r)
	a.alive = false
}

// output makes up what the job gives: a list for a matrix, or a text that is sometimes long.
func (a *attempt) output(name string) *runnerv1.Output {
	out := &runnerv1.Output{Name: name, Value: pick(a.random, "[]", "[1]", `["a", "b"]`, `["a", "b", "c"]`, "no list")}
	if name == "text" {
		out.Value = strings.Repeat("x", pick(a.random, 1, 40, 5000))
	}
	return out
}

func (a *attempt) effect(o domain.Outcome) domain.SideEffect {
	switch {
	case !a.order.Effectful || !a.started:
		return domain.EffectNone
	case o == domain.OutcomeSuccess:
		return domain.EffectConfirmed
	}
	return domain.EffectUnknown
}

// kill ends everything at once, by order of the agent.
func (a *attempt) kill() {
	a.stopped("killed")
	a.machine.news()
}

// stopped says that the supervisor is gone without having said how it ended.
func (a *attempt) stopped(why string) {
	if a.alive {
		a.halt()
		a.alive = false
		a.machine.world.line(a.machine.name, "job-stopped", "%s %s", short(a.id), why)
	}
}
