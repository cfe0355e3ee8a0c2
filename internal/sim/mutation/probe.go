package mutation

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/sim"
)

// Catch is a world in which a check failed.
type Catch struct {
	Seed  uint64        `json:"seed"`
	Check string        `json:"check"` // the sentence that it defends
	What  string        `json:"what"`
	At    time.Duration `json:"at"` // by the world's time
}

// Probe runs the worlds of the seeds from first on, and writes each one in which a check
// failed as a line of JSON. It ends after so many catches (0: never), or after count worlds.
// Seeds in skip are left out. It is what runs inside a mutated build.
func Probe(w io.Writer, first uint64, count, catches int, skip []uint64) error {
	out := json.NewEncoder(w)
	for seed := first; seed < first+uint64(count); seed++ {
		if slices.Contains(skip, seed) {
			continue
		}
		v := sim.Run(seed, sim.Options{}).Violation
		if v == nil {
			continue
		}
		if err := out.Encode(Catch{seed, v.Check, v.What, v.At}); err != nil {
			return fmt.Errorf("write catch of seed %d: %w", seed, err)
		}
		if catches--; catches == 0 {
			break
		}
	}
	return nil
}
