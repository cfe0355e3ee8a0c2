package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Timing are the lease times that the board works with.
type Timing struct {
	Poll    time.Duration // longest wait of a poll
	Lease   time.Duration // how long a renewal lasts
	Abandon time.Duration // after the last renewal the job must be gone
}

// lease is the right of one runner to execute one attempt.
type lease struct {
	tenant    domain.TenantID
	partition domain.PartitionID
	share     placement.Share
	attempt   domain.AttemptID
	epoch     uint64
	runner    domain.RunnerID
	pool      domain.PoolID
	slot      domain.SlotToken
	brief     run.Brief
	until     time.Time
	abandonBy time.Time
	lastSeen  time.Time
	uncertain bool
	lapse
	stop *stop
	held bool          // the runner has named it in a renewal
	told time.Duration // when the runner was told of it last, by the host's time; 0: never
	// parked: it waits for a person's decision. Nobody acts on it any more, so it has no slot.
	parked bool
}

// lapse is what is known of lapses that this server has sent.
type lapse struct {
	lapsing bool // one is on its way: nothing is promised meanwhile
	doubt   bool // one that was sent may be committed, and nobody knows
}

// stop is a wish to end an attempt.
type stop struct {
	reason     string
	grace      time.Time
	renewUntil time.Time
	known      bool // the runner has taken it
}

// closing is an attempt that has an outcome and whose log is not sealed yet: its last
// chunks may still come.
type closing struct {
	tenant    domain.TenantID
	partition domain.PartitionID
	epoch     uint64
	runner    domain.RunnerID
	end       uint64
	ended     time.Time
	reported  bool // it ended by its runner's own report
}

// agent is a registered runner as the board knows it.
type agent struct {
	pool.Runner
	tenant   domain.TenantID
	pool     domain.PoolID
	labels   []string // its own and its pool's
	aliases  []string // patterns that the pool answers by way of it
	lastSeen time.Time
	polling  bool
	draining bool
	open     []domain.SlotToken
	sequence uint64 // of the exchange that open came with
	class    *class // of the openings
	offered  int    // slots that the openings have of it
	ranked   int    // the same when it got its place in the ranking of its class; 0: it has none
}

// poolView is a pool as the board knows it.
type poolView struct {
	pool      domain.PoolID
	tenant    domain.TenantID
	partition domain.PartitionID
	tiers     []domain.Tier
	config    pool.Config
	// tokens are those of registrations that are open, and those that runners registered with.
	tokens  map[domain.Digest]bool
	runners int // that the board knows of
}

// board is the pool owner's memory and rules. No method does I/O; time comes in.
type board struct {
	timing Timing
	heads  map[jobKey]*waiting
	lines  lines // the same, in the order in which placement looks at them
	leases map[domain.AttemptID]*lease
	grip   grip // the same, by runner
	// sent are leases that memory does not know any more and may be shown again, with a lapse
	// that this server has sent.
	sent    map[domain.AttemptID]*lease
	closing map[domain.AttemptID]*closing
	agents  map[domain.RunnerID]*agent
	session map[domain.SessionID]*agent
	pools   map[domain.PoolID]*poolView
	// openings follow agents, lent, held and led: seat brings them in line.
	openings openings
	lent     map[domain.SlotToken]domain.JobID // asked for or leased
	shares   shares                            // the same, by whose work it is
	held     map[domain.RunnerID]int           // leases and grants under way per runner
	// reserved are the slots that batch may not have, as of reservedAt.
	reserved   map[domain.PoolID]int
	reservedAt time.Time
	ready      map[domain.PartitionID]bool
	follows    bool                        // leads only what led names
	led        map[domain.PartitionID]bool // pools that this server leads
	// sure are the partitions that a run has answered from since this server leads: no lapse of
	// the leader before comes out of them any more.
	sure map[domain.PartitionID]bool
	// asking are those that a run is being asked in; awaits those where one has answered, up to
	// a position that was not shown yet.
	asking map[domain.PartitionID]bool
	awaits map[domain.PartitionID]uint64
	terms  int // how often this server began to lead
	// shownTo is the last of these terms in which memory has caught up with what the store held
	// when it began.
	shownTo int
}

