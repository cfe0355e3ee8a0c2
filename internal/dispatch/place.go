package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// pick is one lease to ask a run for.
type pick struct {
	head    head
	command run.GrantLease
}

// place matches waiting jobs with open slots of runners that wait for news, and marks
// both as asked for, so that nothing is given twice while the grants commit.
func (b *board) place(now time.Time) []pick {
	if len(b.lines) == 0 {
		return nil
	}
	if b.openings.slots == 0 {
		return nil
	}
	offers := b.offers(b.lines.wishes())
	if len(offers) == 0 {
		return nil
	}
	var out []pick
	for _, as := range b.match(b.lines.queues(), offers, now) {
		w, a := b.waits(as.Head.Job), b.agents[as.Offer.Runner]
		w.ask(true)
		h := w.head()
		b.lent[as.Offer.Slot] = as.Head.Job
		b.shares.lend(as.Offer.Slot, h.share())
		b.held[as.Offer.Runner]++
		b.seat(as.Offer.Runner)
		out = append(out, pick{h, run.GrantLease{
			Cause: internal("dispatch"), Job: as.Head.Job, Runner: a.Runner.Runner, RunnerName: a.Name, Session: a.Session,
			RunnerVersion: a.Version,
			Pool:          a.pool, Tiers: as.Offer.Tiers, Alias: as.AliasText(), Slot: as.Offer.Slot,
			Until: now.Add(b.timing.Lease), AbandonBy: now.Add(b.timing.Abandon),
		}})
	}
	return out
}

// match asks the placement rules, for each tenant apart: a pool is its tenant's, and its
// runners are told nothing of other tenants' work.
func (b *board) match(queues []placement.Queue, offers []placement.Offer, now time.Time) (out []placement.Assignment) {
	waiting, open := map[domain.TenantID][]placement.Queue{}, map[domain.TenantID][]placement.Offer{}
	for _, q := range queues {
		waiting[q.Tenant] = append(waiting[q.Tenant], q)
	}
	for _, o := range offers {
		t := b.pools[o.Pool].tenant
		open[t] = append(open[t], o)
	}
	shares := placement.Shares{Holds: b.shares.holds, Reserve: b.reserveAmong(offers, now)}
	for _, t := range slices.Sorted(maps.Keys(open)) {
		out = append(out, placement.Place(waiting[t], open[t], shares, now)...)
	}
	return out
}

// reserveAmong is what of some open slots is kept from batch: open slots that are not among them
// count for what is to be kept first.
func (b *board) reserveAmong(offers []placement.Offer, now time.Time) map[domain.PoolID]int {
	out := map[domain.PoolID]int{}
	for id, n := range b.reserves(now) {
		out[id] = n - b.openings.inPool[id]
	}
	for i := range offers {
		out[offers[i].Pool]++
	}
	for id, n := range out {
		out[id] = max(n, 0)
	}
	return out
}

// offers lists the open slots that jobs with these wishes can get, and perhaps some more.
func (b *board) offers(wishes []placement.Head) []placement.Offer {
	var out []placement.Offer
	for c, jobs := range b.openings.fitting(wishes) { // placement forgets the order of arrival
		p := b.pools[c.pool]
		if p == nil || !b.leads(p.partition) {
			continue
		}
		c.best(jobs, func(a *agent, slots int) {
			b.eachOpen(a, func(slot domain.SlotToken) bool {
				out = append(out, placement.Offer{Runner: a.Runner.Runner, Pool: c.pool, Labels: c.labels, Tiers: p.tiers,
					Slot: slot, Aliases: c.aliases})
				slots--
				return slots > 0
			})
		})
	}
	return out
}

// eachOpen visits the open slots of a runner as long as more is true, never more than its capacity
// has left.
func (b *board) eachOpen(a *agent, visit func(domain.SlotToken) (more bool)) {
	if !a.polling {
		return
	}
	left := a.Capacity - b.held[a.Runner.Runner]
	for _, slot := range a.open {
		if left <= 0 {
			return
		}
		if _, lent := b.lent[slot]; !lent {
			if left--; !visit(slot) {
				return
			}
		}
	}
}

