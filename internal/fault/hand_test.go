package fault_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// hand drives the runner's own step function; jobs are scripts that print and end.
type hand struct {
	world *world
	steps *runner.Steps
	begin time.Time
	heard chan func() // what happened, to be taken in by the loop
	jobs  map[string]*script
}

// script is one attempt under way.
type script struct {
	hand   *hand
	order  *manifest.Manifest
	cancel context.CancelCauseFunc
}

var errCancelled, errKilled = errors.New("cancelled"), errors.New("killed")

func (h *hand) now() supervisor.Instant { return supervisor.Instant(time.Since(h.begin)) + 1 }

// loop plans and carries out until ctx ends.
func (h *hand) loop(ctx context.Context) {
	for {
		effects, next := h.steps.Plan(h.now())
		for _, e := range effects {
			h.do(ctx, e)
		}
		if len(effects) > 0 {
			continue
		}
		timer := time.NewTimer(time.Duration(max(next-h.now(), 1)))
		select {
		case f := <-h.heard:
			f()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// hear hands something to the loop, unless that has ended.
func (h *hand) hear(ctx context.Context, f func()) {
	select {
	case h.heard <- f:
	case <-ctx.Done():
	}
}

func (h *hand) do(ctx context.Context, e any) {
	switch e := e.(type) {
	case runner.Send:
		go h.exchange(ctx, e)
	case runner.Spawn:
		h.spawn(ctx, e.Manifest)
	case runner.Cancel:
		if s := h.jobs[e.Attempt]; s != nil {
			s.cancel(errCancelled)
		}
	case runner.Kill:
		if s := h.jobs[e.Attempt]; s != nil {
			s.cancel(errKilled)
		}
	case runner.Forget:
		delete(h.jobs, e.Attempt)
	case runner.Note:
		h.world.trace("runner: %s", e.Text)
	}
}

func (h *hand) exchange(ctx context.Context, e runner.Send) {
	within, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	res, err := h.world.exchange(within, e.Request)
	h.hear(ctx, func() {
		if err == nil {
			h.steps.Answered(e, res, h.now())
			return
		}
		if h.steps.Failed(e, err, h.now()) {
			h.world.book.find("the server does not know its runner any more: %v", err)
		}
	})
}

func (h *hand) spawn(ctx context.Context, order *manifest.Manifest) {
	within, cancel := context.WithCancelCause(ctx)
	s := &script{hand: h, order: order, cancel: cancel}
	h.jobs[string(order.Attempt)] = s
	b := h.world.book
	b.mu.Lock()
	b.began[fmt.Sprintf("%s round %d", order.Job, order.Round)]++
	b.mu.Unlock()
	go s.run(ctx, within)
}

// run is the job: a few lines of output, a step, and an end that its name decides.
func (s *script) run(ctx, within context.Context) {
	id := string(s.order.Attempt)
	tell := func(chunk *runnerv1.Chunk, progress *runnerv1.Progress, result *runnerv1.Result) {
		s.hand.hear(ctx, func() {
			var chunks []*runnerv1.Chunk
			var said []*runnerv1.Progress
			if chunk != nil {
				chunks = append(chunks, chunk)
			}
			if progress != nil {
				said = append(said, progress)
			}
			s.hand.steps.Spooled(id, chunks, said, result, s.hand.now())
		})
	}
	step := &runnerv1.Step{Index: 0, StartedUs: time.Now().UnixMicro()}
	tell(nil, &runnerv1.Progress{Attempt: id, Epoch: s.order.Epoch, Sequence: 1, Observed: "running",
		AtUs: time.Now().UnixMicro(), Steps: []*runnerv1.Step{step}}, nil)
	lines := 3
	if s.order.JobKey == "slow" {
		lines = 1000
	}
	seq := uint64(0)
	for range lines {
		seq++
		text := fmt.Appendf(nil, "%s line %d\n", id, seq)
		s.hand.world.book.print(s.order.Attempt, text)
		tell(&runnerv1.Chunk{Attempt: id, Epoch: s.order.Epoch, Sequence: seq, Stream: 1, Data: text,
			AtUs: time.Now().UnixMicro(), Checksum: domain.Checksum(text)}, nil, nil)
		if !pause(within, 700*time.Millisecond) {
			break
		}
	}
	if errors.Is(context.Cause(within), errKilled) || ctx.Err() != nil {
		s.hand.hear(ctx, func() { s.hand.steps.Ended(id, errKilled, s.hand.now()) })
		return
	}
	tell(nil, nil, s.result(within, step, seq))
	s.hand.hear(ctx, func() { s.hand.steps.Ended(id, nil, s.hand.now()) })
}

func (s *script) result(within context.Context, step *runnerv1.Step, end uint64) *runnerv1.Result {
	outcome, class := domain.OutcomeSuccess, domain.FailureNone
	switch {
	case within.Err() != nil:
		outcome, class = domain.OutcomeCancelled, domain.FailureCancelled
	case s.order.JobKey == "flaky" && s.order.Round == 1:
		outcome, class = domain.OutcomeFailure, domain.FailureUserCode
	}
	done := &runnerv1.Step{Index: 0, StartedUs: step.GetStartedUs(), FinishedUs: time.Now().UnixMicro(),
		Outcome: string(outcome), Conclusion: string(outcome)}
	effect := domain.EffectNone
	if s.order.Effectful {
		effect = domain.EffectConfirmed
	}
	r := &runnerv1.Result{Attempt: string(s.order.Attempt), Epoch: s.order.Epoch, Outcome: string(outcome),
		FailureClass: string(class), LogEnd: end, AtUs: time.Now().UnixMicro(), Effect: string(effect),
		Steps: []*runnerv1.Step{done}}
	job.Seal(r)
	return r
}

func (b *book) print(id domain.AttemptID, text []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.printed[id] = append(b.printed[id], text)
}

// pause waits; false means that ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
