package engine

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// New work (a command that begins jobs) is admitted: everything else serves work that was admitted
// before, or is a person's intervention, and is never behind new work. New work waits in a queue
// of its own, by turns of the repositories that it is for; a batch takes a bounded piece of it;
// and what could not be begun in time, or would be more than may be open, is refused at once with
// a time to come back.

// Open bounds how many jobs without an outcome a partition's owner lets there be before it
// refuses new work. 0 is no bound. A tenant whose repositories are spread over several partitions
// is counted in each of them.
type Open struct {
	Jobs         int // in the partition
	OfTenant     int
	OfRepository int
}

const (
	// beginJobs and beginItems bound the new work of one batch: a report that comes while it is
	// decided waits for so much, some 15 ms. One command is taken whatever its size.
	beginJobs  = 128
	beginItems = 128
	// wakesMax bounds the timers that fire at once, and wakeEvents what they lead to in one batch:
	// a hundred thousand queue deadlines may come at the same moment, and reports go first.
	wakesMax   = 256
	wakeEvents = 512
	// lookahead is how many commands of new work are looked up beside each other: a command
	// behind them that serves running work waits for as many reads at most. They have no more than
	// the jobs of aheadJobs, for two batches: what is looked up has left the turns.
	lookahead = 256
	aheadJobs = 2 * beginJobs
	// freshOfShare and freshMax bound the new work that waits, of a repository and of all: what
	// is behind so much would wait for seconds.
	freshOfShare = 1000
	freshMax     = 4000
	// freshWait is how long new work may be expected to wait; behind it, it is refused.
	freshWait = 10 * time.Second
	// retryOpen is when whoever met a bound of open jobs may come back: jobs end all the time.
	retryOpen = 15 * time.Second
	// retryMost bounds the time that is told to whoever met a queue that is too long.
	retryMost = time.Minute
)

// share is whose turn it is in the queue of new work.
type share struct {
	tenant     domain.TenantID
	repository domain.RepositoryID
}

// fresh is new work that waits to be looked up and decided, by turns of its shares.
type fresh struct {
	queues map[share][]*item
	turns  []share // those that have something, the next one first
	count  int
	pace   pace
}

func newFresh() fresh { return fresh{queues: map[share][]*item{}} }

// add takes a command in, or says why not.
func (f *fresh) add(it *item) *domain.Rejection {
	q := f.queues[it.share]
	shares := len(f.turns)
	if len(q) == 0 {
		shares++
	}
	wait := f.pace.of((len(q) + 1) * shares)
	if len(q) >= freshOfShare || f.count >= freshMax || wait > freshWait {
		return domain.Shed(domain.CodeOverloaded, f.later(), fmt.Sprintf("More new work waits than can be begun within %s "+
			"(%d requests, %d of them of this repository); running work goes on. Try again later.", freshWait, f.count, len(q)))
	}
	if len(q) == 0 {
		f.turns = append(f.turns, it.share)
	}
	f.queues[it.share] = append(q, it)
	f.count++
	return nil
}

// later is when a place in the queue may be free.
func (f *fresh) later() time.Duration {
	return min(max(f.pace.of(f.count/2).Round(time.Second), time.Second), retryMost)
}

// next is the first command of the share whose turn it is; nil when nothing waits.
func (f *fresh) next() *item {
	if len(f.turns) == 0 {
		return nil
	}
	s := f.turns[0]
	q := f.queues[s]
	it := q[0]
	q[0] = nil
	f.turns = slices.Delete(f.turns, 0, 1)
	if q = q[1:]; len(q) > 0 {
		f.queues[s] = q
		f.turns = append(f.turns, s)
	} else {
		delete(f.queues, s)
	}
	f.count--
	return it
}

// pace is how many commands of new work were begun in a second lately, while some waited.
type pace struct {
	since time.Time
	begun int
	rate  float64 // 0: not known
}

// note takes in that so many were begun now, and whether more wait.
func (p *pace) note(begun int, more bool, now time.Time) {
	switch took := now.Sub(p.since); {
	case !more || p.since.IsZero() || took < 0:
		p.since, p.begun = now, 0
	case took < time.Second:
		p.begun += begun
	default:
		rate := float64(p.begun+begun) / took.Seconds()
		if p.rate > 0 {
			rate = (p.rate + rate) / 2
		}
		p.rate, p.since, p.begun = max(rate, 1), now, 0
	}
}

// of is how long so many commands take; 0 when that is not known.
func (p *pace) of(commands int) time.Duration {
	if p.rate == 0 {
		return 0
	}
	return time.Duration(math.Min(float64(commands)/p.rate, time.Hour.Seconds()) * float64(time.Second))
}

// ledger counts the jobs without an outcome of a partition. Whoever is about to ask for new work
// may look at it before it does more for it; the owner judges again.
type ledger struct {
	limits Open

	mu       sync.Mutex
	all      int
	byTenant map[domain.TenantID]int
	byShare  map[share]int
}

func newLedger(limits Open) *ledger {
	return &ledger{limits: limits, byTenant: map[domain.TenantID]int{}, byShare: map[share]int{}}
}

