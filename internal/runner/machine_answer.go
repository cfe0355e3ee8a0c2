package runner

import (
	"cmp"
	"fmt"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
)

// answered takes the server's answer to an exchange.
func (m *machine) answered(k kind, req *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse, now instant) {
	c := &m.calls[k]
	sent := c.sent
	c.flying, c.tries = false, 0
	if !m.greeted {
		m.greeted = true
		m.effect(effReady{})
	}
	if len(req.GetRenewals()) > 0 {
		m.renewed = max(m.renewed, sent)
	}
	m.remember(resp)
	b := resp.GetBatch()
	orders := manifest.NewOpener(m.keys, manifest.Batch{
		Digests: b.GetDigests(), KeyID: b.GetKeyId(), Signature: b.GetSignature(),
	})
	for _, l := range resp.GetLeases() {
		m.lease(l, orders, sent, now)
	}
	for _, r := range resp.GetRenewals() {
		m.renewal(r, sent, now)
	}
	for _, x := range resp.GetCancels() {
		m.cancel(x, now)
	}
	for _, a := range resp.GetAcks() {
		m.ack(a, now)
	}
	if k == upload {
		m.uploaded = now
		if m.paused {
			m.paused, m.calls[poll].notYet = false, 0
		}
		m.each(func(h *held) {
			if h.resendAt != 0 {
				h.resendAt = min(h.resendAt, now.Add(resendSoon))
			}
		})
	}
	if m.vain > 0 && len(resp.GetLeases()) > 0 {
		m.calls[poll].notYet = now.Add(m.vainPause())
	}
	if after := resp.GetRetryAfterMs(); after > 0 {
		c.notYet = now.Add(time.Duration(after) * time.Millisecond)
	} else if k == poll && now < sent.Add(pollPause/2) && idle(resp) && m.uploaded <= sent {
		c.notYet, m.paused = now.Add(pollPause), true
	}
}

// vainPause is how long the runner asks for no work after leases that it had to decline, one after
// the other: with a clock that is wrong it would decline everything, and each costs a job an
// attempt. While it has work it looks more often, for what is cancelled.
func (m *machine) vainPause() time.Duration {
	most := backoffMax
	if len(m.held) > 0 {
		most = vainHeld
	}
	return min(backoffFirst<<min(m.vain-1, 10), most)
}

func idle(r *runnerv1.ExchangeResponse) bool {
	return len(r.GetLeases())+len(r.GetCancels())+len(r.GetAcks()) == 0
}

// disown forgets a token that the server does not hold and that nothing proves: it would
// refuse everything that comes with it.
func (m *machine) disown(req *runnerv1.ExchangeRequest) {
	if m.token != (domain.Token{}) && m.token.String() == req.GetToken() {
		m.note("the server refused the acknowledgement token; going on without it", "token", req.GetToken())
		m.token = domain.Token{}
	}
}

// failed takes the failure of an exchange: the server is away, or said no.
func (m *machine) failed(k kind, req *runnerv1.ExchangeRequest, err error, now instant) {
	c := &m.calls[k]
	c.flying = false
	c.tries++
	m.paused = m.paused && k != poll
	pause := min(backoffFirst<<min(c.tries-1, 10), backoffMax)
	if k == beat {
		pause = min(pause, m.renewEvery()/4) // there may be a lease to save
	}
	c.notYet = now.Add(time.Duration(float64(pause) * (0.5 + m.jitter())))
	if c.tries == 1 {
		m.note("the server did not answer", "exchange", k.String(), "error", err)
	}
	if k != upload {
		return
	}
	// Nobody knows what of it arrived: say all of it again; the server drops repeats.
	m.offered = false
	m.declines = append(m.declines, req.GetDeclines()...)
	m.each(func(h *held) { h.unsend() })
}

func (h *held) unsend() {
	h.chunksSent, h.progressSent, h.resultSent, h.resendAt = 0, 0, h.resultDone, 0
}

