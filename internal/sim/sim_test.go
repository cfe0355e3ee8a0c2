package sim

import (
	"flag"
	"strings"
	"testing"
)

var (
	first  = flag.Uint64("first", 1, "seed of the first world")
	worlds = flag.Int("worlds", 30, "how many worlds")
)

func TestWorlds(t *testing.T) {
	for seed := *first; seed < *first+uint64(*worlds); seed++ {
		r := Run(seed, Options{})
		if r.Violation != nil {
			r = Run(seed, Options{Trace: true})
			t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Trace[max(0, len(r.Trace)-80):], "\n"))
		}
		t.Logf("seed %d: %d steps, %d events, %s", seed, r.Steps, r.Events, r.Virtual)
	}
}
