package dispatch

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// crowd is a board with runners of a few kinds, in one pool.
func crowd(b *board, n int, now time.Time, labels func(i int) []string, slots func(i int) int) {
	view := &poolView{pool: "default", tenant: "tnt_a", partition: domain.PoolID("default").Partition(),
		tiers: []domain.Tier{domain.TierTrusted}, tokens: map[domain.Digest]bool{}}
	b.pools["default"] = view
	for i := range n {
		id := domain.RunnerID(fmt.Sprintf("rnr_%06d", i))
		b.enrol(view, pool.New(), &pool.Runner{Runner: id, Labels: labels(i), Capacity: slots(i),
			Session: domain.SessionID(fmt.Sprint("ses_", i))})
		b.heard(id, 1, true, false, offersOf(id, slots(i)), now)
	}
}

func offersOf(id domain.RunnerID, slots int) (out []domain.SlotToken) {
	for slot := range slots {
		out = append(out, domain.SlotToken(fmt.Sprintf("%s/%d/1", id, slot)))
	}
	return out
}

// everything lists all open slots, runner by runner.
func everything(b *board) (out []placement.Offer) {
	for _, a := range b.agents {
		b.eachOpen(a, func(slot domain.SlotToken) bool {
			out = append(out, placement.Offer{Runner: a.Runner.Runner, Pool: a.pool, Labels: a.labels,
				Tiers: b.pools[a.pool].tiers, Slot: slot, Aliases: a.aliases})
			return true
		})
	}
	return out
}

// What the openings give must place exactly what all open slots would, whatever happened before.
func TestTheFirstOfEachClassPlaceWhatAllOpenSlotsWould(t *testing.T) {
	random, now := rand.New(rand.NewPCG(3, 4)), time.Unix(1_000_000, 0)
	labels := [][]string{nil, {"linux"}, {"gpu"}, {"linux", "gpu"}, {"linux", "big"}}
	classes := []domain.Class{domain.ClassProtected, domain.ClassInteractive, domain.ClassBatch}
	for round := range 100 {
		b := newBoard(Timing{Lease: time.Minute, Abandon: time.Minute})
		slots := []int{1, 4, 9}[random.IntN(3)]
		crowd(b, random.IntN(300), now, func(int) []string { return labels[random.IntN(len(labels))] },
			func(i int) int { return 1 + i*7%slots })
		for id, a := range b.agents {
			switch random.IntN(6) {
			case 0:
				b.left(id, now)
			case 1:
				b.dismiss(id)
			case 2:
				slot := a.open[0]
				b.lent[slot], b.held[id] = "job_x", b.held[id]+1
				b.seat(id)
				if random.IntN(2) == 0 {
					b.giveBack(slot, id, "job_x")
				}
			}
		}
		all := everything(b)
		if b.openings.slots != len(all) {
			t.Fatalf("round %d: %d slots counted, %d there", round, b.openings.slots, len(all))
		}
		for i := range random.IntN(40) {
			b.addHead(head{tenant: "tnt_a", run: "run_1", index: i, tier: domain.TierTrusted, since: now,
				repository: domain.RepositoryID(fmt.Sprint("rep_", random.IntN(3))),
				class:      classes[random.IntN(len(classes))], runsOn: labels[random.IntN(len(labels))]})
		}
		some := b.offers(b.lines.wishes())
		whole := placement.Place(b.lines.queues(), all, placement.Shares{Reserve: b.reserves(now)}, now)
		first := placement.Place(b.lines.queues(), some, placement.Shares{Reserve: b.reserveAmong(some, now)}, now)
		if !slices.EqualFunc(whole, first, func(x, y placement.Assignment) bool {
			return x.Head.Job == y.Head.Job && x.Offer.Slot == y.Offer.Slot
		}) {
			t.Fatalf("round %d: all slots give\n%v\nthe first of each class\n%v", round, whole, first)
		}
		for id := range b.agents {
			b.dismiss(id)
		}
		if o := b.openings; o.slots != 0 || len(o.classes)+len(o.byLabel)+len(o.aliased) != 0 {
			t.Fatalf("round %d: openings of nobody: %+v", round, o)
		}
	}
}

// One job looks at as many offers in a crowd of runners as in a handful.
func TestAPlacementLooksAtWhatItsJobsCanGet(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	looked := func(runners, slots int) (offers, allocations int) {
		b := newBoard(Timing{Lease: time.Minute, Abandon: time.Minute})
		crowd(b, runners, now, func(int) []string { return []string{"linux"} }, func(int) int { return slots })
		b.addHead(head{tenant: "tnt_a", run: "run_1", class: domain.ClassBatch,
			tier: domain.TierTrusted, runsOn: []string{"linux"}, since: now})
		wishes := b.lines.wishes()
		return len(b.offers(wishes)), int(testing.AllocsPerRun(10, func() { b.offers(wishes) }))
	}
	few, fewAllocations := looked(3, 2)
	many, manyAllocations := looked(20_000, 64)
	if few != 1 || many != 1 || manyAllocations > fewAllocations {
		t.Errorf("offers looked at: %d and %d; allocations: %d and %d", few, many, fewAllocations, manyAllocations)
	}
}

