package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

// declinesOfJob bounds the leases of one job that are declined: each makes it wait longer for the
// next, and after eight it fails.
const declinesOfJob = 3

// hand works with the slots of one runner: it polls while a slot is free, executes nothing for
// as long as a job is to take, and reports. Results ride in a poll when none is under way, as
// they may; at most one poll and one upload are.
type hand struct {
	load *traffic
	*agent
	dice    *rand.Rand
	content []byte
	sum     uint64

	slots []slot
	held  map[string]*order // leases, by attempt, until their result is acknowledged
	ended []*order          // to be reported
	news  chan any          // answers, and orders whose time is over

	polling, uploading bool
}

// slot of a runner: it is offered under the number that it got when it became free.
type slot struct {
	offer uint64
	taken bool
}

// reply is the answer to an exchange.
type reply struct {
	poll     bool
	answer   *runnerv1.ExchangeResponse
	err      error
	reported []*order
	sent, at time.Time
}

func newHand(l *traffic, a *agent, seed uint64) *hand {
	h := &hand{load: l, agent: a, dice: rand.New(rand.NewPCG(seed, 1)), slots: make([]slot, l.of.Slots),
		held: map[string]*order{}, news: make(chan any, l.of.Slots+2)}
	if l.of.LogBytes > 0 {
		h.content = logText(l.of.LogBytes)
		h.sum = domain.Checksum(h.content)
	}
	return h
}

