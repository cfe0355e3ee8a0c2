package dispatch

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Protocol is the version of the runner protocol that this server speaks.
const Protocol = 1

// Limits of one exchange. A runner that sends more is told so; it splits what it has.
const (
	offersMax   = 1000 // slots of a runner
	messagesMax = 4096 // renewals, progress, results, declines or chunks of one exchange
	keysMax     = 1000 // a server publishes a handful

	// tellAgain is when a lease is told once more whose runner has not named it: the answer
	// that told it was lost, or a decline is on its way.
	tellAgain = time.Second
)

// Key verifies manifests.
type Key struct {
	ID     string
	Public ed25519.PublicKey
}

// Exchange implements the runner protocol: take everything in, answer at once when there
// is something to say, otherwise wait as long as the runner asked for.
//
// Trust: the request is a runner's only after authenticate.
func (d *Dispatcher) Exchange(ctx context.Context, req *runnerv1.ExchangeRequest) (*runnerv1.ExchangeResponse, error) {
	p, err := d.Begin(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		limit, over := p.Look(ctx)
		if over || d.cfg.Host.Wait(ctx, host.For{News: p.News(), Limit: limit}) == host.Ended {
			return p.End()
		}
	}
}

// tells reports whether an answer says anything to the runner.
func tells(res *runnerv1.ExchangeResponse) bool {
	return len(res.GetLeases())+len(res.GetCancels())+len(res.GetAcks()) > 0 || refused(res)
}

// brings reports whether the runner hands something over that must be acknowledged.
func brings(req *runnerv1.ExchangeRequest) bool {
	return len(req.GetChunks())+len(req.GetProgress())+len(req.GetResults())+len(req.GetDeclines()) > 0
}

// Whole is nil when memory holds every live stream; until then what it does not know may be there
// all the same, and whoever asks is to ask again.
func (d *Dispatcher) Whole() error {
	if !d.loaded() {
		return errNotReady
	}
	return nil
}

// loaded reports whether memory holds every live stream.
func (d *Dispatcher) loaded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.allReady()
}

func checkSizes(req *runnerv1.ExchangeRequest) error {
	n := max(
		len(req.GetRenewals()),
		len(req.GetProgress()),
		len(req.GetResults()),
		len(req.GetChunks()),
		len(req.GetDeclines()),
	)
	if n > messagesMax || len(req.GetOffers()) > offersMax || len(req.GetKnownKeys()) > keysMax {
		return domain.Reject(domain.CodeTooLarge, "Too many messages in one exchange; send the rest with the next one.")
	}
	return nil
}

func (d *Dispatcher) timing() *runnerv1.Timing {
	t := d.cfg.Timing
	return &runnerv1.Timing{PollMs: t.Poll.Milliseconds(), RenewMs: (t.Lease / 3).Milliseconds(),
		LeaseMs: t.Lease.Milliseconds(), AbandonMs: t.Abandon.Milliseconds(), GraceMs: d.cfg.Grace.Milliseconds()}
}

