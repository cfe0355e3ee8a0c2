package sim

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Promises: [SRC-14].
const checkOccurrences = "each occurrence of a schedule is settled once, in order, and none is left out"

// occurrenceSlack is how long an occurrence may wait in a healed world.
const occurrenceSlack = 10 * time.Minute

// noOccurrenceIsLost follows every schedule from one occurrence to the next.
func noOccurrenceIsLost(w *world) checker {
	type schedule struct {
		stream               domain.StreamID
		workflow, cron, zone string
	}
	awaited := map[schedule]repository.Schedule{}
	follow := func(stream domain.StreamID, e repository.Event) {
		switch event := e.(type) {
		case *repository.SchedulesDefined:
			now := map[schedule]bool{}
			for _, one := range event.Schedules {
				k := schedule{stream, one.Workflow, one.Cron, one.Zone}
				if was, ok := awaited[k]; ok && was.NextID != one.NextID {
					w.violation(checkOccurrences, "%s awaited %s, and was defined anew to await %s", one.Cron, was.NextID, one.NextID)
				}
				now[k], awaited[k] = true, one
			}
			for k := range awaited {
				if k.stream == stream && !now[k] {
					delete(awaited, k)
				}
			}
		case *repository.OccurrenceSettled:
			k := schedule{stream, event.Workflow, event.Cron, event.Zone}
			was, ok := awaited[k]
			switch {
			case !ok:
				w.violation(checkOccurrences, "%s settled %s, and there is no such schedule", event.Cron, event.ID)
			case event.At.Before(was.NextAt):
				w.violation(checkOccurrences, "%s settled %s before it was due", event.Cron, event.ID)
			case event.Missed == 0 && event.ID != was.NextID:
				w.violation(checkOccurrences, "%s awaited %s and settled %s", event.Cron, was.NextID, event.ID)
			}
			was.NextID, was.NextAt = event.NextID, event.NextAt
			awaited[k] = was
		}
	}
	return checker{
		sentence: checkOccurrences,
		batch: func(b *store.Batch) {
			for i := range b.Rows {
				if b.Rows[i].Stream.Kind() != "repository" {
					continue
				}
				events, err := repository.DecodeEvents(b.Rows[i].Events)
				if err != nil {
					w.violation(checkOccurrences, "%s: %v", b.Rows[i].Stream, err)
				}
				for _, e := range events {
					follow(b.Rows[i].Stream, e)
				}
			}
		},
		end: func() {
			for k, one := range awaited {
				if late := w.wall().Sub(one.NextAt); late > occurrenceSlack {
					w.violation(checkOccurrences, "%s of %s has waited for %s for %v", k.cron, k.stream, one.NextID, late)
				}
			}
		},
	}
}