func newBoard(t Timing) *board {
	return &board{timing: t, heads: map[jobKey]*waiting{}, shares: newShares(), leases: map[domain.AttemptID]*lease{},
		lines: lines{}, grip: grip{}, sent: map[domain.AttemptID]*lease{}, session: map[domain.SessionID]*agent{},
		closing: map[domain.AttemptID]*closing{}, agents: map[domain.RunnerID]*agent{},
		pools: map[domain.PoolID]*poolView{}, lent: map[domain.SlotToken]domain.JobID{},
		held: map[domain.RunnerID]int{}, ready: map[domain.PartitionID]bool{}, led: map[domain.PartitionID]bool{},
		sure: map[domain.PartitionID]bool{}, asking: map[domain.PartitionID]bool{},
		awaits: map[domain.PartitionID]uint64{}, openings: newOpenings()}
}

// leads reports whether this server places the work of the pools of a partition.
func (b *board) leads(pools domain.PartitionID) bool { return !b.follows || b.led[pools] }

// caught reports whether memory knows every lease that was granted before this term.
func (b *board) caught() bool { return !b.follows || b.shownTo == b.terms }

// fresh gives every lease of the pools a full period: nobody here heard their holders yet.
func (b *board) fresh(pools domain.PartitionID, now time.Time) {
	for _, l := range b.leases {
		if l.pool.Partition() == pools && !l.uncertain {
			l.until, l.abandonBy = now.Add(b.timing.Lease), now.Add(b.timing.Abandon)
		}
	}
}

// addHead announces a ready job; repeating it changes nothing.
func (b *board) addHead(h head) (news bool) {
	if b.heads[h.key()] != nil {
		return false
	}
	b.heads[h.key()] = b.lines.add(&h)
	return true
}

// dropHead forgets a job that is not ready any more.
func (b *board) dropHead(job domain.JobID) { b.dropKey(keyOf(job)) }

func (b *board) dropKey(at jobKey) {
	if w := b.heads[at]; w != nil {
		delete(b.heads, at)
		b.lines.remove(w)
	}
}

// waits gives a job that waits, nil when it does not.
func (b *board) waits(job domain.JobID) *waiting { return b.heads[keyOf(job)] }

// addLease takes a committed lease in. After a take-over nobody knows when the runner was
// heard last, so it gets a full period to come back.
func (b *board) addLease(l lease, now time.Time) (news bool) {
	if b.leases[l.attempt] != nil {
		return false
	}
	l.until, l.abandonBy = now.Add(b.timing.Lease), now.Add(b.timing.Abandon)
	if l.lastSeen.IsZero() {
		l.lastSeen = now
	}
	if before := b.sent[l.attempt]; before != nil && !l.uncertain {
		l.lapse = before.lapse
	}
	delete(b.sent, l.attempt)
	b.leases[l.attempt] = &l
	b.grip.add(&l)
	job := l.attempt.Job()
	b.dropHead(job)
	if l.parked {
		b.giveBack(l.slot, l.runner, job) // which a grant in doubt may have asked for
		return true
	}
	if _, asked := b.lent[l.slot]; !asked {
		b.held[l.runner]++
	}
	b.lent[l.slot] = job // also when this server had asked it for another job, as a leader before
	b.seat(l.runner)
	b.shares.lend(l.slot, l.share)
	return true
}

// coming is how many leases of a runner are asked for and not committed yet, or one less where some
// of its leases wait for a person.
func (b *board) coming(runner domain.RunnerID) int { return b.held[runner] - len(b.grip[runner]) }

// park gives the slot of an attempt back that waits for a person.
func (b *board) park(attempt domain.AttemptID) {
	if l := b.leases[attempt]; l != nil && !l.parked {
		l.parked = true
		b.giveBack(l.slot, l.runner, attempt.Job())
	}
}

// close notes an attempt that has ended and whose log can still grow.
func (b *board) close(tenant domain.TenantID, p domain.PartitionID, attempt domain.AttemptID, a *run.Attempt) {
	if a.Log == nil && !a.Declined && b.closing[attempt] == nil {
		b.closing[attempt] = &closing{tenant, p, a.Epoch, a.Runner, a.LogEnd, a.ConcludedAt, a.Report != ""}
	}
}

// dropLease gives the slot back.
func (b *board) dropLease(attempt domain.AttemptID) {
	delete(b.sent, attempt)
	l := b.leases[attempt]
	if l == nil {
		return
	}
	delete(b.leases, attempt)
	b.grip.remove(l)
	b.giveBack(l.slot, l.runner, attempt.Job())
}

