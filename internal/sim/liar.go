package sim

import (
	"fmt"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
)

// lie sends something that is not so; some who do can't stop.
func (w *world) lie() {
	for range pick(w.stream("liar/babbles"), 1, 1, 4, 8) {
		w.oneLie()
	}
}

// oneLie sends something that is not so, with a real session: a result of somebody else's
// attempt, another result of its own, an epoch that is over or never was, chunks of others.
func (w *world) oneLie() {
	r := w.stream("liar")
	aimed := r.IntN(2) == 0 // at what somebody holds now
	att, ok := w.book.anyAttempt(r, aimed)
	m := pick(r, w.machines...)
	if holder := w.book.runners[att.runner]; r.IntN(3) == 0 && holder != nil {
		m = holder
	}
	if m.id.session == "" || !ok {
		return
	}
	epoch := max(att.epoch+uint64(r.IntN(3)), 1) - uint64(r.IntN(2))
	req := &runnerv1.ExchangeRequest{Session: m.id.session, Resume: m.id.resume, Sequence: 1}
	id := string(att.id)
	own := string(att.runner) == m.id.runner
	// Of an attempt that a runner may still hold, its own word is the truth, whatever it says.
	live := own && (att.open || m.attempts[id] != nil)
	switch {
	case aimed && !own:
		epoch = att.epoch // everything is right but who speaks
	case live && epoch == att.epoch:
		epoch++ // under another epoch not even the holder is believed
	}
	what, kind := "", r.IntN(5)
	if own && !live && r.IntN(2) == 0 {
		kind, epoch = 0, att.epoch // who has told how it ended tells it otherwise
	}
	switch kind {
	case 0:
		what = "result"
		res := &runnerv1.Result{Attempt: id, Epoch: epoch, Outcome: pick(r, "success", "failure", "cancelled"),
			Message: fmt.Sprintf("a lie %d", r.IntN(1000)), FailureClass: "user_code"}
		job.Seal(res)
		req.Results = append(req.Results, res)
	case 1:
		what = "progress"
		req.Progress = append(req.Progress, &runnerv1.Progress{Attempt: id, Epoch: epoch, Sequence: uint64(r.IntN(9) + 1),
			Observed: string(domain.ObservedRunning), Steps: []*runnerv1.Step{{Index: 0, StartedUs: 1}}})
	case 2:
		what = "chunk"
		if own && epoch == att.epoch {
			epoch++ // a leader that has not heard of the end takes a holder's chunks, and what came is kept
		}
		text := []byte(fmt.Sprintf("%s a lie %d\n", id, r.IntN(1000)))
		req.Chunks = append(req.Chunks, &runnerv1.Chunk{Attempt: id, Epoch: epoch, Sequence: uint64(r.IntN(9) + 1), Stream: 1,
			Data: text, Checksum: domain.Checksum(text)})
	case 3:
		what = "decline"
		req.Declines = append(req.Declines, &runnerv1.Decline{Attempt: id, Epoch: epoch, Reason: "a lie"})
	default:
		if own {
			return // the holder's list of renewals is the holder's
		}
		what = "renewal"
		req.Renewals = append(req.Renewals, &runnerv1.Renewal{Attempt: id, Epoch: epoch})
		req.KnownCancels = append(req.KnownCancels, id)
	}
	w.line("liar", "says", "%s of %s epoch %d as %s", what, short(id), epoch, m.name)
	w.call(call{from: w.clients[0].process, name: "liar", to: pick(r, w.servers...), what: "lie",
		handle: func(s *served) (any, error) { return s.exchange(req) },
		done: func(answer any, _ error) {
			if resp, ok := answer.(*runnerv1.ExchangeResponse); ok && resp != nil {
				w.book.told(m, req, resp)
			}
		}}, 10*time.Second)
}
