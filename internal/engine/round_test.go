package engine

import (
	"fmt"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Sweeps show every live stream in turn, and one costs what it shows, however many there are.
func TestASweepCostsWhatItShows(t *testing.T) {
	const limit = 100
	cost := map[int]float64{}
	for _, streams := range []int{1000, 50_000} {
		d := newDesk(t, Open{})
		for i := range streams {
			key := streamKey{"tnt_a", domain.StreamID(fmt.Sprint("tally/", i))}
			d.owner.adopt(&stream{key: key, kind: d.owner.kinds["tally"], state: &tally{Total: 1}, version: 1, stored: true})
		}
		shown := map[domain.StreamID]int{}
		for range streams / limit {
			for _, eff := range d.owner.step(inSweep{limit: limit}, d.now) {
				shown[eff.(effLoaded).live.Stream]++
			}
		}
		if len(shown) != streams {
			t.Errorf("%d of %d streams were shown in a round", len(shown), streams)
		}
		cost[streams] = testing.AllocsPerRun(20, func() { d.owner.step(inSweep{limit: limit}, d.now) })
		if d.owner.open.all != streams {
			t.Errorf("%d jobs are open in %d streams", d.owner.open.all, streams)
		}
		for key := range d.owner.streams {
			d.owner.forget(key)
		}
		if d.owner.open.all != 0 || d.owner.round.Len() != 0 {
			t.Errorf("%d jobs are open in no stream, %d have a turn", d.owner.open.all, d.owner.round.Len())
		}
	}
	if cost[50_000] > 1.5*cost[1000] {
		t.Errorf("allocations of a sweep, by live streams: %v", cost)
	}
}
