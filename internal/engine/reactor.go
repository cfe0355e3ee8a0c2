package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Reactor carries out effects after events are committed. It gets every row of a
// partition in order, at least once: its cursor commits with a later batch, so after a
// crash some rows come again, and the target's state absorbs them.
type Reactor interface {
	// Name is stable: the cursor is stored under it.
	Name() string
	// React handles one row. An error is retried with back-off, for ever: a reactor that
	// can give up on something says so with a command.
	React(ctx context.Context, row Committed) error
}

// CommandID derives the id of a reactor's n-th command from the event it follows. It is
// the request id of the command's cause.
func CommandID(reactor string, stream domain.StreamID, version uint64, n int) string {
	return fmt.Sprintf("%s/%s/%d/%d", reactor, stream, version, n)
}

const (
	tailRows = 1024 // rows kept in memory for a reactor; behind that it reads the store
	tailRead = 256  // rows read from the store at once
)

// tail feeds one reactor with one partition's log.
type tail struct {
	driver  *driver
	reactor Reactor
	at      store.Position // last row handled

	mu   sync.Mutex
	rows []Committed    // newest rows, gapless
	end  store.Position // of the log, as far as the owner knows it
	news chan struct{}
}

func newTail(d *driver, r Reactor) *tail {
	return &tail{driver: d, reactor: r, at: d.owner.cursors[r.Name()], end: d.owner.position,
		news: make(chan struct{}, 1)}
}

// offer hands new rows over; it never blocks.
func (t *tail) offer(rows []Committed) {
	t.mu.Lock()
	t.rows = append(t.rows, rows...)
	t.end = max(t.end, rows[len(rows)-1].Position)
	if over := len(t.rows) - tailRows; over > 0 {
		t.rows = append([]Committed(nil), t.rows[over:]...)
	}
	t.mu.Unlock()
	t.wake()
}

// reach says where the log ends. Usually offer said so before; it did not where an owner
// found rows that it has not appended itself.
func (t *tail) reach(end store.Position) {
	t.mu.Lock()
	behind := end > t.end
	t.end = max(t.end, end)
	t.mu.Unlock()
	if behind {
		t.wake()
	}
}

func (t *tail) wake() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *tail) loop(ctx context.Context) {
	for {
		rows, err := t.next(ctx)
		if err == nil && len(rows) == 0 {
			if t.driver.engine.cfg.Host.Wait(ctx, host.For{News: t.news, Limit: host.Forever}) == host.Ended {
				return
			}
			continue
		}
		for _, row := range rows {
			if !t.handle(ctx, row) {
				return
			}
		}
		if len(rows) > 0 && !t.mark(ctx) {
			return
		}
		if err != nil {
			t.driver.engine.cfg.Log.Warn("reactor can't read its rows", "reactor", t.reactor.Name(), "error", err)
			if !host.Pause(ctx, t.driver.engine.cfg.Host, time.Second) {
				return
			}
		}
	}
}

// handle retries one row until the reactor has taken it.
func (t *tail) handle(ctx context.Context, row Committed) bool {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := t.reactor.React(ctx, row)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return false
		}
		if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeStreamQuarantined {
			// Trying again helps nobody, and the rows of other streams wait behind this one.
			t.driver.engine.cfg.Log.Error("reactor passes over a row of a damaged stream", "reactor", t.reactor.Name(),
				"stream", row.Stream, "version", row.Version, "position", row.Position, "error", err)
			break
		}
		t.driver.engine.cfg.Log.Warn("reactor will try again", "reactor", t.reactor.Name(),
			"stream", row.Stream, "version", row.Version, "error", err)
		if !t.mark(ctx) || !host.Pause(ctx, t.driver.engine.cfg.Host, wait) {
			return false
		}
	}
	t.at = row.Position
	return true
}

// mark tells the owner how far the reactor has come: once for all rows that came together, and
// before it waits.
func (t *tail) mark(ctx context.Context) bool {
	return t.driver.send(ctx, inCursor{t.reactor.Name(), t.at}) == nil
}

// next takes rows after the cursor from memory, or from the store when memory begins
// later. It gives none when there are no new ones.
func (t *tail) next(ctx context.Context) ([]Committed, error) {
	t.mu.Lock()
	if t.at >= t.end {
		t.rows = nil
		t.mu.Unlock()
		return nil, nil // nobody asks the store for what can't be there
	}
	if n := len(t.rows); n > 0 && t.rows[0].Position <= t.at+1 {
		var rows []Committed
		if first := t.at + 1; t.rows[n-1].Position >= first {
			rows = append(rows, t.rows[int(first-t.rows[0].Position):]...)
		}
		t.rows = nil
		t.mu.Unlock()
		return rows, nil
	}
	t.mu.Unlock()
	return t.stored(ctx)
}

// stored reads rows from the store. What can't be read or understood is passed over, with
// a word: its stream is quarantined, and the rows of all others come behind it.
func (t *tail) stored(ctx context.Context) ([]Committed, error) {
	p, log := t.driver.owner.partition, t.driver.engine.cfg.Log
	stored, err := t.driver.engine.cfg.Store.Read(ctx, p, t.at, tailRead)
	if errors.Is(err, store.ErrBroken) {
		// Row by row, to lose no more than what is damaged.
		if stored, err = t.driver.engine.cfg.Store.Read(ctx, p, t.at, 1); errors.Is(err, store.ErrBroken) {
			t.at++
			log.Error("reactor passes over a row that can't be read", "reactor", t.reactor.Name(), "partition", p,
				"position", t.at, "error", err)
			return t.next(ctx)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read log of %s after %d: %w", p, t.at, err)
	}
	if len(stored) == 0 {
		t.at = t.reached() // positions that are gone: there is nothing to wait for
		return nil, nil
	}
	rows := make([]Committed, 0, len(stored))
	for i := range stored {
		row, err := t.driver.engine.decode(p, &stored[i])
		if err != nil {
			log.Error("reactor passes over a row that can't be decoded", "reactor", t.reactor.Name(), "partition", p,
				"stream", stored[i].Stream, "position", stored[i].Position, "error", err)
			if len(rows) == 0 {
				t.at = stored[i].Position
			}
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return t.next(ctx)
	}
	return rows, nil
}

func (t *tail) reached() store.Position {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

func (e *Engine) decode(p domain.PartitionID, r *store.Row) (Committed, error) {
	kind := e.kinds[r.Stream.Kind()]
	if kind == nil {
		return Committed{}, fmt.Errorf("decode row %d of %s: no kind for %s", r.Position, p, r.Stream)
	}
	events, err := kind.DecodeEvents(r.Events)
	if err != nil {
		return Committed{}, fmt.Errorf("decode row %d of %s: %w", r.Position, p, err)
	}
	return Committed{Partition: p, Position: r.Position, Tenant: r.Tenant, Stream: r.Stream,
		First: r.Version - uint64(r.Count) + 1, Version: r.Version, At: r.At, Events: events}, nil
}