// seat brings the openings in line with what is known of a runner.
func (b *board) seat(id domain.RunnerID) {
	a := b.agents[id]
	if a == nil {
		return
	}
	n := 0
	b.eachOpen(a, func(domain.SlotToken) bool {
		n++
		return true
	})
	b.openings.has(a, n)
}

// away is how long after its last word a runner counts as not connected.
func (b *board) away() time.Duration { return b.timing.Lease }

// fleet is what an explanation looks at: all pools and runners of a tenant, busy ones
// included. Runners that have the same labels count together, the connected ones and the others.
func (b *board) fleet(tenant domain.TenantID, now time.Time) []placement.Pool {
	type kind struct {
		class     *class
		connected bool
	}
	kinds := map[kind]*placement.Runner{}
	for id, a := range b.agents {
		if a.tenant != tenant || a.class == nil {
			continue
		}
		k := kind{a.class, b.connected(a, now)}
		r := kinds[k]
		if r == nil {
			r = &placement.Runner{Labels: a.class.labels, Connected: k.connected}
			kinds[k] = r
		}
		r.Count++
		r.Slots += a.Capacity
		r.Open += a.Capacity - b.held[id]
	}
	pools := map[domain.PoolID]*placement.Pool{}
	for id, view := range b.pools {
		if view.tenant == tenant {
			pools[id] = &placement.Pool{Pool: id, Tiers: view.tiers, Reserve: b.reserves(now)[id]}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(kinds), func(x, y kind) int {
		return cmp.Or(cmp.Compare(x.class.name, y.class.name), boolRank(y.connected)-boolRank(x.connected))
	}) {
		if p := pools[k.class.pool]; p != nil {
			p.Aliases = append(p.Aliases, k.class.aliases...)
			p.Runners = append(p.Runners, *kinds[k])
		}
	}
	var out []placement.Pool
	for _, id := range slices.Sorted(maps.Keys(pools)) {
		p := pools[id]
		slices.Sort(p.Aliases)
		p.Aliases = slices.Compact(p.Aliases)
		out = append(out, *p)
	}
	return out
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// connected reports whether a runner waits for news or was heard lately.
func (b *board) connected(a *agent, now time.Time) bool {
	return a.polling || !a.lastSeen.IsZero() && now.Sub(a.lastSeen) < b.away()
}

// Explain says in a sentence why a ready job has no runner; "" when it does not wait for
// one here.
func (d *Dispatcher) Explain(job domain.JobID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.board.waits(job)
	if w == nil {
		return ""
	}
	now, h := d.now(), w.head()
	fleet := d.board.fleet(h.tenant, now)
	return placement.Explain(h.placement(), d.board.rivals(w), d.board.shares.holds, fleet).Sentence()
}

// rivals are the lines of the same tenant, counted around a job.
func (b *board) rivals(w *waiting) []placement.Rival {
	var out []placement.Rival
	for _, l := range b.lines {
		if l.head.tenant != w.line.head.tenant {
			continue
		}
		r := placement.Rival{Head: l.head.placement(), Before: l.before(w)}
		r.After = max(l.count-l.asked-r.Before, 0)
		if l == w.line && !w.asked && r.After > 0 {
			r.After-- // itself
		}
		out = append(out, r)
	}
	return out
}

// PoolStatus is a pool as pages show it.
type PoolStatus struct {
	Pool    domain.PoolID
	Tenant  domain.TenantID
	Labels  []string
	Aliases []string
	Tiers   []domain.Tier
	Slots   int
	Busy    int
	Waiting int // ready jobs that this pool could take
	// Its runners: those that are not connected, those that have leases, and the rest.
	Silent, Working, Idle int
}

// Runners is how many the pool has.
func (p *PoolStatus) Runners() int { return p.Silent + p.Working + p.Idle }

// RunnerStatus is a runner as pages show it.
type RunnerStatus struct {
	Runner     domain.RunnerID
	Pool       domain.PoolID
	Name       string
	Labels     []string
	Capacity   int
	Isolation  string
	Version    string
	Registered time.Time
	LastSeen   time.Time // zero: not since this server started
	Connected  bool
	Draining   bool
	Attempts   []domain.AttemptID
}

// Pools lists pools as this server sees them now.
func (d *Dispatcher) Pools(tenant domain.TenantID) []PoolStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	var out []PoolStatus
	for _, f := range d.board.fleet(tenant, now) {
		p := d.board.pools[f.Pool]
		st := PoolStatus{Pool: f.Pool, Tenant: p.tenant, Labels: p.config.Labels, Tiers: p.tiers}
		for _, a := range p.config.Aliases {
			st.Aliases = append(st.Aliases, a.Pattern)
		}
		st.Waiting = d.board.waiting(tenant, []placement.Pool{f})
		out = append(out, st)
	}
	for id, a := range d.board.agents {
		i := slices.IndexFunc(out, func(p PoolStatus) bool { return p.Pool == a.pool })
		if i < 0 {
			continue
		}
		st := &out[i]
		st.Slots += a.Capacity
		st.Busy += d.board.busy(id)
		switch {
		case !d.board.connected(a, now):
			st.Silent++
		case len(d.board.grip[id]) > 0:
			st.Working++
		default:
			st.Idle++
		}
	}
	return out
}

// waiting counts the jobs that a fleet could take. Lines that ask for the same are looked at once.
func (b *board) waiting(tenant domain.TenantID, fleet []placement.Pool) (n int) {
	fits := map[string]bool{}
	for _, l := range b.lines {
		if l.head.tenant != tenant {
			continue
		}
		wish := string(l.head.tier) + "\x00" + strings.Join(l.head.runsOn, "\x01")
		fit, known := fits[wish]
		if !known {
			h := l.head.placement()
			h.Class = domain.ClassInteractive // how urgent it is does not matter here
			switch placement.Explain(h, nil, nil, fleet).Code {
			case placement.ReasonBusy, placement.ReasonPlaceable, placement.ReasonAway:
				fit = true
			}
			fits[wish] = fit
		}
		if fit {
			n += l.count - l.asked
		}
	}
	return n
}

// Pool reports whether this server knows a pool.
func (d *Dispatcher) Pool(tenant domain.TenantID, id domain.PoolID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.board.pools[id]
	return p != nil && p.tenant == tenant
}

// Runners lists the runners of all pools as this server sees them now, by pool and identifier.
func (d *Dispatcher) Runners(tenant domain.TenantID) []RunnerStatus {
	out := d.runners(tenant)
	slices.SortFunc(out, func(x, y RunnerStatus) int {
		return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Runner, y.Runner))
	})
	return out
}

