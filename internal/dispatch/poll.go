package dispatch

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Poll is an exchange that was taken in and may wait for something to say. A server has as many as
// runners wait, so it keeps of the request only what its answer depends on, and whoever waits for
// it can do so without the stack that taking it in had.
type Poll struct {
	d        *Dispatcher
	runner   domain.RunnerID
	pools    domain.PartitionID
	polling  bool
	began    time.Duration // when it was taken in
	deadline time.Duration
	company  time.Duration              // until when an answer waits for leases that are being committed; 0: not yet
	held     map[string]bool            // attempts that the runner has named; nil: none
	keys     []string                   // that it has
	batches  bool                       // it takes manifests that are signed together
	news     chan struct{}              // nil before the first Look
	woken    bool                       // news is closed
	ring     func()                     // called when it is; nil: nobody
	quiet    bool                       // when it was taken in there was nothing to say
	over     bool                       // it has left its place to whoever comes next
	led      bool                       // this server led the pool when it left
	res      *runnerv1.ExchangeResponse // nil: nothing to say yet
}

// Begin takes an exchange in, all that it brings included. End must follow.
func (d *Dispatcher) Begin(ctx context.Context, req *runnerv1.ExchangeRequest) (*Poll, error) {
	who, err := d.authenticate(req.GetSession(), req.GetResume())
	if err != nil {
		return nil, err
	}
	if err := checkSizes(req); err != nil {
		return nil, err
	}
	if brings(req) && !d.loaded() {
		// Taking some and skipping the rest would leave a hole that nobody speaks of: the
		// runner hears no, and says all of it again.
		return nil, errNotReady
	}
	token, ok := domain.ParseProvenToken(req.GetToken(), req.GetProof())
	if !ok {
		return nil, domain.Reject(domain.CodeInvalidArgument, "The acknowledgement token is malformed.")
	}
	if err := d.cfg.Engine.Present(engine.HeldBy(ctx, "Runner "+who.Name), token); err != nil {
		return nil, err
	}
	p := &Poll{d: d, runner: who.Runner.Runner, pools: who.pool.Partition(), polling: req.GetWaitMs() > 0,
		keys: req.GetKnownKeys(), batches: req.GetTakesBatches(), began: d.cfg.Host.Elapsed()}
	if err := d.hear(who, p, req); err != nil {
		return nil, err
	}
	if brings(req) || len(req.GetRenewals()) > 0 {
		p.res = &runnerv1.ExchangeResponse{}
		if err := d.upload(ctx, who, req, p.res); err != nil {
			p.leave()
			return nil, err
		}
		d.renew(ctx, who, req, p.res)
	}
	if p.polling {
		p.deadline = d.cfg.Host.Elapsed() + d.patience(who, req)
		for _, r := range req.GetRenewals() {
			if p.held == nil {
				p.held = map[string]bool{}
			}
			p.held[r.GetAttempt()] = true
		}
	}
	return p, nil
}

// hear notes that a runner spoke, and which slots it offers. A poll takes the place of the one that
// came before: that one's connection may be gone without a word, and it is not to outlive this one.
func (d *Dispatcher) hear(who agent, p *Poll, req *runnerv1.ExchangeRequest) error {
	offers := make([]domain.SlotToken, 0, len(req.GetOffers()))
	for _, o := range req.GetOffers() {
		if offerOf(p.runner, o) {
			offers = append(offers, domain.SlotToken(o))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.speaks(p.pools) {
		return errNotLeader
	}
	d.board.heard(p.runner, req.GetSequence(), p.polling, req.GetDraining(), offers, d.now())
	d.known(who, req)
	if p.polling {
		d.wake(p.runner) // whoever is there ends now
		d.polls[p.runner], p.news = p, make(chan struct{})
		p.quiet = len(d.board.grip[p.runner]) == 0 && !brings(req) && len(req.GetRenewals()) == 0
	}
	if len(d.board.lines) > 0 && (p.polling || len(offers) > 0) { // else there is nothing to place
		d.changed()
	}
	return nil
}

// spreadPolls is the part of its time by which a poll of an idle runner may be shorter.
const spreadPolls = 8

// patience is how long a poll may wait. One that names leases comes back soon, because it renews
// them. One of an idle runner says nothing but that it is there, which its waiting says as well;
// it waits for as long as it may, and a little less, so that the polls of runners that came back
// together after a restart do not end together for ever.
func (d *Dispatcher) patience(who agent, req *runnerv1.ExchangeRequest) time.Duration {
	limit := min(time.Duration(req.GetWaitMs())*time.Millisecond, d.cfg.Timing.Poll)
	if len(req.GetRenewals()) > 0 {
		return min(limit, max(d.cfg.Timing.Lease/3, 50*time.Millisecond))
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(who.Runner.Runner))
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, req.GetSequence()))
	return limit - time.Duration(int64(limit/spreadPolls)*int64(h.Sum32()%1000)/1000)
}

