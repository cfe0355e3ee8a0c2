package sim

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const checkAcknowledged = "what was acknowledged survives a crash of any process and a change of owner"

// acknowledgedSurvives compares every acknowledgement token that anybody got with the log.
// Results, runs and log lines have checks of their own.
func acknowledgedSurvives(w *world) checker {
	return checker{
		sentence: checkAcknowledged,
		end: func() {
			done := map[domain.Token]bool{}
			for _, t := range w.book.promises.tokens {
				if done[t] || t.Position == 0 {
					continue
				}
				done[t] = true
				digest, _, err := w.store.BatchAt(context.Background(), t.Partition, store.Position(t.Position))
				if err != nil || digest != t.Digest {
					w.violation(checkAcknowledged, "somebody holds %s, and the log has %q there (%v)", t, digest, err)
				}
			}
		},
	}
}
