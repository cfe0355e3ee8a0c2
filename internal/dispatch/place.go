package dispatch

import (
	"maps"
	"slices"
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
	offers := b.offers()
	if len(offers) == 0 {
		return nil
	}
	var out []pick
	for _, as := range b.match(b.lines.front(len(offers)), offers, now) {
		h, a := b.heads[as.Head.Job], b.agents[as.Offer.Runner]
		h.asked = true
		b.lent[as.Offer.Slot] = h.job
		b.held[as.Offer.Runner]++
		out = append(out, pick{*h, run.GrantLease{
			Cause: internal("dispatch"), Job: h.job, Runner: a.Runner.Runner, RunnerName: a.Name, Session: a.Session,
			RunnerVersion: a.Version,
			Pool:          a.pool, Tiers: as.Offer.Tiers, Alias: as.AliasText(), Slot: as.Offer.Slot,
			Until: now.Add(b.timing.Lease), AbandonBy: now.Add(b.timing.Abandon),
		}})
	}
	return out
}

// match asks the placement rules, for each tenant apart: a pool is its tenant's, and its
// runners are told nothing of other tenants' work.
func (b *board) match(heads []placement.Head, offers []placement.Offer, now time.Time) (out []placement.Assignment) {
	waiting, open := map[domain.TenantID][]placement.Head{}, map[domain.TenantID][]placement.Offer{}
	for _, h := range heads {
		waiting[h.Tenant] = append(waiting[h.Tenant], h)
	}
	for _, o := range offers {
		t := b.pools[o.Pool].tenant
		open[t] = append(open[t], o)
	}
	for _, t := range slices.Sorted(maps.Keys(open)) {
		out = append(out, placement.Place(waiting[t], open[t], now)...)
	}
	return out
}

// offers lists open slots, never more of a runner than its capacity has left.
func (b *board) offers() []placement.Offer {
	var out []placement.Offer
	for _, id := range slices.Sorted(maps.Keys(b.agents)) {
		a := b.agents[id]
		p := b.pools[a.pool]
		if !a.polling || p == nil || !b.leads(p.partition) {
			continue
		}
		left := a.Capacity - b.held[id]
		for _, slot := range a.open {
			if left <= 0 {
				break
			}
			if _, lent := b.lent[slot]; lent {
				continue
			}
			left--
			out = append(out, placement.Offer{Runner: id, Pool: a.pool, Labels: a.labels, Tiers: p.tiers,
				Slot: slot, Aliases: a.aliases})
		}
	}
	return out
}

// queue lists all jobs that nobody was asked for yet, in no order.
func (b *board) queue() []placement.Head {
	var out []placement.Head
	for _, h := range b.heads {
		if !h.asked {
			out = append(out, h.placement())
		}
	}
	return out
}

func (h *head) placement() placement.Head {
	r, _, _ := h.job.Split()
	return placement.Head{Partition: h.partition, Tenant: h.tenant, Run: r, Job: h.job, Class: h.class, Tier: h.tier,
		RunsOn: h.runsOn, Since: h.since, Count: 1}
}

// away is how long after its last word a runner counts as not connected.
func (b *board) away() time.Duration { return b.timing.Lease }

// fleet is what an explanation looks at: all pools and runners of a tenant, busy ones
// included.
func (b *board) fleet(tenant domain.TenantID, now time.Time) []placement.Pool {
	var out []placement.Pool
	for _, id := range slices.Sorted(maps.Keys(b.pools)) {
		if b.pools[id].tenant != tenant {
			continue
		}
		p := placement.Pool{Pool: id, Tiers: b.pools[id].tiers}
		for _, rid := range slices.Sorted(maps.Keys(b.agents)) {
			a := b.agents[rid]
			if a.pool != id {
				continue
			}
			p.Aliases = append(p.Aliases, a.aliases...)
			p.Runners = append(p.Runners, placement.Runner{Runner: rid, Labels: a.labels, Slots: a.Capacity,
				Open: a.Capacity - b.held[rid], Connected: now.Sub(a.lastSeen) < b.away()})
		}
		slices.Sort(p.Aliases)
		p.Aliases = slices.Compact(p.Aliases)
		out = append(out, p)
	}
	return out
}

// Explain says in a sentence why a ready job has no runner; "" when it does not wait for
// one here.
func (d *Dispatcher) Explain(job domain.JobID) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.board.heads[job]
	if h == nil {
		return ""
	}
	now := d.now()
	others := slices.DeleteFunc(d.board.queue(), func(o placement.Head) bool { return o.Tenant != h.tenant })
	return placement.Explain(h.placement(), others, d.board.fleet(h.tenant, now), now).Sentence()
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
	Runners []RunnerStatus
}

// RunnerStatus is a runner as pages show it.
type RunnerStatus struct {
	Runner     domain.RunnerID
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

// Pools lists pools and their runners as this server sees them now.
func (d *Dispatcher) Pools(tenant domain.TenantID) []PoolStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	var out []PoolStatus
	for _, id := range slices.Sorted(maps.Keys(d.board.pools)) {
		p := d.board.pools[id]
		if p.tenant != tenant {
			continue
		}
		st := PoolStatus{Pool: id, Tenant: p.tenant, Labels: p.config.Labels, Tiers: p.tiers}
		for _, a := range p.config.Aliases {
			st.Aliases = append(st.Aliases, a.Pattern)
		}
		for _, rid := range slices.Sorted(maps.Keys(d.board.agents)) {
			if a := d.board.agents[rid]; a.pool == id {
				r := d.runnerStatus(a, now)
				st.Slots += r.Capacity
				st.Busy += d.board.busy(rid)
				st.Runners = append(st.Runners, r)
			}
		}
		fleet := slices.DeleteFunc(d.board.fleet(tenant, now), func(f placement.Pool) bool { return f.Pool != id })
		d.board.lines.each(func(first *head, waiting int) {
			if first.tenant != tenant {
				return
			}
			switch placement.Explain(first.placement(), nil, fleet, now).Code {
			case placement.ReasonBusy, placement.ReasonPlaceable, placement.ReasonAway:
				st.Waiting += waiting
			}
		})
		out = append(out, st)
	}
	return out
}

func (d *Dispatcher) runnerStatus(a *agent, now time.Time) RunnerStatus {
	r := RunnerStatus{Runner: a.Runner.Runner, Name: a.Name, Labels: a.labels, Capacity: a.Capacity,
		Isolation: a.Isolation, Version: a.Version, Registered: a.Registered, LastSeen: a.lastSeen,
		Connected: !a.lastSeen.IsZero() && now.Sub(a.lastSeen) < d.board.away(), Draining: a.draining}
	for _, l := range d.board.ofRunner(a.Runner.Runner) {
		r.Attempts = append(r.Attempts, l.attempt)
	}
	return r
}
