package placement

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// crowd is a random queue and a random fleet.
func crowd(seed uint64, heads, offers, kinds int) ([]Head, []Offer) {
	r := rand.New(rand.NewPCG(seed, 2))
	tierList := []domain.Tier{domain.TierUntrusted, domain.TierTrusted, domain.TierProtected}
	classes := []domain.Class{domain.ClassRollback, domain.ClassProtected, domain.ClassInteractive, domain.ClassBatch}
	label := func() string { return fmt.Sprintf("l%d", r.IntN(kinds)) }
	var hs []Head
	for i := range heads {
		h := Head{
			Partition: "p", Tenant: domain.TenantID(fmt.Sprintf("t%d", r.IntN(9))), Job: domain.JobID(fmt.Sprintf("j%d", i)),
			Class: classes[r.IntN(4)], Tier: tierList[r.IntN(3)], Since: noon.Add(-time.Duration(r.IntN(600)) * time.Second),
			Repository: domain.RepositoryID(fmt.Sprintf("r%d", r.IntN(3))), Count: r.IntN(4),
		}
		for range r.IntN(3) {
			h.RunsOn = append(h.RunsOn, label())
		}
		hs = append(hs, h)
	}
	var os []Offer
	for i := range offers {
		runner := i / 3
		o := Offer{
			Runner: domain.RunnerID(fmt.Sprintf("r%d", runner)), Pool: domain.PoolID(fmt.Sprintf("pool%d", runner%5)),
			Slot: domain.SlotToken(fmt.Sprintf("r%d/%d/1", runner, i%3)), Tiers: tierList[runner%3:],
		}
		for n := range 4 {
			o.Labels = append(o.Labels, fmt.Sprintf("l%d", (runner*7+n*3)%kinds))
		}
		if runner%4 == 0 {
			o.Aliases = []string{"l1*"}
		}
		os = append(os, o)
	}
	return hs, os
}

// naive is the meaning of Place without its index: whoever ranks first takes, and only
// whether somebody is placed is compared.
func naive(heads []Head, offers []Offer) map[domain.JobID]int {
	fits := func(h *Head, o *Offer) bool {
		if !slices.Contains(o.Tiers, h.Tier) {
			return false
		}
		for _, label := range h.RunsOn {
			has := slices.Contains(o.Labels, label) || string(o.Pool) == label
			for _, pattern := range o.Aliases {
				has = has || matches(pattern, label)
			}
			if !has {
				return false
			}
		}
		return true
	}
	could := map[domain.JobID]int{}
	for i := range heads {
		for o := range offers {
			if fits(&heads[i], &offers[o]) {
				could[heads[i].Job]++
			}
		}
	}
	return could
}

// Promises: [LEASE-9].
func TestPlaceKeepsItsLaws(t *testing.T) {
	for seed := range uint64(40) {
		heads, offers := crowd(seed, 60, 45, 12)
		got := Place(Queues(heads), offers, Shares{}, noon)
		could := naive(heads, offers)
		slots := map[domain.SlotToken]bool{}
		placed := map[domain.JobID]int{}
		for _, a := range got {
			if slots[a.Offer.Slot] {
				t.Fatalf("seed %d: slot %s twice", seed, a.Offer.Slot)
			}
			slots[a.Offer.Slot] = true
			placed[a.Head.Job]++
			if !slices.Contains(a.Offer.Tiers, a.Head.Tier) || could[a.Head.Job] == 0 {
				t.Fatalf("seed %d: %s on %s, which does not fit", seed, a.Head.Job, a.Offer.Slot)
			}
			if placed[a.Head.Job] > max(a.Head.Count, 1) {
				t.Fatalf("seed %d: %s placed too often", seed, a.Head.Job)
			}
		}
		var free []Offer
		for _, o := range offers {
			if !slots[o.Slot] {
				free = append(free, o)
			}
		}
		left := naive(heads, free)
		for _, h := range heads {
			if placed[h.Job] < max(h.Count, 1) && left[h.Job] > 0 {
				t.Fatalf("seed %d: %s waits though a fitting slot stayed open", seed, h.Job)
			}
		}
		r := rand.New(rand.NewPCG(seed, 3))
		r.Shuffle(len(heads), func(i, j int) { heads[i], heads[j] = heads[j], heads[i] })
		r.Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
		if again := Place(Queues(heads), offers, Shares{}, noon); !reflect.DeepEqual(got, again) {
			t.Fatalf("seed %d: the order of arrival matters", seed)
		}
	}
}

func TestPlaceIgnoresClocksThatRunAhead(t *testing.T) {
	heads := []Head{
		{Job: "b", Class: domain.ClassBatch, Tier: domain.TierTrusted, Since: noon},
		{Job: "a", Class: domain.ClassBatch, Tier: domain.TierTrusted, Since: noon.Add(time.Hour)},
	}
	offers := []Offer{{Runner: "r", Pool: "p", Slot: "r/0/1", Tiers: []domain.Tier{domain.TierTrusted}}}
	got := Place(Queues(heads), append(offers, offers[0]), Shares{}, noon)
	if len(got) != 1 || got[0].Head.Job != "a" {
		t.Fatalf("got %+v", got)
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, label string
		want           bool
	}{
		{"linux-*", "linux-medium", true}, {"linux-*", "Linux-8", true}, {"linux-*", "linux", false}, {"*", "", true},
		{"a*b*c", "a1b2c", true}, {"a*b*c", "acb", false}, {"a*a", "a", false}, {"", "", true}, {"x", "X", true},
		{"*-x", "a-x", true},
		{"a*b*b", "ab", false},
	} {
		if got := matches(test.pattern, test.label); got != test.want {
			t.Errorf("%q %q: %t", test.pattern, test.label, got)
		}
	}
}

func TestAliasText(t *testing.T) {
	a := Assignment{Aliases: []Alias{{"linux-medium", "linux-*"}, {"ubuntu-22", "ubuntu-*"}}}
	if got := a.AliasText(); got != "linux-medium,ubuntu-22" {
		t.Errorf("got %q", got)
	}
}

func BenchmarkPlace1000x1000(b *testing.B) {
	for _, kinds := range []int{8, 400} {
		heads, offers := crowd(1, 1000, 1000, kinds)
		b.Run(fmt.Sprintf("labels=%d", kinds), func(b *testing.B) {
			for b.Loop() {
				Place(Queues(heads), offers, Shares{}, noon)
			}
		})
	}
}