// count adds jobs of a share; less than 0 takes some away.
func (l *ledger) count(s share, jobs int) {
	if jobs == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all += jobs
	if l.byTenant[s.tenant] += jobs; l.byTenant[s.tenant] == 0 {
		delete(l.byTenant, s.tenant)
	}
	if l.byShare[s] += jobs; l.byShare[s] == 0 {
		delete(l.byShare, s)
	}
}

// over is why so many further jobs of a share may not be begun; nil: they may.
func (l *ledger) over(s share, jobs int) *domain.Rejection {
	if jobs == 0 {
		return nil // such as a run that only says what is wrong
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, bound := range []struct {
		of        string
		flag      string
		is, limit int
	}{
		{"The repository", "--open-jobs-per-repository", l.byShare[s], l.limits.OfRepository},
		{"The tenant", "--open-jobs-per-tenant", l.byTenant[s.tenant], l.limits.OfTenant},
		{"The server", "--open-jobs", l.all, l.limits.Jobs},
	} {
		if bound.limit > 0 && bound.is+jobs > bound.limit {
			return domain.Shed(domain.CodeTooManyOpenJobs, retryOpen, fmt.Sprintf("%s has %d open jobs, and %d more would be "+
				"over the limit of %d (%s of the server); wait for jobs to end or cancel runs, and try again.",
				bound.of, bound.is, jobs, bound.limit, bound.flag))
		}
	}
	return nil
}

// begins says whether a command is new work, and notes whose.
func (o *owner) begins(it *item) bool {
	kind := o.kinds[it.env.Stream.Kind()]
	if kind == nil || kind.Begins == nil {
		return false
	}
	of, jobs, ok := kind.Begins(it.env.Command)
	it.share, it.jobs = share{it.env.Tenant, of}, jobs
	return ok
}

// admit takes new work out of its queue, as far as it may be looked up and decided soon.
func (o *owner) admit() (effects []any) {
	for o.fresh.count > 0 && o.looking+len(o.toBegin) < lookahead && o.ahead < aheadJobs {
		it := o.fresh.next()
		it.admitted = true
		effects = append(effects, o.submit(it)...)
	}
	return effects
}

// wakeDue decides timers that are due, a bounded piece of them.
func (o *owner) wakeDue(b *batch, now time.Time) (effects []any) {
	taken, before := 0, b.count
	for _, it := range o.wakes {
		if taken > 0 && b.count-before >= wakeEvents {
			break
		}
		taken++
		effects = append(effects, o.decide(b, it, now)...)
	}
	o.wakes = slices.Delete(o.wakes, 0, taken)
	return effects
}

// beginNew decides new work, a bounded piece of it.
func (o *owner) beginNew(b *batch, now time.Time) (effects []any) {
	taken, jobs := 0, 0
	for _, it := range o.toBegin {
		if taken > 0 && (taken == beginItems || jobs+it.jobs > beginJobs || b.count >= batchEvents) {
			break
		}
		taken++
		jobs += it.jobs
		o.ahead -= it.jobs
		effects = append(effects, o.decide(b, it, now)...)
	}
	o.toBegin = slices.Delete(o.toBegin, 0, taken)
	o.fresh.pace.note(taken, len(o.toBegin)+o.fresh.count > 0, now)
	return effects
}

// recount brings the ledger in line with a stream that comes, goes, or moves on.
func (o *owner) recount(s *stream, jobs int) {
	o.open.count(s.share, jobs-s.open)
	s.open = jobs
}

// enter counts the open jobs of a stream that was loaded.
func (o *owner) enter(s *stream) {
	if s.kind.Open == nil || s.version == 0 {
		return // whose it is its first event says
	}
	of, jobs := s.kind.Open(s.state)
	s.share = share{s.key.tenant, of}
	o.recount(s, jobs)
}

// tally counts what events add. A stream that they begin learns whose it is.
func (o *owner) tally(s *stream, events []any) {
	if s.kind.Opens == nil {
		return
	}
	if s.share == (share{}) {
		of, _ := s.kind.Open(s.state)
		s.share = share{s.key.tenant, of}
	}
	jobs := s.open
	for _, e := range events {
		jobs += s.kind.Opens(e)
	}
	o.recount(s, jobs)
}

// Admits says why a partition would refuse new work of a repository now, as far as this server
// knows; its owner judges when it decides. nil: nothing is in its way.
func (e *Engine) Admits(
	p domain.PartitionID,
	tenant domain.TenantID,
	of domain.RepositoryID,
	jobs int,
) *domain.Rejection {
	d := e.driver(p)
	if d == nil {
		return nil
	}
	return d.owner.open.over(share{tenant, of}, jobs)
}

// OpenJobs counts the jobs without an outcome of the partitions that are owned here.
func (e *Engine) OpenJobs() (n int) {
	for _, p := range e.order {
		if d := e.driver(p); d != nil {
			d.owner.open.mu.Lock()
			n += d.owner.open.all
			d.owner.open.mu.Unlock()
		}
	}
	return n
}
