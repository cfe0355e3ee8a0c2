package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Log reads one log, the same way while it grows and after it was sealed: offsets and line
// numbers stay what they are. It holds no resource and may be used by many goroutines.
// A log of which no chunk came yet is empty, and can be followed.
type Log struct {
	gateway *Gateway
	id      logID
	ref     *Ref
}

// Log gives the log of an attempt. ref, when the caller knows it, saves a look at storage;
// one without an object is that of an attempt which logged nothing and never will.
// It finds no fault with an attempt that does not exist: whether one does, and who may read
// it, is known elsewhere.
func (g *Gateway) Log(tenant domain.TenantID, attempt domain.AttemptID, ref *Ref) (*Log, error) {
	if _, _, _, ok := attempt.Split(); !ok || !validTenant(tenant) {
		return nil, fmt.Errorf("read log of %.80s: malformed name: %w", attempt, ErrInvalid)
	}
	return &Log{gateway: g, id: logID{tenant, attempt}, ref: ref}, nil
}

// view is a log at one moment.
type view struct {
	blocks  []block
	end     cursor
	totals  func() Totals
	sealed  bool
	load    func(context.Context, *block) (*loaded, error)
	changed <-chan struct{} // closed at the next change; nil when sealed
}

// next is where the log stands after block i.
func (v *view) next(i int) cursor {
	if i+1 < len(v.blocks) {
		return v.blocks[i+1].at
	}
	return v.end
}

func (l *Log) view(ctx context.Context) (*view, error) {
	g := l.gateway
	switch {
	case l.ref != nil && l.ref.Object == "":
		return &view{totals: func() Totals { return Totals{Sealed: true} }, sealed: true}, nil
	case l.ref != nil:
		return l.sealedView(ctx, *l.ref)
	}
	for {
		g.mu.Lock()
		if g.abandoned {
			g.mu.Unlock()
			return nil, retryable(ErrNotHeld)
		}
		// A log that is sealed and not recorded is live: its seal may not be the one that counts.
		if live := g.lives[l.id]; live != nil {
			v := l.liveView(live)
			g.mu.Unlock()
			return v, nil
		}
		ref, _ := g.recent.find(l.id)
		born := g.birth(l.id)
		g.mu.Unlock()

		if ref == nil {
			var err error
			if ref, err = g.recorded(ctx, l.id); err != nil {
				return nil, err
			}
		}
		if ref != nil {
			return l.sealedView(ctx, *ref)
		}
		select {
		case <-born: // meanwhile
		default:
			none := func() Totals { return Totals{} }
			return &view{totals: none, changed: born}, nil
		}
	}
}

// liveView is a snapshot. The caller holds the gateway's mu.
func (l *Log) liveView(live *live) *view {
	return &view{
		blocks: live.blocks[:len(live.blocks):len(live.blocks)], end: live.tally.cursor, changed: live.watch(),
		load: func(ctx context.Context, b *block) (*loaded, error) {
			k, err := l.gateway.liveLoad(ctx, l.id.tenant, b)
			if errors.Is(err, blob.ErrNotFound) {
				err = l.lost(ctx, b, err)
			}
			return k, err
		},
		totals: func() Totals {
			l.gateway.mu.Lock()
			defer l.gateway.mu.Unlock()
			return live.tally.totals(false)
		},
	}
}

// lost says what became of a block whose segment is gone. Usually it was folded, or the log was
// sealed: then another look at the log finds it, and gone is the answer. Where the index still
// names that place, another server may have sealed the log and not told; else it is damage.
func (l *Log) lost(ctx context.Context, b *block, gone error) error {
	g := l.gateway
	g.mu.Lock()
	var now *block
	if live := g.lives[l.id]; live != nil {
		now = live.find(b.first)
	}
	same := now != nil && now.segment == b.segment && now.record == b.record
	g.mu.Unlock()
	if !same {
		return gone
	}
	ref, err := g.recorded(ctx, l.id)
	if err != nil {
		return err
	}
	if ref == nil {
		return &Damage{Object: segmentKey(l.id.tenant, b.segment), Next: b.at.offset + b.length, Why: "the segment is gone"}
	}
	g.Recorded(l.id.tenant, l.id.attempt, *ref)
	host.Pause(ctx, g.config.Host, lostPause)
	return gone
}

func (l *Log) sealedView(ctx context.Context, ref Ref) (*view, error) {
	g := l.gateway
	at := place{ref.Object, ^ref.Offset} // never the place of a block, which is not negative
	x, ok := g.shelf.take(at)
	if ok {
		if removal, err := g.Removal(ctx, ref.Object); err == nil && removal != nil {
			return nil, removal.Rejection() // what memory has of it is not shown any more
		}
	} else {
		read, err := readIndex(ctx, g.store, &ref)
		if err != nil {
			return nil, g.expired(ctx, ref.Object, err)
		}
		g.shelf.put(at, read, int64(len(read.blocks))*160+int64(len(read.tally.marks))*128+1024)
		x = read
	}
	sealed := x.(*index)
	if sealed.tenant != l.id.tenant || sealed.attempt != l.id.attempt {
		return nil, &Damage{Object: ref.Object, Offset: ref.Offset, Why: "is the log of another attempt"}
	}
	return &view{
		blocks: sealed.blocks, end: sealed.tally.cursor, sealed: true,
		load:   func(ctx context.Context, b *block) (*loaded, error) { return g.sealedLoad(ctx, &ref, b) },
		totals: func() Totals { return sealed.tally.totals(true) },
	}, nil
}

// moved is true of an error that comes from a log being sealed while it was read: its
// segments are gone, and the object has everything.
func (v *view) moved(err error) bool { return !v.sealed && errors.Is(err, blob.ErrNotFound) }

