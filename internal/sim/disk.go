package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

var errAway = errors.New("the store does not answer")

// disk is the store as one incarnation of a server reaches it. What is durable is in the
// memory adapter, which the world shares; between the two lies a way on which everything
// can go wrong.
type disk struct {
	*memory.Store
	server  *server
	process *process
	steered bool // it has read the store's clock
}

func (d *disk) world() *world { return d.server.world }

// op is one operation on its way.
type op struct {
	name  string
	write bool
}

// travel carries an operation to the store and its answer back. apply happens there, at one
// moment, whatever becomes of the caller meanwhile.
func (d *disk) travel(ctx context.Context, o op, apply func() error) error {
	w := d.world()
	if w.settingUp || d.process.sched.current == nil {
		return apply()
	}
	if !o.write && w.chance(storeReadFails) {
		d.process.sleep(w.way())
		w.line(d.server.label(), "!"+string(storeReadFails), "%s", o.name)
		return fmt.Errorf("%s: %w", o.name, errAway)
	}
	there, back := w.way(), w.way()
	if w.chance(storeSlow) {
		there += between(w.stream("store"), time.Second, 20*time.Second)
		w.line(d.server.label(), "!"+string(storeSlow), "%s %s", o.name, there)
	}
	if w.cut(d.server.name, "db") {
		w.line(d.server.label(), "!cut-from-store", "%s", o.name)
		d.process.sleep(5 * time.Second)
		return fmt.Errorf("%s: %w", o.name, errAway)
	}
	if !o.write && there < time.Second && w.stream("store").Float64() < w.swarm.inline {
		return apply()
	}
	var err error
	done := make(chan struct{})
	w.sched.after(there, nil, func() {
		err = apply()
		w.sched.after(back, d.process, func() { close(done) })
	})
	if d.process.Wait(ctx, host.For{News: done, Limit: host.Forever}) == host.Ended {
		return fmt.Errorf("%s: %w", o.name, context.Cause(ctx)) // whatever becomes of it
	}
	return err
}

// ask is travel for an operation that answers something.
func ask[T any](ctx context.Context, d *disk, o op, apply func() (T, error)) (T, error) {
	var out T
	err := d.travel(ctx, o, func() (err error) {
		out, err = apply()
		return err
	})
	return out, err
}

// Append implements store.Log.
func (d *disk) Append(ctx context.Context, b store.Batch) error {
	w := d.world()
	commit := func() error { return w.commit(d, b) }
	if w.settingUp {
		return commit()
	}
	if w.chance(appendDies) {
		d.server.crash(appendDies)
	}
	switch {
	case w.chance(appendFull):
		w.full(&w.storeFullUntil, "db")
	case w.chance(appendFails):
		w.line(d.server.label(), "!"+string(appendFails), "p=%s @%d", b.Partition, b.Prev)
		d.process.sleep(w.way())
		return fmt.Errorf("append partition %s: %w", b.Partition, errAway)
	case w.chance(appendLost):
		w.line(d.server.label(), "!"+string(appendLost), "p=%s @%d", b.Partition, b.Prev)
		d.process.sleep(w.way())
		return fmt.Errorf("append partition %s: %w", b.Partition, store.ErrUnknown)
	case w.chance(appendLate):
		late := between(w.stream("store"), time.Millisecond, 3*time.Second)
		w.line(d.server.label(), "!"+string(appendLate), "p=%s @%d by %s", b.Partition, b.Prev, late)
		w.sched.after(late, nil, func() { _ = commit() })
		d.process.sleep(w.way())
		return fmt.Errorf("append partition %s: %w", b.Partition, store.ErrUnknown)
	case w.chance(appendBroken):
		w.line(d.server.label(), "!"+string(appendBroken), "p=%s @%d", b.Partition, b.Prev)
		return fmt.Errorf("append partition %s: %w", b.Partition, store.ErrBroken)
	}
	if w.sched.now < w.storeFullUntil {
		return fmt.Errorf("append partition %s: %w", b.Partition, store.ErrFull)
	}
	err := d.travel(ctx, op{"append", true}, commit)
	if err == nil && w.chance(appendDiesDone) {
		d.server.crash(appendDiesDone)
	}
	if err == nil && w.chance(appendUnknown) {
		w.line(d.server.label(), "!"+string(appendUnknown), "p=%s @%d", b.Partition, b.Prev)
		err = fmt.Errorf("append partition %s: %w", b.Partition, store.ErrUnknown)
	}
	return err
}