// authenticate finds the runner that a session belongs to. The answer is the same for an
// unknown session and a wrong secret, and it is a leader's: who follows may not have heard of
// the runner yet, and a runner that is told no registers anew or ends.
func (d *Dispatcher) authenticate(session, resume string) (agent, error) {
	sum := sha256.Sum256([]byte(resume))
	digest := hex.AppendEncode(append(make([]byte, 0, 80), "sha256:"...), sum[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.board.session[domain.SessionID(session)]
	if a != nil && subtle.ConstantTimeCompare([]byte(a.Resume), digest) == 1 {
		return *a, nil
	}
	if err := d.unsure(); err != nil {
		return agent{}, err
	}
	return agent{}, domain.Reject(domain.CodeUnauthenticated, "This session is not known; register the runner again.")
}

var errNotReady = domain.Reject(domain.CodeNotOwner, "The server is starting; try again.")

// allReady reports whether memory holds every live stream. mu is held.
func (d *Dispatcher) allReady() bool { return len(d.board.ready) >= d.cfg.Partitions }

// known notes which stop requests the runner has taken. mu is held.
func (d *Dispatcher) known(who agent, req *runnerv1.ExchangeRequest) {
	for _, att := range req.GetKnownCancels() {
		if l := d.board.leases[domain.AttemptID(att)]; l != nil && l.runner == who.Runner.Runner && l.stop != nil {
			l.stop.known = true
		}
	}
}

// place of an attempt: where its run lives.
type place struct {
	tenant    domain.TenantID
	partition domain.PartitionID
	sure      bool // false: memory is still loading, ask again later
}

// find says where an attempt's run lives, by memory or by the store. One of another
// tenant is as missing as one that never was.
func (d *Dispatcher) find(ctx context.Context, who agent, att domain.AttemptID) (place, error) {
	d.mu.Lock()
	if l := d.board.leases[att]; l != nil && l.tenant == who.tenant {
		defer d.mu.Unlock()
		return place{l.tenant, l.partition, true}, nil
	}
	if c := d.board.closing[att]; c != nil && c.tenant == who.tenant {
		defer d.mu.Unlock()
		return place{c.tenant, c.partition, true}, nil
	}
	ready := d.allReady()
	d.mu.Unlock()
	if !ready {
		return place{}, nil
	}
	r, _, _, ok := att.Split()
	if !ok {
		return place{}, domain.Reject(domain.CodeAttemptNotFound, "There is no such attempt.")
	}
	p, err := d.cfg.Locate(ctx, who.tenant, r)
	if err != nil {
		return place{}, err
	}
	return place{who.tenant, p, true}, nil
}

// upload commits what the runner brought: chunks first, so that a log is complete before
// its result is, then progress, results and declines in order.
func (d *Dispatcher) upload(
	ctx context.Context,
	who agent,
	req *runnerv1.ExchangeRequest,
	res *runnerv1.ExchangeResponse,
) error {
	acks := newAcks()
	if err := d.uploadChunks(ctx, who, req.GetChunks(), acks); err != nil {
		return err
	}
	cause := domain.Cause{Actor: domain.Actor{Kind: "runner", ID: string(who.Runner.Runner), Via: "runner_session"}}
	var asks []ask
	for _, p := range req.GetProgress() {
		att := domain.AttemptID(p.GetAttempt())
		seq := p.GetSequence()
		asks = append(
			asks,
			ask{
				att,
				p.GetEpoch(),
				progressCommand(cause, p, d.now()),
				func(a *runnerv1.Ack) { a.Progress = max(a.Progress, seq) },
			},
		)
	}
	for _, r := range req.GetResults() {
		asks = append(
			asks,
			ask{
				domain.AttemptID(r.GetAttempt()),
				r.GetEpoch(),
				resultCommand(cause, r),
				func(a *runnerv1.Ack) { a.Result = true },
			},
		)
	}
	for _, c := range req.GetDeclines() {
		asks = append(asks, ask{domain.AttemptID(c.GetAttempt()), c.GetEpoch(), run.DeclineLease{Cause: cause,
			Attempt: domain.AttemptID(c.GetAttempt()), Epoch: c.GetEpoch(), Reason: c.GetReason()},
			func(a *runnerv1.Ack) { a.Result = true }})
	}
	d.submitAll(ctx, who, asks, acks, res)
	res.Acks, res.RetryAfterMs = acks.list(), acks.later.Milliseconds()
	return nil
}

// ask is one command on behalf of a runner, and what its commit acknowledges.
type ask struct {
	attempt domain.AttemptID
	epoch   uint64
	command run.Command
	done    func(*runnerv1.Ack)
}

// submitAll sends all commands before it waits for the first answer, so that they share a
// batch. Commands of one attempt keep their order.
func (d *Dispatcher) submitAll(ctx context.Context, who agent, asks []ask, acks *acks, res *runnerv1.ExchangeResponse) {
	type answer struct {
		at    place
		ack   engine.Ack
		err   error
		given chan struct{}
	}
	waits := make([]*answer, len(asks))
	for i, a := range asks {
		at, err := d.find(ctx, who, a.attempt)
		if err != nil {
			acks.fail(a.attempt, a.epoch, err)
			continue
		}
		if !at.sure {
			continue // no acknowledgement: the runner sends it again
		}
		command, err := d.offload(ctx, at.tenant, a.command)
		if err != nil {
			d.cfg.Log.Warn("the outputs of a result can't be kept now", "attempt", a.attempt, "error", err)
			continue // no acknowledgement: the runner sends it again
		}
		got := &answer{at: at, given: make(chan struct{})}
		err = d.cfg.Engine.Send(ctx, engine.Envelope{Tenant: at.tenant, Partition: at.partition,
			Stream: streamOf(a.attempt), Command: command}, func(ack engine.Ack, err error) {
			got.ack, got.err = ack, err
			close(got.given)
		})
		if err != nil {
			acks.fail(a.attempt, a.epoch, err)
			continue
		}
		waits[i] = got
	}
	for i, a := range waits {
		if a == nil {
			continue
		}
		if d.cfg.Host.Wait(ctx, host.For{News: a.given, Limit: host.Forever}) == host.Ended {
			return
		}
		if a.err != nil {
			acks.fail(asks[i].attempt, asks[i].epoch, a.err)
			continue
		}
		res.Token, res.Proof = a.ack.Token.String(), string(a.ack.Token.Proof)
		if a.ack.Refusal != nil {
			acks.refuse(asks[i].attempt, asks[i].epoch, a.ack.Refusal)
			if a.ack.Refusal.Code == domain.CodeLeaseEpochStale { // the run has kept the first ones
				d.refused(ctx, a.at, asks[i].attempt, asks[i].epoch, run.RefusedReport, "", 0)
			}
			continue
		}
		asks[i].done(acks.of(asks[i].attempt, asks[i].epoch))
	}
}

// renew answers every renewal. Only the store's word ends a lease; silence means "go on
// as long as your lease lasts".
func (d *Dispatcher) renew(
	ctx context.Context,
	who agent,
	req *runnerv1.ExchangeRequest,
	res *runnerv1.ExchangeResponse,
) {
	slow := false // a run does not answer in time: the rest of the exchange does not wait for others
	over := map[string]bool{}
	for _, a := range res.GetAcks() { // this very answer says that the attempt is over: nobody renews it
		over[a.GetAttempt()] = a.GetResult()
	}
	for _, r := range req.GetRenewals() {
		att, epoch := domain.AttemptID(r.GetAttempt()), r.GetEpoch()
		if over[r.GetAttempt()] {
			continue
		}
		d.mu.Lock()
		now := d.now()
		terms := d.board.terms
		l, known, regain := d.board.renewed(who.Runner.Runner, att, epoch, now)
		var reply *runnerv1.RenewalReply
		speaks := d.speaks(who.pool.Partition())
		if l != nil && !regain && speaks {
			reply = live(l, now)
		}
		d.mu.Unlock()
		switch {
		case reply != nil:
		case known && !regain: // the next leader answers, or the next time
		case known && slow:
			d.asked(l.partition, terms)
		case known:
			reply = d.regain(ctx, l)
			slow = reply == nil
		default:
			reply = d.verdict(ctx, who, att, epoch)
		}
		if reply != nil {
			res.Renewals = append(res.Renewals, reply)
		}
	}
}

func live(l *lease, now time.Time) *runnerv1.RenewalReply {
	return &runnerv1.RenewalReply{Attempt: string(l.attempt), Epoch: l.epoch, Live: true,
		LeaseMs: left(l.until, now), AbandonMs: left(l.abandonBy, now)}
}

// left is the time until then in milliseconds, at least one: no time at all means, in the
// protocol, that the usual one is meant.
func left(until, now time.Time) int64 { return max(until.Sub(now).Milliseconds(), 1) }

// regainPatience bounds what one exchange waits for a run: it carries the renewals of others.
const regainPatience = 2 * time.Second

// regain asks the run to take a lapsed lease back; of one that has not lapsed it makes sure. The
// run answers when everything that was decided before is in the store. The answer may be a late
// one: the lease can have lapsed again, or be about to. So it is memory that says whether the
// lease is live, and before it does, the runner is told nothing.
func (d *Dispatcher) regain(ctx context.Context, asked *lease) *runnerv1.RenewalReply {
	att, epoch, p := asked.attempt, asked.epoch, asked.partition // these never change
	d.mu.Lock()
	terms := d.board.terms
	term := d.term(asked.pool.Partition())
	d.mu.Unlock()
	defer d.asked(p, terms)
	if d.bound(term) != nil {
		return nil
	}
	ctx, cancel := host.Within(ctx, d.cfg.Host, regainPatience)
	defer cancel()
	now := d.now()
	ack, err := d.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: asked.tenant, Partition: p, Stream: streamOf(att),
		Term: term, Command: run.RegainLease{Cause: internal("lease-keeper"), Attempt: att, Epoch: epoch,
			Until: now.Add(d.cfg.Timing.Lease), AbandonBy: now.Add(d.cfg.Timing.Abandon)}})
	if r, ok := domain.AsRejection(err); ok && gone(r.Code) {
		return &runnerv1.RenewalReply{Attempt: string(att), Epoch: epoch, Code: string(r.Code)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && !d.board.knows(p) && d.board.terms == terms {
		at := ack.Token.Position
		d.board.awaits[p] = max(at, 1)
		if ack.Shown {
			d.shown(p, max(at, 1))
		}
	}
	l := d.board.leases[att]
	if err == nil && ack.Shown && l != nil && l.epoch == epoch && l.promises() && d.speaks(l.pool.Partition()) {
		d.board.extend(l, d.now())
		return live(l, d.now())
	}
	return nil
}

// asked ends the question of a term.
func (d *Dispatcher) asked(p domain.PartitionID, terms int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.board.terms == terms {
		delete(d.board.asking, p)
	}
}

// shown tells runners, once this leader knows the whole of a partition, what waited for that. mu
// is held.
func (d *Dispatcher) shown(p domain.PartitionID, at uint64) {
	if d.board.shown(p, at) {
		for id := range d.polls {
			d.wake(id)
		}
	}
}

func gone(c domain.Code) bool {
	switch c {
	case domain.CodeLeaseEpochStale,
		domain.CodeLeaseNotLive,
		domain.CodeAttemptNotFound,
		domain.CodeNotFound,
		domain.CodeRunConcluded:
		return true
	}
	return false
}

// verdict asks the store about a lease that memory doesn't hold.
func (d *Dispatcher) verdict(
	ctx context.Context,
	who agent,
	att domain.AttemptID,
	epoch uint64,
) *runnerv1.RenewalReply {
	dead := func(domain.Code) *runnerv1.RenewalReply { // in the same words whatever the reason is
		return &runnerv1.RenewalReply{Attempt: string(att), Epoch: epoch, Code: string(domain.CodeLeaseEpochStale)}
	}
	d.mu.Lock()
	crossed := d.board.crossed(who.Runner.Runner, att, epoch)
	d.mu.Unlock()
	if crossed { // the usual case, and a run of many jobs is not read for it
		return dead("")
	}
	at, err := d.find(ctx, who, att)
	if r, ok := domain.AsRejection(err); ok && gone(r.Code) {
		return dead(r.Code)
	}
	if err != nil || !at.sure {
		return nil
	}
	h, err := d.cfg.Engine.Read(ctx, at.tenant, streamOf(att), false)
	if r, ok := domain.AsRejection(err); ok && gone(r.Code) {
		return dead(r.Code)
	}
	if err != nil {
		return nil
	}
	st := h.State.(*run.State)
	if r := run.MayAct(st, att, epoch); r != nil {
		// A renewal that crossed the attempt's own result is no evidence of anything; one of
		// a lost attempt is.
		if _, a, ok := st.AttemptByID(att); ok && (a.Epoch != epoch || a.Outcome == domain.OutcomeLost) {
			d.refuseAccess(ctx, at, att, epoch, run.RefusedReport, "a renewal came with a lease that is not the current one")
		}
		return dead(r.Code)
	}
	return nil // it lives, and memory will know in a moment
}

func refused(res *runnerv1.ExchangeResponse) bool {
	for _, r := range res.GetRenewals() {
		if !r.GetLive() {
			return true
		}
	}
	return false
}

// outbox lists what the runner must be told: leases that it did not name as held, and
// stop requests that it has not confirmed, of what it named. One that does not name an attempt
// has nothing to stop and would never confirm it: its polls would be answered at once, again
// and again, until the attempt is settled. For the same reason a lease that was told a moment ago
// is told again only later: the runner may have declined it, and nobody has recorded that yet.
// again is when to look next. mu is held.
func (d *Dispatcher) outbox(
	id domain.RunnerID, held map[string]bool,
) (orders []lease, cancels []*runnerv1.Cancel, again time.Duration) {
	now := d.now()
	again = host.Forever
	for _, l := range d.board.ofRunner(id) {
		switch {
		case !held[string(l.attempt)] && !l.held && !l.uncertain:
			if wait := l.told + tellAgain - d.cfg.Host.Elapsed(); l.told > 0 && wait > 0 {
				again = min(again, wait)
				continue
			}
			orders = append(orders, *l)
		case l.stop != nil && !l.stop.known && held[string(l.attempt)]:
			reason := "cancelled"
			if l.stop.reason == string(run.ReasonTimeoutGrace) || l.stop.reason == string(run.ReasonTimedOut) {
				reason = "timeout"
			}
			cancels = append(cancels, &runnerv1.Cancel{Attempt: string(l.attempt), Epoch: l.epoch, Reason: reason,
				GraceMs: left(l.stop.grace, now)})
		}
	}
	return orders, cancels, again
}

// promise gives a lease as it may be told to its runner now: telling it is a promise, like a
// renewal.
func (d *Dispatcher) promise(ctx context.Context, l lease) (lease, bool) {
	d.mu.Lock()
	sure := d.board.knows(l.partition)
	asks := !sure && d.board.asks(l.partition)
	d.mu.Unlock()
	if !sure && (!asks || !d.regain(ctx, &l).GetLive()) {
		return lease{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.board.leases[l.attempt]
	if now == nil || now.epoch != l.epoch || !now.promises() || !d.speaks(now.pool.Partition()) {
		return lease{}, false
	}
	now.told = max(d.cfg.Host.Elapsed(), 1) // 0 is never
	return *now, true
}
