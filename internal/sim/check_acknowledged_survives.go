package sim

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [HIST-4], [LOG-1].
const checkAcknowledged = "what was acknowledged survives a crash of any process and a change of owner"

// acknowledgedSurvives compares every acknowledgement token that anybody got with the log,
// when it is given and when the world has come to rest. Results, runs and log lines have
// checks of their own.
func acknowledgedSurvives(w *world) checker {
	type place struct {
		partition domain.PartitionID
		position  store.Position
	}
	ends := map[place]domain.Digest{}
	return checker{
		sentence: checkAcknowledged,
		batch: func(b *store.Batch) {
			if n := len(b.Rows); n > 0 {
				ends[place{b.Partition, b.Rows[n-1].Position}] = b.Digest
			}
		},
		token: func(t domain.Token) {
			if at := (place{t.Partition, store.Position(t.Position)}); t.Position > 0 && ends[at] != t.Digest {
				w.violation(checkAcknowledged, "somebody was given %s, and what is committed there is %q", t, ends[at])
			}
		},
		end: func() {
			done := map[domain.Token]bool{}
			for _, t := range w.book.promises.tokens {
				if done[t] || t.Position == 0 {
					continue
				}
				done[t] = true
				digest, _, err := w.whole().BatchAt(context.Background(), t.Partition, store.Position(t.Position))
				if err != nil || digest != t.Digest {
					w.violation(checkAcknowledged, "somebody holds %s, and the log has %q there (%v)", t, digest, err)
				}
			}
		},
	}
}
