package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// The fronts of the lines must place exactly what the whole queue would.
func TestTheFrontsOfTheLinesPlaceWhatTheWholeQueueWould(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	labels := [][]string{nil, {"linux"}, {"gpu"}, {"linux", "gpu"}, {"absent"}}
	classes := []domain.Class{domain.ClassProtected, domain.ClassInteractive, domain.ClassBatch}
	for round := range 200 {
		b := newBoard(Timing{})
		for i := range random.IntN(60) {
			run := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: byte(i)}))
			h := head{tenant: "tnt_a", repository: domain.RepositoryID(fmt.Sprint("rep_", random.IntN(3))), run: run,
				partition: domain.PartitionID(fmt.Sprint("p", random.IntN(2))),
				class:     classes[random.IntN(len(classes))], tier: domain.TierTrusted, runsOn: labels[random.IntN(len(labels))],
				since: now.Add(-time.Duration(random.IntN(5)) * time.Second)}
			b.addHead(h)
			b.heads[h.key()].ask(random.IntN(4) == 0)
		}
		for job := range b.heads {
			if random.IntN(5) == 0 {
				b.dropKey(job)
			}
		}
		var offers []placement.Offer
		for i := range random.IntN(12) {
			runner := domain.RunnerID(fmt.Sprint("rnr_", i%5))
			offers = append(offers, placement.Offer{Runner: runner, Pool: "default", Labels: labels[i%4],
				Tiers: []domain.Tier{domain.TierTrusted}, Slot: domain.SlotToken(fmt.Sprintf("%s/%d/1", runner, i))})
		}
		var all []placement.Head
		for _, w := range b.heads {
			if h := w.head(); !w.asked {
				all = append(all, h.placement())
			}
		}
		shares := placement.Shares{Holds: map[placement.Share]int{{Tenant: "tnt_a", Repository: "rep_1"}: random.IntN(3)}}
		whole := placement.Place(placement.Queues(all), offers, shares, now)
		fronts := placement.Place(b.lines.queues(), offers, shares, now)
		same := slices.EqualFunc(whole, fronts, func(x, y placement.Assignment) bool {
			return x.Head.Job == y.Head.Job && x.Offer.Slot == y.Offer.Slot
		})
		if !same {
			t.Fatalf("round %d: the whole queue gives %d, the fronts give %d:\n%v\n%v", round, len(whole), len(fronts),
				whole, fronts)
		}
		waiting := 0
		for _, l := range b.lines {
			waiting += l.count - l.asked
		}
		if waiting != len(all) {
			t.Fatalf("round %d: %d wait in lines, %d in all", round, waiting, len(all))
		}
		for job := range b.heads {
			b.dropKey(job)
		}
		if len(b.lines) != 0 {
			t.Fatalf("round %d: lines of nobody: %v", round, b.lines)
		}
	}
}

// Promises: [LEASE-12].
func TestAPoolIsItsTenantsAlone(t *testing.T) {
	b, now := newBoard(Timing{Lease: time.Minute, Abandon: time.Minute}), time.Unix(1_000_000, 0)
	b.led["pool-mine"], b.led["pool-yours"] = true, true
	for i, who := range []domain.TenantID{"tnt_me", "tnt_you"} {
		id := domain.PoolID([]string{"mine", "yours"}[i])
		b.pools[id] = &poolView{pool: id, tenant: who, partition: id.Partition(), tiers: []domain.Tier{domain.TierTrusted}}
	}
	b.enrol(b.pools["mine"], pool.New(), &pool.Runner{Runner: "rnr_1", Capacity: 4})
	b.heard("rnr_1", 1, true, false, []domain.SlotToken{"rnr_1/0/1", "rnr_1/1/1", "rnr_1/2/1"}, now)
	for i, who := range []domain.TenantID{"tnt_you", "tnt_me", "tnt_you"} {
		run := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: byte(i)}))
		b.addHead(head{tenant: who, run: run, class: domain.ClassBatch,
			tier: domain.TierTrusted, since: now})
	}
	picks := b.place(now)
	if len(picks) != 1 || picks[0].head.tenant != "tnt_me" {
		t.Errorf("runners of one tenant get %+v", picks)
	}
	if all := b.fleet("tnt_you", now); len(all) != 1 || all[0].Pool != "yours" {
		t.Errorf("an explanation for the other tenant looks at %+v", all)
	}
}

// A server that leads a pool again may have asked, as a leader before, for a slot that another
// leader has lent meanwhile. The refusal of its own grant must not open the slot.
func TestASlotOfALiveLeaseStaysLentWhenAnOlderGrantIsRefused(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	slot, who := domain.SlotToken("rnr_1/0/7"), domain.RunnerID("rnr_1")
	first := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1})).Job(0)
	second := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{2})).Job(0)
	b := newBoard(Timing{Lease: time.Minute, Abandon: time.Minute})
	b.lent[slot], b.held[who] = first, 1 // asked for, and not answered yet
	b.addLease(lease{attempt: second.Attempt(1), runner: who, slot: slot}, now)
	b.giveBack(slot, who, first)
	if b.lent[slot] != second || b.held[who] != 1 {
		t.Fatalf("lent to %q, %d held", b.lent[slot], b.held[who])
	}
	// Both grants were committed: the slot is free when both leases are over.
	b.addLease(lease{attempt: first.Attempt(1), runner: who, slot: slot}, now)
	b.dropLease(first.Attempt(1))
	if b.lent[slot] != second || b.held[who] != 1 {
		t.Fatalf("after one lease: lent to %q, %d held", b.lent[slot], b.held[who])
	}
	b.dropLease(second.Attempt(1))
	if len(b.lent) != 0 || len(b.held) != 0 {
		t.Fatalf("after both: lent %v, held %v", b.lent, b.held)
	}
}