// Totals tells how long the log is now.
func (l *Log) Totals(ctx context.Context) (Totals, error) {
	v, err := l.view(ctx)
	if err != nil {
		return Totals{}, err
	}
	return v.totals(), nil
}

// Wait returns once the log differs from what the caller has seen, or is sealed.
func (l *Log) Wait(ctx context.Context, seen Totals) (Totals, error) {
	for {
		v, err := l.view(ctx)
		if err != nil {
			return Totals{}, err
		}
		if v.sealed || v.end.offset > seen.Bytes || v.end.lines > seen.Lines {
			return v.totals(), nil
		}
		if l.gateway.config.Host.Wait(ctx, host.For{News: v.changed, Limit: host.Forever}) == host.Ended {
			return Totals{}, ctx.Err()
		}
	}
}

// blockAt is the block with the byte at offset, or the number of blocks when that is the end.
func (v *view) blockAt(offset int64) int {
	i, _ := slices.BinarySearchFunc(v.blocks, offset, func(b block, at int64) int {
		return cmp.Compare(b.at.offset+b.length, at+1)
	})
	return i
}

// Raw writes the bytes that were printed, exactly, from an offset: length of them, or all
// that are there now with -1. At a damaged block it stops with a *Damage whose Next is where
// to go on.
func (l *Log) Raw(ctx context.Context, w io.Writer, offset, length int64) (int64, error) {
	return l.raw(ctx, w, offset, length, func(*span) bool { return true })
}

// RawStep writes all bytes of one step that are there now.
func (l *Log) RawStep(ctx context.Context, w io.Writer, step uint32) (int64, error) {
	t, err := l.Totals(ctx)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(t.Steps, func(r StepRange) bool { return r.Step == step })
	if i < 0 {
		return 0, nil
	}
	r := t.Steps[i]
	return l.raw(ctx, w, r.From, r.To-r.From, func(s *span) bool { return s.step == step })
}

func (l *Log) raw(
	ctx context.Context, w io.Writer, offset, length int64, wanted func(*span) bool,
) (written int64, err error) {
	if offset < 0 || length < -1 {
		return 0, fmt.Errorf("read log of %s: range %d+%d: %w", l.id.attempt, offset, length, ErrInvalid)
	}
	v, err := l.view(ctx)
	if err != nil {
		return 0, err
	}
	end := v.end.offset
	if length >= 0 && length < end-offset {
		end = offset + length
	}
	for offset < end {
		i := v.blockAt(offset)
		k, err := v.read(ctx, i)
		if v.moved(err) {
			if v, err = l.view(ctx); err != nil {
				return written, err
			}
			continue
		}
		if err != nil {
			return written, err
		}
		n, err := k.write(w, offset, end, wanted)
		written += n
		if err != nil {
			return written, fmt.Errorf("write log of %s: %w", l.id.attempt, err)
		}
		offset = v.next(i).offset
	}
	return written, nil
}

// read loads block i; damage is told with where the log goes on.
func (v *view) read(ctx context.Context, i int) (*loaded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	k, err := v.load(ctx, &v.blocks[i])
	var damage *Damage
	if errors.As(err, &damage) {
		return nil, &Damage{Object: damage.Object, Offset: damage.Offset, Next: v.next(i).offset, Why: damage.Why}
	}
	return k, err
}

// write writes the bytes of a block between two offsets of the log.
func (k *loaded) write(w io.Writer, from, to int64, wanted func(*span) bool) (written int64, err error) {
	at := k.block.at.offset
	for i, piece := range k.pieces {
		low, high := max(from-at, 0), min(to-at, int64(len(piece)))
		at += int64(len(piece))
		if low >= high || !wanted(&k.spans[i]) {
			continue
		}
		n, err := w.Write(piece[low:high])
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Piece is a part of a followed log.
type Piece struct {
	Offset int64
	Bytes  []byte // valid until the next piece, not to be changed
}

// Follow gives the bytes from an offset, then those to come as they become durable, until
// the log is sealed. It holds one block at a time, however slow the reader is. A damaged
// block comes as an error with its *Damage, after which following goes on behind it; any
// other error is the last thing that comes.
func (l *Log) Follow(ctx context.Context, offset int64) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for {
			v, err := l.view(ctx)
			if err != nil {
				yield(Piece{}, err)
				return
			}
			var more bool
			if offset, more = v.follow(ctx, offset, yield); !more {
				return
			}
			if v.sealed {
				return
			}
			if offset < v.end.offset {
				continue // the log was sealed meanwhile
			}
			if l.gateway.config.Host.Wait(ctx, host.For{News: v.changed, Limit: host.Forever}) == host.Ended {
				yield(Piece{}, ctx.Err())
				return
			}
		}
	}
}

// follow gives what a view has from an offset and tells how far it came.
func (v *view) follow(ctx context.Context, offset int64, yield func(Piece, error) bool) (int64, bool) {
	for offset < v.end.offset {
		i := v.blockAt(offset)
		k, err := v.read(ctx, i)
		var damage *Damage
		switch {
		case v.moved(err):
			return offset, true
		case errors.As(err, &damage):
			if !yield(Piece{Offset: offset}, err) {
				return offset, false
			}
			offset = damage.Next
			continue
		case err != nil:
			yield(Piece{Offset: offset}, err)
			return offset, false
		}
		at := k.block.at.offset
		for _, piece := range k.pieces {
			end := at + int64(len(piece))
			if end > offset {
				if !yield(Piece{Offset: offset, Bytes: piece[offset-at:]}, nil) {
					return offset, false
				}
				offset = end
			}
			at = end
		}
	}
	return offset, true
}