// commit is the moment at which a batch becomes history, or does not.
func (w *world) commit(d *disk, b store.Batch) error {
	err := w.store.Append(context.Background(), b)
	if err != nil {
		w.line(d.server.name, "-append", "p=%s e=%d @%d: %v", b.Partition, b.Epoch, b.Prev, err)
		return err
	}
	w.book.committed(&b)
	return nil
}

// Acquire implements store.Log.
func (d *disk) Acquire(ctx context.Context, p domain.PartitionID, owner string) (store.Ownership, error) {
	return ask(ctx, d, op{"acquire", true}, func() (store.Ownership, error) {
		own, err := d.Store.Acquire(context.Background(), p, owner)
		d.world().acquired(d, own, err)
		return own, err
	})
}

// Renew implements store.Fleet.
func (d *disk) Renew(ctx context.Context, m store.Member, ttl time.Duration) (store.Picture, error) {
	w, read := d.world(), time.Duration(0)
	picture, err := ask(ctx, d, op{"renew", false}, func() (store.Picture, error) {
		read = w.sched.now
		return d.Store.Renew(context.Background(), m, ttl)
	})
	if err == nil && !d.steered {
		d.steered = true
		w.behind = max(w.behind, w.sched.now-read) // better readings follow, worse ones don't count
	}
	return picture, err
}

// Leave implements store.Fleet.
func (d *disk) Leave(ctx context.Context, m store.Member) error {
	return d.travel(ctx, op{"leave", false}, func() error { return d.Store.Leave(context.Background(), m) })
}

// Picture implements store.Fleet.
func (d *disk) Picture(ctx context.Context) (store.Picture, error) {
	return ask(ctx, d, op{"picture", false}, func() (store.Picture, error) {
		return d.Store.Picture(context.Background())
	})
}

// Take implements store.Fleet.
func (d *disk) Take(ctx context.Context, p domain.PartitionID, owner string, epoch uint64) (store.Ownership, error) {
	own, err := ask(ctx, d, op{"take", true}, func() (store.Ownership, error) {
		own, err := d.Store.Take(context.Background(), p, owner, epoch)
		d.world().acquired(d, own, err)
		return own, err
	})
	if err == nil && d.world().chance(takeUnknown) {
		return own, fmt.Errorf("take partition %s: %w", p, errAway)
	}
	return own, err
}

// Release implements store.Fleet.
func (d *disk) Release(ctx context.Context, p domain.PartitionID, epoch uint64) error {
	return d.travel(ctx, op{"release", true}, func() error {
		err := d.Store.Release(context.Background(), p, epoch)
		d.world().line(d.server.label(), "released", "p=%s e=%d: %v", p, epoch, err)
		return err
	})
}

// Partitions implements store.Views.
func (d *disk) Partitions(ctx context.Context) ([]store.Ownership, error) {
	return ask(ctx, d, op{"partitions", false}, func() ([]store.Ownership, error) {
		return d.Store.Partitions(context.Background())
	})
}

func (w *world) acquired(d *disk, own store.Ownership, err error) {
	if err != nil {
		return
	}
	w.line(d.server.label(), "+owns", "p=%s e=%d @%d", own.Partition, own.Epoch, own.Position)
	w.book.acquired(own)
}

// Load implements store.Log.
func (d *disk) Load(ctx context.Context, tenant domain.TenantID, id domain.StreamID, checkpoint bool, encoding uint32,
) (store.History, error) {
	return ask(ctx, d, op{"load", false}, func() (store.History, error) {
		return d.Store.Load(context.Background(), tenant, id, checkpoint, encoding)
	})
}

// Live implements store.Log.
func (d *disk) Live(ctx context.Context, p domain.PartitionID) ([]store.Head, error) {
	return ask(ctx, d, op{"live", false}, func() ([]store.Head, error) { return d.Store.Live(context.Background(), p) })
}

// Read implements store.Log.
func (d *disk) Read(ctx context.Context, p domain.PartitionID, after store.Position, limit int) ([]store.Row, error) {
	return ask(ctx, d, op{"read", false}, func() ([]store.Row, error) {
		return d.Store.Read(context.Background(), p, after, limit)
	})
}