// A poll that ends and begins again moves nothing: its runner keeps its place among those with open
// slots, and a placement that comes meanwhile passes it over.
func TestARunnerBetweenTwoPollsKeepsItsPlace(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := newBoard(Timing{Lease: time.Minute, Abandon: time.Minute})
	crowd(b, 3, now, func(int) []string { return []string{"linux"} }, func(int) int { return 1 })
	open := &b.agents["rnr_000000"].class.open
	for id := range b.agents {
		b.left(id, now)
		if open.len != 3 {
			t.Fatalf("%d in the ranking when %s is between two polls", open.len, id)
		}
		b.heard(id, 2, true, false, offersOf(id, 1), now)
	}
	b.left("rnr_000000", now)
	b.addHead(head{tenant: "tnt_a", run: "run_1", class: domain.ClassBatch, tier: domain.TierTrusted,
		runsOn: []string{"linux"}, since: now})
	if offers := b.offers(b.lines.wishes()); len(offers) != 1 || offers[0].Runner != "rnr_000001" {
		t.Errorf("offers while the first is away: %+v", offers)
	}
	if open.len != 2 || b.openings.slots != 2 {
		t.Errorf("%d in the ranking, %d slots", open.len, b.openings.slots)
	}
	b.heard("rnr_000000", 3, true, false, offersOf("rnr_000000", 1), now)
	if offers := b.offers(b.lines.wishes()); len(offers) != 1 || offers[0].Runner != "rnr_000000" {
		t.Errorf("offers when it is back: %+v", offers)
	}
}

func TestARankingKeepsItsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var r ranking
	there := map[domain.RunnerID]*agent{}
	for range 20_000 {
		id := domain.RunnerID(fmt.Sprint("rnr_", random.IntN(4000)))
		if a := there[id]; a != nil {
			r.remove(a)
			delete(there, id)
			continue
		}
		a := &agent{Runner: pool.Runner{Runner: id}, ranked: 1 + random.IntN(3)}
		r.add(a)
		there[id] = a
	}
	var got []*agent
	r.each(func(a *agent) bool { got = append(got, a); return true })
	if len(got) != len(there) || !slices.IsSortedFunc(got, compareAgents) {
		t.Errorf("%d of %d in the ranking, in order: %v", len(got), len(there), slices.IsSortedFunc(got, compareAgents))
	}
	for _, p := range r.parts {
		if len(p) == 0 || len(p) > chunkMost {
			t.Errorf("a part of %d", len(p))
		}
	}
	if slices.ContainsFunc(got, func(a *agent) bool { return there[a.Runner.Runner] != a }) {
		t.Error("somebody else is in the ranking")
	}
	for _, a := range slices.SortedFunc(slices.Values(got), func(x, y *agent) int {
		return cmp.Compare(x.ranked, y.ranked)
	}) {
		r.remove(a)
	}
	if r.len != 0 || len(r.parts) != 0 {
		t.Errorf("%d left in %d parts", r.len, len(r.parts))
	}
}

// A pool that is shown again, or that moves on by one event, makes nothing anew of the runners
// that are known.
func TestAPoolThatIsShownAgainCostsNothingForItsRunners(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	cost := func(runners int) (again, event int) {
		s := pool.New()
		pool.Evolve(s, &pool.PoolCreated{Base: pool.Base{At: now}, Tenant: "tnt_a", Pool: "default",
			Config: pool.DefaultConfig()})
		for i := range runners {
			pool.Evolve(s, &pool.RunnerRegistered{Base: pool.Base{At: now}, Runner: pool.Runner{
				Runner: domain.RunnerID(fmt.Sprint("rnr_", i)), Session: domain.SessionID(fmt.Sprint("ses_", i)),
				Token: domain.Digest(fmt.Sprint("token-", i)), Name: fmt.Sprint("agent-", i), Labels: []string{"linux"}}})
		}
		b, p := newBoard(Timing{}), domain.PoolID("default").Partition()
		b.loadPool("tnt_a", p, s)
		if len(b.agents) != runners || b.pools["default"].runners != runners {
			t.Fatalf("%d runners of %d", len(b.agents), runners)
		}
		last := []any{&pool.RunnerRegistered{Runner: s.Runners[runners-1]}}
		return int(testing.AllocsPerRun(5, func() { b.loadPool("tnt_a", p, s) })),
			int(testing.AllocsPerRun(5, func() { b.poolEvents("tnt_a", p, s, last) }))
	}
	fewAgain, fewEvent := cost(10)
	manyAgain, manyEvent := cost(5000)
	if manyAgain > fewAgain || manyEvent > fewEvent {
		t.Errorf("allocations of a pool shown again: %d of 10 runners, %d of 5000; of one event: %d and %d",
			fewAgain, manyAgain, fewEvent, manyEvent)
	}
}