// remember keeps the server's own settings and the highest token.
func (m *machine) remember(resp *runnerv1.ExchangeResponse) {
	if t, ok := domain.ParseProvenToken(resp.GetToken(), resp.GetProof()); ok && t != (domain.Token{}) {
		if t.Partition != m.token.Partition || t.Epoch > m.token.Epoch ||
			t.Epoch == m.token.Epoch && t.Position > m.token.Position {
			m.token = t
		}
	}
	if len(resp.GetKeys()) > 0 {
		ring, err := keyring(resp.GetKeys())
		switch {
		case err != nil:
			m.note("the server's signing keys can't be used", "error", err)
		case !ring.Equal(m.keys):
			m.keys = ring // what the server does not publish any more signs nothing
			m.effect(effKeys{resp.GetKeys()})
		}
	}
	if resp.GetTiming() != nil {
		m.timing = resp.GetTiming()
	}
}

func keyring(keys []*runnerv1.SigningKey) (manifest.Keyring, error) {
	ring := make(manifest.Keyring)
	for _, k := range keys {
		if err := ring.Add(k.GetId(), k.GetEd25519()); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// lease takes a lease or declines it.
//
// Trust: a lease is the server's only if its manifest's signature verifies; until then
// it may be anybody's who is between us.
func (m *machine) lease(l *runnerv1.Lease, orders *manifest.Opener, sent, now instant) {
	if h := m.held[l.GetAttempt()]; h != nil && h.epoch == l.GetEpoch() {
		return // said twice
	}
	order, no := m.accept(l, orders, sent, now)
	if no != nil {
		m.vain++
		m.note("declined a lease", "attempt", l.GetAttempt(), "epoch", l.GetEpoch(), "reason", no.reason)
		m.declines = append(m.declines, &runnerv1.Decline{
			Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Reason: no.reason,
		})
		// A token is used once, also in vain.
		if i := m.slotOf(l.GetSlot()); i >= 0 && !m.slots[i].taken && m.tokenOf(i) == l.GetSlot() {
			m.free(i)
		}
		return
	}
	i := m.slotOf(l.GetSlot())
	m.slots[i].taken, m.vain = true, 0
	h := &held{
		attempt: l.GetAttempt(), epoch: l.GetEpoch(), slot: i, observed: string(domain.ObservedPreparing),
		abandonAt: sent.Add(m.abandonAfter(l.GetAbandonMs())),
	}
	m.held[h.attempt] = h
	m.renewed = max(m.renewed, sent)
	m.effect(effSpawn{order, h.abandonAt})
}

// accept checks everything about a lease that could make it somebody else's, old, or
// impossible here.
func (m *machine) accept(
	l *runnerv1.Lease, orders *manifest.Opener, sent, now instant,
) (*manifest.Manifest, *refusal) {
	if m.draining {
		return nil, refuse("the runner is ending and takes no more work")
	}
	if h := m.held[l.GetAttempt()]; h != nil {
		return nil, refuse("the runner still answers for epoch %d of this attempt", h.epoch)
	}
	i := m.slotOf(l.GetSlot())
	if i < 0 || m.slots[i].taken || m.tokenOf(i) != l.GetSlot() {
		return nil, refuse("the slot %s is not open", l.GetSlot())
	}
	order, err := orders.Open(l.GetManifest(), l.GetKeyId(), l.GetSignature())
	if err != nil {
		return nil, refuse("%v", err)
	}
	if _, _, _, ok := order.Attempt.Split(); !ok {
		return nil, refuse("the manifest's attempt %q is not well formed", order.Attempt)
	}
	switch {
	case string(order.Runner) != m.runner:
		return nil, refuse("the manifest is for the runner %s", order.Runner)
	case string(order.Attempt) != l.GetAttempt() || order.Epoch != l.GetEpoch() || string(order.Slot) != l.GetSlot():
		return nil, refuse("the manifest is for attempt %s, epoch %d, slot %s", order.Attempt, order.Epoch, order.Slot)
	case !m.wall().Before(order.Expires):
		return nil, refuse("the manifest expired at %s by this machine's clock", order.Expires.Format(time.RFC3339))
	case now >= sent.Add(m.abandonAfter(l.GetAbandonMs())):
		return nil, refuse("the lease was over before it arrived")
	}
	return order, nil
}

func (m *machine) abandonAfter(ms int64) time.Duration {
	return time.Duration(cmp.Or(ms, m.timing.GetAbandonMs(), abandonDefault.Milliseconds())) * time.Millisecond
}

// renewal extends an attempt, counted from when we asked: how long the answer took is
// not ours to spend.
func (m *machine) renewal(r *runnerv1.RenewalReply, sent, now instant) {
	h := m.held[r.GetAttempt()]
	if h == nil || h.epoch != r.GetEpoch() || h.dropped {
		return
	}
	if !r.GetLive() {
		// With a result there is nothing left to kill, and only an acknowledgement or a
		// refusal of it ends our duty.
		if h.result == nil {
			m.drop(h, cmp.Or(r.GetCode(), "the lease is not live"), now)
		}
		return
	}
	to := sent.Add(m.abandonAfter(r.GetAbandonMs()))
	if to > h.abandonAt {
		h.abandonAt = to
		m.effect(effExtend{h.attempt, to})
	}
}

// cancel passes a request on. One for an attempt that is not held needs no answer: the
// renewals already say so.
func (m *machine) cancel(x *runnerv1.Cancel, now instant) {
	h := m.held[x.GetAttempt()]
	if h == nil || h.epoch != x.GetEpoch() || h.cancelled {
		return
	}
	h.cancelled = true
	grace := time.Duration(cmp.Or(x.GetGraceMs(), m.timing.GetGraceMs(), graceDefault.Milliseconds())) * time.Millisecond
	m.effect(effCancel{h.attempt, cmp.Or(x.GetReason(), "cancelled"), grace})
	h.force(now.Add(grace + forceAfter))
	m.offered = false // makes the next exchange immediate, and that says that we know
}

// ack forgets what the server has.
func (m *machine) ack(a *runnerv1.Ack, now instant) {
	h := m.held[a.GetAttempt()]
	if h == nil || h.epoch != a.GetEpoch() {
		return
	}
	if a.GetRefused() != "" {
		m.drop(h, a.GetRefused()+": "+a.GetMessage(), now)
		return
	}
	news := false
	for len(h.chunks) > 0 && h.chunks[0].GetSequence() <= a.GetChunks() {
		h.chunkBytes -= weight(h.chunks[0])
		h.chunks = h.chunks[1:]
		h.chunksSent = max(h.chunksSent-1, 0)
		news = true
	}
	for len(h.progress) > 0 && h.progress[0].GetSequence() <= a.GetProgress() {
		h.progress = h.progress[1:]
		h.progressSent = max(h.progressSent-1, 0)
		news = true
	}
	h.acked = max(h.acked, a.GetChunks())
	if a.GetResult() && h.result != nil {
		h.resultDone = true
	}
	if h.chunksSent+h.progressSent == 0 && (h.resultDone || !h.resultSent) {
		h.resendAt = 0
	} else if news {
		h.resendAt = now.Add(resendAfter)
	}
	if news && !h.gone {
		m.effect(effAck{h.attempt, a.GetChunks(), a.GetProgress()})
	}
	m.settle(h)
}

// lostResult is what there is to say of an attempt that left no result.
func lostResult(h *held, fault error) *runnerv1.Result {
	message := "the attempt ended without a result"
	if fault != nil {
		message = fmt.Sprintf("the attempt ended without a result: %v", fault)
	}
	r := &runnerv1.Result{
		Attempt: h.attempt, Epoch: h.epoch, Outcome: string(domain.OutcomeFailure),
		FailureClass: string(domain.FailurePlatform), Message: message, Effect: string(domain.EffectNone),
		LogEnd: h.acked,
	}
	if h.adopted || h.observed != string(domain.ObservedPreparing) {
		r.Effect = string(domain.EffectUnknown)
	}
	if n := len(h.chunks); n > 0 {
		r.LogEnd = h.chunks[n-1].GetSequence()
	}
	job.Seal(r)
	return r
}