// BatchAt implements store.Log.
func (d *disk) BatchAt(ctx context.Context, p domain.PartitionID, at store.Position) (domain.Digest, uint64, error) {
	var epoch uint64
	digest, err := ask(ctx, d, op{"batch-at", false}, func() (digest domain.Digest, err error) {
		digest, epoch, err = d.Store.BatchAt(context.Background(), p, at)
		return digest, err
	})
	return digest, epoch, err
}

// ArchiveRange implements store.Ranges.
func (d *disk) ArchiveRange(
	ctx context.Context, epoch uint64, r store.ArchivedRange, streams []store.ArchivedStream,
) error {
	return d.travel(ctx, op{"archive", true}, func() error {
		err := d.Store.ArchiveRange(context.Background(), epoch, r, streams)
		d.world().line(d.server.label(), "archived", "p=%s e=%d %d-%d: %v", r.Partition, epoch, r.From, r.To, err)
		return err
	})
}

// Prune implements store.Ranges.
func (d *disk) Prune(ctx context.Context, p domain.PartitionID, after store.Position, limit int,
) (store.Position, error) {
	return ask(ctx, d, op{"prune", true}, func() (store.Position, error) {
		return d.Store.Prune(context.Background(), p, after, limit)
	})
}

// ArchivedRanges implements store.Ranges.
func (d *disk) ArchivedRanges(ctx context.Context, p domain.PartitionID, after store.Position, limit int,
) ([]store.ArchivedRange, error) {
	return ask(ctx, d, op{"ranges", false}, func() ([]store.ArchivedRange, error) {
		return d.Store.ArchivedRanges(context.Background(), p, after, limit)
	})
}

// ArchivedOf implements store.Ranges.
func (d *disk) ArchivedOf(ctx context.Context, tenant domain.TenantID, id domain.StreamID,
) ([]store.ArchivedRange, error) {
	return ask(ctx, d, op{"ranges-of", false}, func() ([]store.ArchivedRange, error) {
		return d.Store.ArchivedOf(context.Background(), tenant, id)
	})
}

// Batches implements store.Ranges.
func (d *disk) Batches(ctx context.Context, p domain.PartitionID, after store.Position, limit int,
) ([]store.BatchMark, error) {
	return ask(ctx, d, op{"batches", false}, func() ([]store.BatchMark, error) {
		return d.Store.Batches(context.Background(), p, after, limit)
	})
}

// Key implements store.Log.
func (d *disk) Key(ctx context.Context, tenant domain.TenantID, scope, key string) (store.Key, error) {
	return ask(ctx, d, op{"key", false}, func() (store.Key, error) {
		return d.Store.Key(context.Background(), tenant, scope, key)
	})
}

// Counter implements store.Log.
func (d *disk) Counter(ctx context.Context, tenant domain.TenantID, name string) (uint64, error) {
	return ask(ctx, d, op{"counter", false}, func() (uint64, error) {
		return d.Store.Counter(context.Background(), tenant, name)
	})
}

// Cursors implements store.Log.
func (d *disk) Cursors(ctx context.Context, p domain.PartitionID) ([]store.Cursor, error) {
	return ask(ctx, d, op{"cursors", false}, func() ([]store.Cursor, error) {
		return d.Store.Cursors(context.Background(), p)
	})
}

// Run implements store.Views.
func (d *disk) Run(ctx context.Context, tenant domain.TenantID, run domain.RunID) (store.RunRow, error) {
	return ask(ctx, d, op{"run", false}, func() (store.RunRow, error) {
		return d.Store.Run(context.Background(), tenant, run)
	})
}

// Repository implements store.Views.
func (d *disk) Repository(ctx context.Context, tenant domain.TenantID, name string) (store.RepositoryRow, error) {
	return ask(ctx, d, op{"repository", false}, func() (store.RepositoryRow, error) {
		return d.Store.Repository(context.Background(), tenant, name)
	})
}

// Repositories implements store.Views.
func (d *disk) Repositories(ctx context.Context, tenant domain.TenantID) ([]store.RepositoryRow, error) {
	return ask(ctx, d, op{"repositories", false}, func() ([]store.RepositoryRow, error) {
		return d.Store.Repositories(context.Background(), tenant)
	})
}

var _ store.Store = (*disk)(nil)