func (d *Dispatcher) runners(tenant domain.TenantID) []RunnerStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	out := make([]RunnerStatus, 0, len(d.board.agents))
	for _, a := range d.board.agents {
		if a.tenant == tenant {
			out = append(out, d.runnerStatus(a, now))
		}
	}
	return out
}

// FindRunner looks for a runner by its identifier or its name.
func (d *Dispatcher) FindRunner(tenant domain.TenantID, name string) (domain.PoolID, domain.RunnerID, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.board.agents[domain.RunnerID(name)]; a != nil && a.tenant == tenant {
		return a.pool, a.Runner.Runner, true
	}
	var found *agent
	for _, a := range d.board.agents { // several pools may have one of that name: the first of them
		if a.tenant == tenant && a.Name == name && (found == nil || a.pool < found.pool) {
			found = a
		}
	}
	if found == nil {
		return "", "", false
	}
	return found.pool, found.Runner.Runner, true
}

func (d *Dispatcher) runnerStatus(a *agent, now time.Time) RunnerStatus {
	r := RunnerStatus{Runner: a.Runner.Runner, Pool: a.pool, Name: a.Name, Labels: a.labels, Capacity: a.Capacity,
		Isolation: a.Isolation, Version: a.Version, Registered: a.Registered, LastSeen: a.lastSeen,
		Connected: d.board.connected(a, now), Draining: a.draining}
	for _, l := range d.board.ofRunner(a.Runner.Runner) {
		r.Attempts = append(r.Attempts, l.attempt)
	}
	return r
}
