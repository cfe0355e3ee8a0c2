package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// checkpoint copies committed pages from the write-ahead log into the file and syncs it.
// PASSIVE waits for nobody.
const checkpoint = "PRAGMA wal_checkpoint(PASSIVE)"

// tender keeps the write-ahead log short, outside of any commit. SQLite could do it by
// itself, but would do it inside a commit, and would ignore a failed sync of the file.
//
// It works in two passes: the first on a reading connection, while the writer goes on;
// the second, which has only the rest to do, in the writer's turn, so that the next
// commit finds the whole log copied and starts it anew.
type tender struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startTender(w *writer, readers *pool) *tender {
	ctx, cancel := context.WithCancel(context.Background())
	t := &tender{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.tend:
				t.round(ctx, w, readers)
			}
		}
	}()
	return t
}

func (t *tender) stop() {
	t.cancel()
	<-t.done
}

func (t *tender) round(ctx context.Context, w *writer, readers *pool) {
	w.pending.Store(0)
	err := readers.Query(ctx, checkpoint, func(r sqlstore.Row) error {
		var busy, frames, copied int64
		return r.Scan(&busy, &frames, &copied)
	})
	if err == nil && ctx.Err() == nil {
		err = w.checkpoint()
	}
	// No space in the file, a reader in the way, or the end of the process: the log keeps
	// everything, and the next round tries again. Anything else is a failed sync.
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrFull) || errors.Is(err, domain.ErrRetry) {
		return
	}
	_ = w.judge(fmt.Errorf("checkpoint: %w: %w", store.ErrBroken, err))
}

func (w *writer) checkpoint() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	return asStoreError(w.row(checkpoint, make([]driver.Value, 3)))
}
