package sim

import (
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const checkGroups = "one member of a concurrency group goes on at a time, none before it was admitted, and who is " +
	"superseded names a run that exists"

// Promises: [RUN-23].
// oneOfAGroup follows who was admitted and has not left, as the runs tell it.
func oneOfAGroup(w *world) checker {
	type member struct {
		run domain.StreamID
		job int
	}
	type where struct {
		repository domain.RepositoryID
		name       string
	}
	holds := map[where]member{}
	last := map[where]uint64{}
	asked := map[member]where{}
	admitted := map[member]bool{}
	runs := map[domain.RunID]domain.RepositoryID{}
	var named []domain.RunID
	return checker{
		sentence: checkGroups,
		event: func(e *seen) {
			m := member{e.history.id, e.job}
			switch event := e.event.(type) {
			case *run.RunRequested:
				runs[event.Request.Run] = event.Request.Repository
			case *run.GroupAsked:
				asked[m] = where{runs[domain.RunID(m.run.ID())], strings.ToLower(event.Concurrency.Group)}
				admitted[m] = false
			case *run.GroupAdmitted:
				at := asked[m]
				if other, taken := holds[at]; taken {
					w.violation(checkGroups, "%s/%d is admitted to %s, which %s/%d holds", m.run, m.job, at.name, other.run, other.job)
				}
				if event.Generation <= last[at] {
					w.violation(checkGroups, "%s has generation %d after %d", at.name, event.Generation, last[at])
				}
				holds[at], last[at], admitted[m] = m, event.Generation, true
			case *run.GroupReplaced:
				named = append(named, event.By.Run)
			case *run.GroupLeft:
				if at := asked[m]; holds[at] == m {
					delete(holds, at)
				}
				delete(asked, m)
			case *run.LeaseGranted:
				for _, who := range []member{m, {m.run, group.Whole}} {
					if _, joins := asked[who]; joins && !admitted[who] {
						w.violation(checkGroups, "%s got a lease before %s/%d was admitted", e.attempt(), who.run, who.job)
					}
				}
			}
		},
		end: func() {
			for _, id := range named {
				if runs[id] == "" {
					w.violation(checkGroups, "somebody was replaced by %s, which does not exist", id)
				}
			}
			for m, at := range asked {
				if _, held := holds[at]; !held {
					w.violation(checkGroups, "%s/%d waits for %s, which nobody holds", m.run, m.job, at.name)
				}
			}
		},
	}
}
