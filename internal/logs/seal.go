package logs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Seal closes the log of an attempt that ended and gives the reference to it. end is the
// last sequence that the result speaks of: 0 for none, SequenceUnknown for an attempt that
// gave no result. What is missing up to there is marked as a gap; nothing durable is left
// out, also beyond it. Sealing again gives the same Ref. Until it succeeds the log stays
// open; with errors.Is(err, domain.ErrRetry) trying again can help.
func (g *Gateway) Seal(
	ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID, end uint64,
) (Ref, error) {
	if _, _, _, ok := attempt.Split(); !ok || !validTenant(tenant) {
		return Ref{}, fmt.Errorf("seal log of %.80s: malformed name: %w", attempt, ErrInvalid)
	}
	for {
		l, err := g.liveLog(ctx, tenant, attempt)
		if errors.Is(err, ErrSealed) {
			return g.sealedRef(ctx, tenant, attempt)
		}
		if err != nil {
			return Ref{}, err
		}
		mine, err := g.beginSeal(ctx, l)
		if err != nil {
			return Ref{}, err
		}
		if mine {
			return g.finishSeal(ctx, l, end)
		}
	}
}

// beginSeal closes the log for new chunks and waits for those that are being written. It
// reports false after somebody else's seal of the same log has ended.
func (g *Gateway) beginSeal(ctx context.Context, l *live) (mine bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || !g.config.Valid() {
		return false, retryable(ErrClosed)
	}
	if g.lives[logID{l.tenant, l.attempt}] != l {
		return false, nil
	}
	if l.sealing {
		return false, g.await(ctx, l)
	}
	l.sealing = true
	for len(l.flying) > 0 {
		if err := g.await(ctx, l); err != nil {
			l.sealing = false
			l.wake()
			return false, err
		}
	}
	return true, nil
}

// await waits for the next change of the log. The caller holds mu, which is let go meanwhile.
func (g *Gateway) await(ctx context.Context, l *live) error {
	changed := l.watch()
	g.mu.Unlock()
	defer g.mu.Lock()
	if g.config.Host.Wait(ctx, host.For{News: changed, Limit: host.Forever}) == host.Ended {
		return fmt.Errorf("seal log of %s: %w", l.attempt, ctx.Err())
	}
	return nil
}

func (g *Gateway) finishSeal(ctx context.Context, l *live, end uint64) (Ref, error) {
	ref, err := g.compact(ctx, l, end)
	if err == nil && !g.config.Valid() {
		err = retryable(ErrNotHeld) // whoever holds the log now seals it, and finds this object
	}
	g.mu.Lock()
	l.sealing = false
	lane := g.lane(l.tenant)
	if err == nil {
		delete(g.lives, logID{l.tenant, l.attempt})
		g.closings++
		g.counters.Seals++
		lane.litter = append(lane.litter, lane.release(l)...)
		if g.config.Era == 0 {
			lane.litter, lane.doubtful = append(lane.litter, lane.doubtful...), nil
		}
		g.announce()
	}
	l.wake()
	g.tidy(lane)
	g.mu.Unlock()
	g.remove(lane)
	return ref, err
}

// compact writes the object. Nothing changes the log meanwhile: it is being sealed.
func (g *Gateway) compact(ctx context.Context, l *live, end uint64) (Ref, error) {
	if !g.seals.Take(ctx) {
		return Ref{}, fmt.Errorf("seal log of %s: %w", l.attempt, ctx.Err())
	}
	defer g.seals.Leave()
	var p *packer
	r := newFeed(func(w io.Writer) error {
		p = newPacker(w, g.codec, l.tenant, l.attempt)
		defer p.close()
		return g.pack(ctx, p, l, end)
	})
	defer r.close()
	key, sum := sealedKey(l.tenant, l.attempt), sha256.New()
	err := g.store.Put(ctx, key, io.TeeReader(r, sum), -1)
	if errors.Is(err, blob.ErrExists) {
		return g.sealedRef(ctx, l.tenant, l.attempt)
	}
	if err != nil {
		return Ref{}, retryable(fmt.Errorf("seal log of %s: %w", l.attempt, err))
	}
	digest := domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil)))
	return p.index.ref(key, p.written, digest), nil
}

func (x *index) ref(key string, length int64, digest domain.Digest) Ref {
	return Ref{
		Object: key, Length: length, Digest: digest, Bytes: x.tally.offset, Lines: x.tally.lines,
		Truncated: x.tally.truncated, Gaps: x.tally.gaps,
	}
}

// pack feeds the whole log to the packer: its blocks, then what waits behind holes, with a
// mark for every hole. A block that storage has lost becomes a mark too: one broken segment
// must not take the rest of the log with it.
func (g *Gateway) pack(ctx context.Context, p *packer, l *live, end uint64) error {
	for i := range l.blocks {
		if err := g.packBlock(ctx, p, l, &l.blocks[i]); err != nil {
			return err
		}
	}
	last := l.through
	for _, d := range l.waiting() {
		if err := p.gap(last, d.sequence, d.step, d.at); err != nil {
			return err
		}
		b := d.block()
		if err := g.packBlock(ctx, p, l, &b); err != nil {
			return err
		}
		last = d.sequence
	}
	if end != SequenceUnknown && end > last {
		var at int64
		if n := len(l.blocks); n > 0 {
			at = l.blocks[n-1].time
		}
		if err := p.gap(last, end+1, p.index.tally.step, at); err != nil {
			return err
		}
	}
	return p.finish()
}

func (g *Gateway) packBlock(ctx context.Context, p *packer, l *live, b *block) error {
	k, err := g.liveLoad(ctx, l.tenant, b)
	if errors.Is(err, ErrDamaged) || errors.Is(err, blob.ErrNotFound) {
		return p.add(span{
			sequence: b.last, at: b.time, step: b.at.step, stream: StreamRunner, mark: MarkGap + ":damaged",
			dropped: uint64(b.length),
		}, nil)
	}
	if err != nil {
		return err
	}
	for i := range k.spans {
		if err := p.add(k.spans[i], k.pieces[i]); err != nil {
			return err
		}
	}
	return nil
}

// gap marks the chunks between two sequences as missing.
func (p *packer) gap(last, next uint64, step uint32, at int64) error {
	if next <= last+1 {
		return nil
	}
	return p.add(span{
		sequence: next - 1, at: at, step: step, stream: StreamRunner,
		mark: fmt.Sprintf("%s:%d", markMissing, next-last-1),
	}, nil)
}

// sealedRef makes the reference to a sealed log anew. It reads the whole object for its
// digest; it is needed only when a crash came before the first reference was stored.
func (g *Gateway) sealedRef(ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID) (Ref, error) {
	key := sealedKey(tenant, attempt)
	size, err := g.store.Size(ctx, key)
	if err != nil {
		return Ref{}, retryable(fmt.Errorf("find sealed log of %s: %w", attempt, err))
	}
	x, err := readIndex(ctx, g.store, &Ref{Object: key, Length: size})
	if err != nil {
		return Ref{}, retryable(err)
	}
	r, err := g.store.Open(ctx, key, 0, size)
	if err != nil {
		return Ref{}, retryable(fmt.Errorf("read sealed log of %s: %w", attempt, err))
	}
	sum := sha256.New()
	_, err = io.Copy(sum, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return Ref{}, retryable(fmt.Errorf("read sealed log of %s: %w", attempt, err))
	}
	return x.ref(key, size, domain.Digest("sha256:"+hex.EncodeToString(sum.Sum(nil)))), nil
}
