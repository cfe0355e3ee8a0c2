package sim

import (
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [HIST-11].
const checkShown = "whoever is shown a partition, as its owner or as a follower, is shown every row, once and in order"

// everyRowShown follows what the observers of each incarnation of a server are shown. Between
// the word that all is loaded and the word that it is over there may be no hole.
func everyRowShown(w *world) checker {
	type view struct {
		process   *process
		partition domain.PartitionID
	}
	at := map[view]store.Position{}
	return checker{
		sentence: checkShown,
		shown: func(s *server, p *process, rows []engine.Committed) {
			for i := range rows {
				v := view{p, rows[i].Partition}
				if last := at[v]; last != 0 && rows[i].Position != last+1 {
					w.violation(checkShown, "%s was shown row %d of %s after row %d", s.label(), rows[i].Position, v.partition, last)
				}
				at[v] = rows[i].Position
			}
		},
		lost: func(p *process, partition domain.PartitionID) { delete(at, view{p, partition}) },
	}
}