// serve goes on until work ends.
func (h *hand) serve(ctx context.Context) error {
	for {
		switch free := h.offers(); {
		case !h.polling && (len(free) > 0 || len(h.ended) > 0):
			h.polling = true
			h.send(ctx, h.request(free, true))
			continue
		case !h.uploading && len(h.ended) > 0:
			h.uploading = true
			h.send(ctx, h.request(free, false))
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case n := <-h.news:
			if o, over := n.(*order); over {
				h.end(o)
				continue
			}
			if err := h.take(n.(reply)); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	}
}

// end notes that an execution is over, and is to be reported.
func (h *hand) end(o *order) {
	o.over = true
	h.ended = append(h.ended, o)
}

func (h *hand) offers() []string {
	var out []string
	for i, s := range h.slots {
		if !s.taken {
			out = append(out, h.offer(i))
		}
	}
	return out
}

func (h *hand) offer(i int) string { return fmt.Sprintf("%s/%d/%d", h.runner, i, h.slots[i].offer) }

// asked is an exchange, and the orders that it reports.
type asked struct {
	req      *runnerv1.ExchangeRequest
	reported []*order
}

// request carries everything that waits.
func (h *hand) request(free []string, poll bool) asked {
	a := asked{&runnerv1.ExchangeRequest{Offers: free}, h.ended}
	h.ended = nil
	if poll {
		a.req.WaitMs = pollFor.Milliseconds()
	}
	for id, o := range h.held {
		if o.over {
			continue
		}
		a.req.Renewals = append(a.req.Renewals, &runnerv1.Renewal{Attempt: id, Epoch: o.lease.GetEpoch(),
			Observed: string(domain.ObservedRunning)})
		if o.stopped {
			a.req.KnownCancels = append(a.req.KnownCancels, id)
		}
	}
	for _, o := range a.reported {
		if o.outcome == domain.OutcomeNone {
			a.req.Declines = append(a.req.Declines, &runnerv1.Decline{Attempt: o.lease.GetAttempt(),
				Epoch: o.lease.GetEpoch(), Reason: "measured"})
			continue
		}
		h.report(a.req, o)
	}
	return a
}

// report adds what a runner says of an execution: that it began, its log, its result.
func (h *hand) report(req *runnerv1.ExchangeRequest, o *order) {
	began, now := o.at.UnixMicro(), time.Now().UnixMicro()
	req.Progress = append(req.Progress, &runnerv1.Progress{Attempt: o.lease.GetAttempt(), Epoch: o.lease.GetEpoch(),
		Sequence: 1, Observed: string(domain.ObservedRunning), AtUs: began})
	end := uint64(0)
	if len(h.content) > 0 {
		end = 1
		req.Chunks = append(req.Chunks, o.chunk(1, h.content, h.sum))
	}
	r := &runnerv1.Result{Attempt: o.lease.GetAttempt(), Epoch: o.lease.GetEpoch(), Outcome: string(o.outcome),
		LogEnd: end, Effect: string(domain.EffectNone), AtUs: now,
		Digest: string(domain.DigestOf([]byte(o.lease.GetAttempt())))}
	switch o.outcome {
	case domain.OutcomeFailure:
		r.FailureClass = string(domain.FailureUserCode)
	case domain.OutcomeCancelled:
		r.FailureClass = string(domain.FailureCancelled)
	}
	for _, step := range o.manifest.Steps {
		r.Steps = append(r.Steps, &runnerv1.Step{Index: uint32(step.Index), Outcome: string(o.outcome),
			Conclusion: string(o.outcome), StartedUs: began, FinishedUs: now})
	}
	req.Results = append(req.Results, r)
}

// send makes the exchange; the answer comes as news.
func (h *hand) send(ctx context.Context, a asked) {
	h.label(a.req)
	sent := time.Now()
	go func() {
		answer, err := h.client.Exchange(ctx, a.req)
		if h.load.counting() {
			h.load.exchanges.Add(1)
		}
		h.news <- reply{a.req.GetWaitMs() > 0, answer, err, a.reported, sent, time.Now()}
	}()
}

// take goes through an answer.
func (h *hand) take(r reply) error {
	if r.poll {
		h.polling = false
	} else {
		h.uploading = false
	}
	if r.err != nil {
		return fmt.Errorf("exchange of %s: %w", h.runner, r.err)
	}
	h.heard(r.answer)
	acked := map[string]bool{}
	for _, ack := range r.answer.GetAcks() {
		if ack.GetRefused() != "" {
			if o := h.held[ack.GetAttempt()]; o != nil && o.lease.GetEpoch() == ack.GetEpoch() && h.load.of.Cancel > 0 {
				h.release(o) // a cancelled run may have ended without it
				continue
			}
			return fmt.Errorf("result of %s: refused: %s %s", ack.GetAttempt(), ack.GetRefused(), ack.GetMessage())
		}
		acked[ack.GetAttempt()] = ack.GetResult()
	}
	for _, o := range r.reported {
		if !acked[o.lease.GetAttempt()] {
			if _, held := h.held[o.lease.GetAttempt()]; held {
				h.end(o) // said again
			}
			continue
		}
		h.release(o)
		if o.outcome == domain.OutcomeNone {
			continue
		}
		h.load.write(bookAcked, o.lease.GetAttempt(), r.at)
		of := taken{run: string(o.manifest.Run), job: string(o.manifest.Job)}
		if err := h.load.done(of, o.outcome, r.sent, r.at); err != nil {
			return err
		}
	}
	orders := h.opener(r.answer)
	for _, lease := range r.answer.GetLeases() {
		if err := h.accept(lease, orders); err != nil {
			return err
		}
	}
	for _, c := range r.answer.GetCancels() {
		h.stop(c)
	}
	return nil
}

// release frees the slot of an order: it is offered anew, under another number.
func (h *hand) release(o *order) {
	delete(h.held, o.lease.GetAttempt())
	h.slots[o.slot].taken = false
	h.slots[o.slot].offer++
}

// accept verifies a manifest and begins the execution.
func (h *hand) accept(lease *runnerv1.Lease, orders *manifest.Opener) error {
	if h.held[lease.GetAttempt()] != nil {
		return nil // told again, before the server heard that it is held
	}
	m, err := orders.Open(lease.GetManifest(), lease.GetKeyId(), lease.GetSignature())
	if err != nil {
		return fmt.Errorf("order for %s: %w", h.runner, err)
	}
	o := &order{lease: lease, manifest: m, at: time.Now(), slot: -1}
	for i, s := range h.slots {
		if !s.taken && string(m.Slot) == h.offer(i) {
			o.slot = i
		}
	}
	if o.slot < 0 || string(m.Runner) != h.runner || m.Epoch != lease.GetEpoch() {
		return fmt.Errorf("order for %s: the manifest is for runner %s, slot %s", h.runner, m.Runner, m.Slot)
	}
	h.slots[o.slot].taken, h.held[lease.GetAttempt()] = true, o
	if m.Number <= declinesOfJob && h.dice.IntN(100) < h.load.of.Decline {
		h.end(o)
		return nil
	}
	h.load.write(bookGot, lease.GetAttempt(), o.at)
	if h.load.onGot != nil {
		h.load.onGot(string(m.Run), o.at)
	}
	o.outcome = domain.OutcomeSuccess
	if h.dice.IntN(100) < h.load.of.Fail {
		o.outcome = domain.OutcomeFailure
	}
	if h.load.of.JobTime == 0 {
		h.end(o)
		return nil
	}
	o.timer = time.AfterFunc(h.load.of.JobTime, func() { h.news <- o })
	return nil
}

// stop ends an execution that is to be cancelled, if it has not ended.
func (h *hand) stop(c *runnerv1.Cancel) {
	o := h.held[c.GetAttempt()]
	if o == nil {
		return
	}
	o.stopped = true
	if o.timer == nil || !o.timer.Stop() {
		return
	}
	o.outcome = domain.OutcomeCancelled
	h.end(o)
}