// giveBack opens a slot that was lent to the job. One that somebody else has stays lent: the
// grants of two leaders can cross, and then two jobs were to have it.
func (b *board) giveBack(slot domain.SlotToken, runner domain.RunnerID, job domain.JobID) {
	if lent, ok := b.lent[slot]; !ok || lent != job {
		return
	}
	for _, l := range b.ofRunner(runner) {
		if l.slot == slot && !l.parked {
			b.lent[slot] = l.attempt.Job()
			b.shares.lend(slot, l.share)
			return
		}
	}
	delete(b.lent, slot)
	b.shares.back(slot)
	if b.held[runner]--; b.held[runner] <= 0 {
		delete(b.held, runner)
	}
	b.seat(runner)
}

// spent takes back a pick whose slot had been used up before: the job waits on, and the
// slot isn't open.
func (b *board) spent(p pick) {
	b.giveBack(p.command.Slot, p.command.Runner, p.command.Job)
	if w := b.waits(p.command.Job); w != nil {
		w.ask(false)
	}
	if a := b.agents[p.command.Runner]; a != nil {
		a.open = slices.DeleteFunc(slices.Clone(a.open), func(s domain.SlotToken) bool { return s == p.command.Slot })
		b.seat(p.command.Runner)
	}
}

// offerOf reports whether text is a slot token of the runner: "<runner>/<slot>/<offer>",
// with plain numbers. It ends up in history, so it is no longer than that.
func offerOf(runner domain.RunnerID, text string) bool {
	rest, mine := strings.CutPrefix(text, string(runner)+"/")
	slot, offer, whole := strings.Cut(rest, "/")
	const bits = 64
	_, badSlot := strconv.ParseUint(slot, 10, bits)
	_, badOffer := strconv.ParseUint(offer, 10, bits)
	return mine && whole && badSlot == nil && badOffer == nil && len(rest) <= offerBytesMax
}

// offerBytesMax is the length of two numbers and a slash.
const offerBytesMax = 41

// heard notes that a runner spoke, and what it offers. An exchange beside a waiting poll
// may open slots too (a job has just ended); an older one that arrives late may not.
// Slots are lent only while a poll waits to be told.
//
// tidy:long the parts of one exchange, passed from the one place that reads them
func (b *board) heard(id domain.RunnerID, sequence uint64, polling, draining bool, offers []domain.SlotToken,
	now time.Time) {
	a := b.agents[id]
	if a == nil {
		return
	}
	a.lastSeen, a.draining = now, draining
	defer b.seat(id)
	if polling {
		a.polling = !draining
	} else if len(offers) == 0 || sequence <= a.sequence {
		return
	}
	a.sequence = sequence
	if len(offers) > a.Capacity {
		offers = offers[:a.Capacity]
	}
	a.open = offers
}

// left notes that a runner's poll has ended; it was there until now.
func (b *board) left(id domain.RunnerID, now time.Time) {
	if a := b.agents[id]; a != nil {
		a.lastSeen, a.polling = now, false
		b.seat(id)
	}
}

// renewed answers one renewal. known is false when memory can't tell: then the store is
// asked. regain says that the run must be asked first: the lease had lapsed and is to be taken
// back, or a new leader can't know yet whether it has. While a lapse is under way the answer
// is no lease and known: what the runner was promised now, the lapse would not say, and the
// next attempt could begin before the runner has abandoned.
func (b *board) renewed(
	runner domain.RunnerID,
	attempt domain.AttemptID,
	epoch uint64,
	now time.Time,
) (l *lease, known, regain bool) {
	l = b.leases[attempt]
	if l == nil || l.epoch != epoch || l.runner != runner {
		return nil, false, false
	}
	l.held, l.lastSeen = true, now
	switch {
	case l.uncertain:
		return l, true, true
	case !l.promises():
		return nil, true, false
	case !b.knows(l.partition): // a lapse of the leader before may be on its way to the store
		if !b.asks(l.partition) {
			return nil, true, false
		}
		return l, true, true
	}
	b.extend(l, now)
	return l, true, false
}

// crossed reports whether a renewal has crossed the result of its own attempt: the lease is over,
// and that is no evidence of anything.
func (b *board) crossed(runner domain.RunnerID, attempt domain.AttemptID, epoch uint64) bool {
	c := b.closing[attempt]
	return c != nil && c.reported && c.runner == runner && c.epoch == epoch
}

// knows reports whether no lapse of the leader before can come out of a partition any more.
func (b *board) knows(p domain.PartitionID) bool { return !b.follows || b.sure[p] }