// Look collects what there is to say. over says that it is time to End: there is something, or
// nothing to wait for any more. Otherwise it is to look again at news, or after limit.
func (p *Poll) Look(ctx context.Context) (limit time.Duration, over bool) {
	if !p.polling {
		return 0, true
	}
	d := p.d
	if p.quiet {
		p.quiet = false
		if rest := p.deadline - d.cfg.Host.Elapsed(); rest > 0 && !p.hasNews() {
			return rest, false
		}
	}
	orders, again, step := p.collect()
	switch step {
	case parts:
		return 0, true
	case waits:
		return again, false
	}
	if d.tell(ctx, orders, p, p.res) {
		again = min(again, tellAgain)
	}
	rest := p.deadline - d.cfg.Host.Elapsed()
	if tells(p.res) || rest <= 0 || len(orders) > 0 && !d.Leads(p.pools) {
		return 0, true
	}
	return min(rest, again), false
}

// What a poll does next.
type pollStep int

const (
	says  pollStep = iota // what there is
	waits                 // for further leases, which are on their way
	parts                 // it has left: there is nothing, and nothing to wait for any more
)

// collect is what there is to say now. It is one step under the lock, which jobs need as well:
// there are as many polls as runners, and most come and go for nothing.
func (p *Poll) collect() (orders []lease, again time.Duration, step pollStep) {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.polls[p.runner] != p {
		return nil, 0, parts
	}
	orders, cancels, again := d.outbox(p.runner, p.held)
	if len(orders) > 0 || tells(p.res) {
		if wait := p.wait(d.board.coming(p.runner)); wait > 0 {
			p.renew()
			return nil, wait, waits
		}
	}
	if p.res == nil && len(orders)+len(cancels) > 0 {
		p.res = &runnerv1.ExchangeResponse{}
	}
	if p.res != nil {
		p.res.Cancels = cancels
	}
	patient := p.deadline > d.cfg.Host.Elapsed() && d.speaks(p.pools)
	if len(orders) == 0 && !patient && !tells(p.res) {
		p.part()
		return nil, 0, parts
	}
	p.renew()
	return orders, again, says
}

// renew is ready for further news; mu is held.
func (p *Poll) renew() {
	if p.woken {
		p.news, p.woken = make(chan struct{}), false
	}
}

// hasNews reports whether news has come since the last look.
func (p *Poll) hasNews() bool {
	select {
	case <-p.news:
		return true
	default:
		return false
	}
}

// companyMost is how long an answer waits at most for leases of its runner that are being committed.
const companyMost = 2 * time.Millisecond

// wait is how long an answer waits for further leases: only for such as are on their way, because an
// exchange of its own costs each of them, and the runner too, more than that.
func (p *Poll) wait(coming int) time.Duration {
	if coming <= 0 {
		return 0
	}
	now := p.d.cfg.Host.Elapsed()
	if p.company == 0 {
		p.company = now + companyMost
	}
	return min(p.company, p.deadline) - now
}

// Ring has news told by a call as well: whoever waits for thousands of polls needs no goroutine for each.
// It is called with dispatch's lock held, so it neither waits nor calls back. What came before shows at
// the next Look.
func (p *Poll) Ring(ring func()) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.ring = ring
}

// News is closed when there may be something to say. It is another channel after each Look.
func (p *Poll) News() <-chan struct{} { return p.news }

// End gives the answer. It is called once.
func (p *Poll) End() (*runnerv1.ExchangeResponse, error) {
	if p.res == nil {
		p.res = &runnerv1.ExchangeResponse{}
	}
	p.res.Timing = p.d.timing()
	if !p.polling {
		return p.res, nil
	}
	p.leave()
	p.publish()
	if !tells(p.res) && !p.led {
		return nil, errNotLeader // where it is heard from now on
	}
	return p.res, nil
}

// leave notes that nobody waits for this runner's news any more, unless another poll has taken the
// place.
func (p *Poll) leave() {
	if p.over {
		return
	}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.part()
}

// part is leave; mu is held.
func (p *Poll) part() {
	d := p.d
	if d.polls[p.runner] == p {
		delete(d.polls, p.runner)
		d.board.left(p.runner, d.now())
	}
	p.over, p.led = true, d.speaks(p.pools)
}

// publish tells a runner the keys that verify manifests when it lacks one of them: they change
// long after it registered. It says itself what it has, so nothing that is lost on the way, and
// no restart on either side, leaves it without. A runner of a release that does not say it is
// told with every lease, because it forgets them when it restarts.
//
// It comes after the leases of the same answer are signed: what signed them is published.
func (p *Poll) publish() {
	if len(p.keys) == 0 && len(p.res.GetLeases()) == 0 {
		return
	}
	keys := p.d.cfg.Keys()
	if slices.ContainsFunc(keys, func(k Key) bool { return !slices.Contains(p.keys, k.ID) }) {
		p.res.Keys = published(keys)
	}
}
