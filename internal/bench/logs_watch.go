package bench

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// watcher follows one log while it grows, as a person does, and measures how long after it was
// printed a byte is seen.
type watcher struct {
	attempt string
	waits   *times

	mu    sync.Mutex
	trail []footprint // of what was printed and not seen yet
	seen  int64       // bytes
	lines int64
}

// footprint says when everything before end was printed.
type footprint struct {
	end int64
	at  time.Time
}

func newWatcher(attempt string) *watcher { return &watcher{attempt: attempt, waits: newTimes()} }

// printed notes what a runner is about to send; nobody may watch.
func (w *watcher) printed(end int64, at time.Time) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trail = append(w.trail, footprint{end, at})
}

// follow watches until the log is sealed.
func (w *watcher) follow(ctx context.Context, c *client.Client) error {
	_, err := c.FollowLog(ctx, &fairleadv1.FollowLogRequest{Attempt: w.attempt},
		func(content []byte, offset int64) error {
			now := time.Now()
			w.mu.Lock()
			defer w.mu.Unlock()
			if offset != w.seen {
				return fmt.Errorf("watch the log of %s: byte %d follows byte %d", w.attempt, offset, w.seen)
			}
			w.seen += int64(len(content))
			w.lines += int64(bytes.Count(content, []byte{'\n'}))
			for len(w.trail) > 0 && w.trail[0].end <= w.seen {
				if err := w.waits.add(max(now.Sub(w.trail[0].at), 0)); err != nil {
					return err
				}
				w.trail = w.trail[1:]
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("watch the log of %s: %w", w.attempt, err)
	}
	return nil
}

// watchedReport wants every byte to have been seen.
func (s *stage) watchedReport(results []printed, watchers []*watcher, rate int64) error {
	waits, some := newTimes(), false
	for i, w := range watchers {
		if w == nil {
			continue
		}
		if w.seen != results[i].bytes || w.lines != results[i].lines || len(w.trail) > 0 {
			return fmt.Errorf("log of %s: %d bytes and %d lines were printed, %d and %d seen", w.attempt, results[i].bytes,
				results[i].lines, w.seen, w.lines)
		}
		some = true
		waits.merge(w.waits)
	}
	if !some {
		return nil
	}
	if rate == 0 {
		s.report.spread("sent until seen", "by whoever follows the log; as fast as it is acknowledged", waits)
		return nil
	}
	s.report.spread("printed until seen", "by whoever follows the log; printed by the clock", waits)
	s.report.aim(followAim)
	return nil
}