// asks reports whether the caller is to ask a run of a partition that this leader does not know
// the whole of: one does, and the others wait for what it finds out.
func (b *board) asks(p domain.PartitionID) bool {
	if b.asking[p] || b.awaits[p] > 0 {
		return false
	}
	b.asking[p] = true
	return true
}

// shown notes how far observers were shown a partition. It reports whether this leader knows the
// whole of it since then.
func (b *board) shown(p domain.PartitionID, at uint64) bool {
	if wanted := b.awaits[p]; wanted == 0 || at < wanted {
		return false
	}
	delete(b.awaits, p)
	b.sure[p] = true
	return true
}

// promises reports whether the lease may be renewed: it has not lapsed, and no lapse is under way.
func (l *lease) promises() bool { return !l.uncertain && !l.lapsing && !l.doubt }

// extend renews a lease, never beyond what a requested stop allows.
func (b *board) extend(l *lease, now time.Time) {
	until, abandon := now.Add(b.timing.Lease), now.Add(b.timing.Abandon)
	if l.stop != nil && !l.stop.renewUntil.IsZero() && until.After(l.stop.renewUntil) {
		until = later(l.stop.renewUntil, l.until)
		abandon = later(until.Add(b.timing.Abandon-b.timing.Lease), l.abandonBy)
	}
	l.until, l.abandonBy = until, abandon
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lapses are leases whose holders were not heard in time. Each is named once until it is
// renewed or the submission failed.
func (b *board) lapses(now time.Time) []lease {
	var out []lease
	for _, id := range slices.Sorted(maps.Keys(b.leases)) {
		l := b.leases[id]
		if l.uncertain || l.lapsing || l.until.After(now) && !l.doubt || !b.leads(l.pool.Partition()) {
			continue
		}
		l.lapsing = true
		out = append(out, *l)
	}
	return out
}

// grace gives every lease a fresh period: the clock jumped, or the machine slept, and
// nobody's silence proves anything.
func (b *board) grace(now time.Time) {
	for _, l := range b.leases {
		if !l.uncertain {
			l.until, l.abandonBy = now.Add(b.timing.Lease), now.Add(b.timing.Abandon)
		}
	}
}

// ofRunner are the leases a runner must know, in the order of their attempts.
func (b *board) ofRunner(id domain.RunnerID) []*lease {
	var out []*lease
	for _, l := range b.grip[id] {
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y *lease) int { return cmp.Compare(x.attempt, y.attempt) })
	return out
}

// busy is how many slots of a runner have work.
func (b *board) busy(id domain.RunnerID) (n int) {
	for _, l := range b.grip[id] {
		if !l.parked {
			n++
		}
	}
	return n
}

// loaded notes that memory was shown every live stream of a partition. Leases that it was not
// shown have ended.
func (b *board) loaded(p domain.PartitionID) {
	b.ready[p] = true
	delete(b.awaits, p) // what it waits for may be in what was shown: a run is asked again
	maps.DeleteFunc(b.sent, func(_ domain.AttemptID, l *lease) bool { return l.partition == p })
}

// lapseAnswered notes what became of a lapse: it came to nothing, or nobody knows, or it is
// committed and memory is still to be shown it.
func (b *board) lapseAnswered(attempt domain.AttemptID, err error) {
	if err == nil {
		return
	}
	r, sure := domain.AsRejection(err)
	l := b.leases[attempt]
	if l == nil {
		l = b.sent[attempt]
	}
	if l != nil { // this one came to nothing if that is sure; an earlier one may not have
		l.lapse = lapse{doubt: !sure || l.doubt && passing(r.Code)}
	}
	if sure && (r.Code == domain.CodeLeaseNotLive || r.Code == domain.CodeStreamQuarantined) {
		b.dropLease(attempt) // a run that is isolated does not keep a slot from others
	}
}

// forget drops everything of a partition that is not owned here any more.
func (b *board) forget(p domain.PartitionID) {
	delete(b.awaits, p)
	for at, w := range b.heads {
		if w.line.head.partition == p {
			b.dropKey(at)
		}
	}
	for id, l := range b.leases {
		if l.partition == p {
			b.dropLease(id)
			if l.lapsing || l.doubt {
				b.sent[id] = l
			}
		}
	}
	for id, c := range b.closing {
		if c.partition == p {
			delete(b.closing, id)
		}
	}
	delete(b.ready, p)
}
