package sim

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [HIST-1].
const checkGapless = "events of a partition are totally ordered and gapless, each batch carries the digest of " +
	"the one before, and an old owner's append fails"

func gaplessLog(w *world) checker {
	type end struct {
		position store.Position
		digest   domain.Digest
		epoch    uint64
	}
	ends := map[domain.PartitionID]*end{}
	of := func(p domain.PartitionID) *end {
		if ends[p] == nil {
			ends[p] = &end{}
		}
		return ends[p]
	}
	return checker{
		sentence: checkGapless,
		acquired: func(own store.Ownership) {
			e := of(own.Partition)
			if own.Epoch <= e.epoch || own.Position != e.position || own.Digest != e.digest {
				w.violation(checkGapless, "%s was acquired as %+v after %+v", own.Partition, own, *e)
			}
			e.epoch = own.Epoch
		},
		batch: func(b *store.Batch) {
			e := of(b.Partition)
			if b.Epoch != e.epoch {
				w.violation(checkGapless, "%s took a batch of epoch %d when its owner had %d", b.Partition, b.Epoch, e.epoch)
			}
			if b.Prev != e.position || b.PrevDigest != e.digest {
				w.violation(checkGapless, "%s took a batch after %d when it had %d", b.Partition, b.Prev, e.position)
			}
			for i := range b.Rows {
				if b.Rows[i].Position != e.position+1 {
					w.violation(checkGapless, "%s: row %d follows %d", b.Partition, b.Rows[i].Position, e.position)
				}
				e.position = b.Rows[i].Position
			}
			if len(b.Rows) > 0 {
				before := e.digest
				e.digest = store.BatchDigest(before, b.Rows)
				if before != "" && e.digest == store.BatchDigest("", b.Rows) {
					w.violation(checkGapless, "%s: the digest at %d does not depend on the one before", b.Partition, e.position)
				}
			}
			if b.Digest != e.digest {
				w.violation(checkGapless, "%s: the batch at %d says %s, its rows add up to %s",
					b.Partition, e.position, b.Digest, e.digest)
			}
		},
		end: func() {
			for _, p := range append(append([]domain.PartitionID{}, w.partitions...), w.pools...) {
				rows, err := w.whole().Read(context.Background(), p, 0, int(of(p).position)+1)
				if err != nil || store.Position(len(rows)) != of(p).position {
					w.violation(checkGapless, "%s has %d rows, %d were committed (%v)", p, len(rows), of(p).position, err)
				}
			}
		},
	}
}
