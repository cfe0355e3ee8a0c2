package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// What Explain says is ahead of a job is what Place gives slots to before it.
// Promises: [RUN-18].
func TestAheadIsWhoGoesBefore(t *testing.T) {
	classes := []domain.Class{domain.ClassRollback, domain.ClassProtected, domain.ClassInteractive, domain.ClassBatch}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 4))
		kinds := 1 + r.IntN(4)
		holds := map[Share]int{}
		var heads []Head
		for i := range 1 + r.IntN(30) {
			h := Head{Tenant: "t", Repository: domain.RepositoryID(fmt.Sprint("rep_", r.IntN(4))),
				Job: domain.JobID(fmt.Sprint(i)), Class: classes[4-kinds+r.IntN(kinds)], Tier: domain.TierTrusted,
				Since: noon.Add(-time.Duration(i) * time.Second)}
			holds[h.Share()] = r.IntN(4)
			heads = append(heads, h)
		}
		pool := []Pool{{Pool: "p", Tiers: []domain.Tier{domain.TierTrusted},
			Runners: []Runner{{Runner: "r", Slots: len(heads), Connected: true}}}}
		var offers []Offer
		for i := range heads {
			offers = append(offers, Offer{Runner: "r", Pool: "p", Slot: domain.SlotToken(fmt.Sprintf("r/%02d/1", i)),
				Tiers: pool[0].Tiers})
		}
		for at, a := range Place(Queues(heads), offers, Shares{Holds: holds}, noon) {
			for i := range heads {
				if heads[i].Job != a.Head.Job {
					continue
				}
				if why := Explain(heads[i], rivals(heads, i), holds, pool); why.Ahead != at {
					t.Errorf("seed %d: %s of %s is the %d-th, and %d are ahead (%+v)", seed, heads[i].Class, heads[i].Repository,
						at, why.Ahead, holds)
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// steps counts how often a placement asks a queue for a head.
func steps(waiting int) (asked int, placed int) {
	var queues []Queue
	for repo := range 10 {
		left := waiting / 10
		queues = append(queues, Queue{"t", func() (Head, bool) {
			asked++
			left--
			return Head{Tenant: "t", Repository: domain.RepositoryID(fmt.Sprint(repo)), Class: domain.ClassInteractive,
				Tier: domain.TierTrusted, Job: domain.JobID(fmt.Sprint(repo, "/", left)), Since: noon}, left >= 0
		}})
	}
	var offers []Offer
	for i := range 64 {
		offers = append(offers, Offer{Runner: "r", Pool: "p", Slot: domain.SlotToken(fmt.Sprintf("r/%02d/1", i)),
			Tiers: []domain.Tier{domain.TierTrusted}})
	}
	placed = len(Place(queues, offers, Shares{}, noon))
	return asked, placed
}

// A placement looks at as many jobs as get a slot, however many wait.
func TestPlaceLooksAtNoMoreThanItPlaces(t *testing.T) {
	for _, waiting := range []int{1000, 100_000} {
		if asked, placed := steps(waiting); placed != 64 || asked > 64+10 {
			t.Errorf("%d wait: %d heads were asked for, %d placed", waiting, asked, placed)
		}
	}
}
