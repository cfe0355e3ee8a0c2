package logs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Seal closes the log of an attempt that ended and gives the reference to it. class is the
// run's: by that and the day retention removes it. end is the last sequence that the result
// speaks of: 0 for none, SequenceUnknown for an attempt that gave no result. What is missing
// up to there is marked as a gap; nothing durable is left out, also beyond it. Sealing again
// gives the same Ref. Until it succeeds the log stays open; with errors.Is(err,
// domain.ErrRetry) trying again can help.
//
// A sealed log keeps its segments until Recorded tells that history knows the reference: a
// crash in between seals it again, with everything in it, and what the first seal wrote is
// referred to by nobody.
// Preconditions: history does not know the reference yet.
func (g *Gateway) Seal(
	ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID, class domain.Class, end uint64,
) (Ref, error) {
	if _, _, _, ok := attempt.Split(); !ok || !validTenant(tenant) {
		return Ref{}, fmt.Errorf("seal log of %.80s: malformed name: %w", attempt, ErrInvalid)
	}
	for {
		if ref := g.sealedRef(logID{tenant, attempt}); ref != nil {
			return *ref, nil
		}
		l, err := g.liveLog(ctx, tenant, attempt, false)
		if errors.Is(err, ErrSealed) {
			continue
		}
		if err != nil {
			return Ref{}, err
		}
		mine, err := g.beginSeal(ctx, l)
		if err != nil {
			return Ref{}, err
		}
		if mine {
			return g.finishSeal(ctx, l, class, end)
		}
	}
}

// sealedRef is the reference to a log that was sealed here, as far as memory knows.
func (g *Gateway) sealedRef(id logID) *Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lives[id]; l != nil {
		return l.ref
	}
	ref, _ := g.recent.find(id)
	return ref
}

// Recorded tells that history knows where an attempt's sealed log is. Nothing of the log is
// needed here any more, whoever sealed it.
func (g *Gateway) Recorded(tenant domain.TenantID, attempt domain.AttemptID, ref Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := logID{tenant, attempt}
	g.recent.add(id, ref)
	g.announce(id)
	l := g.lives[id]
	switch {
	case l == nil || l.over || l.yielding || g.closed:
	case l.mine && *l.ref == ref:
		l.over = true
		g.retire(l)
	default:
		l.ref, l.sealing, l.yielding, l.mine = &ref, true, true, false
		l.wake()
		g.begin(func() { g.yield(l, ref) })
	}
}

// yield lets go of a log that somebody else sealed: another server, or this one before it
// died. What was taken here and is not in that seal becomes evidence, as it would have if the
// seal had been known. What can't be done now is done when history tells again.
func (g *Gateway) yield(l *live, ref Ref) {
	err := g.keepBeyond(l, &ref)
	g.mu.Lock()
	defer g.mu.Unlock()
	l.yielding = false
	if err == nil {
		l.over = true
		g.retire(l)
	}
}

// keepBeyond keeps as evidence the chunks of a log that come after the end of a seal.
func (g *Gateway) keepBeyond(l *live, ref *Ref) error {
	ctx, cancel := host.Within(g.ctx, g.config.Host, g.config.WriteTimeout)
	defer cancel()
	last := uint64(0)
	if ref.Object != "" {
		x, err := readIndex(ctx, g.store, ref)
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
		if x != nil && len(x.blocks) > 0 {
			last = x.blocks[len(x.blocks)-1].last
		}
	}
	g.mu.Lock()
	blocks := slices.Clone(l.blocks)
	for _, d := range l.waiting() {
		blocks = append(blocks, d.block())
	}
	g.mu.Unlock()
	kept := 0
	for i := range blocks {
		if blocks[i].last <= last {
			continue
		}
		k, err := g.liveLoad(ctx, l.tenant, &blocks[i])
		if errors.Is(err, ErrDamaged) || errors.Is(err, blob.ErrNotFound) {
			continue // gone with the seal that counts, or with its segment
		}
		if err != nil {
			return err
		}
		for j := range k.spans {
			if k.spans[j].sequence <= last || kept == EvidenceMax {
				continue
			}
			kept++
			if err := g.keep(ctx, refusal{l.tenant, l.attempt, item{k.spans[j], k.pieces[j]}, "sealed"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// retire forgets a log whose seal is recorded, unless it is being written or read for a seal:
// whoever ends that calls again. It waits for nothing. The caller holds mu.
func (g *Gateway) retire(l *live) {
	id := logID{l.tenant, l.attempt}
	if !l.over || g.lives[id] != l || len(l.flying) > 0 || l.packing {
		return
	}
	delete(g.lives, id)
	lane := g.lane(l.tenant)
	lane.litter = append(lane.litter, lane.release(l)...)
	if g.config.Era == 0 {
		lane.litter, lane.doubtful = append(lane.litter, lane.doubtful...), nil
	}
	l.wake()
	g.announce(id)
	g.tidy(lane)
	if len(lane.litter) > 0 && !lane.removing && !g.closed {
		g.begin(func() { g.remove(lane) })
	}
}

// beginSeal closes the log for new chunks and waits for those that are being written. It
// reports false when the log was sealed meanwhile, or may have been.
func (g *Gateway) beginSeal(ctx context.Context, l *live) (mine bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || !g.config.Valid() {
		return false, retryable(ErrClosed)
	}
	if g.lives[logID{l.tenant, l.attempt}] != l || l.ref != nil {
		return false, nil
	}
	if l.sealing {
		return false, g.await(ctx, l)
	}
	l.sealing = true
	for len(l.flying) > 0 && l.ref == nil {
		if err := g.await(ctx, l); err != nil {
			l.sealing = l.ref != nil
			l.wake()
			return false, err
		}
	}
	l.packing = l.ref == nil
	return l.packing, nil
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

func (g *Gateway) finishSeal(ctx context.Context, l *live, class domain.Class, end uint64) (Ref, error) {
	ref, err := g.compact(ctx, l, class, end)
	if err == nil && !g.config.Valid() {
		err = retryable(ErrNotHeld) // whoever holds the log now has its segments, and seals it
	}
	g.mu.Lock()
	l.packing = false
	switch {
	case l.ref != nil: // another holder's seal was recorded meanwhile
		ref, err = *l.ref, nil
	case err == nil:
		l.ref, l.mine = &ref, true
		g.counters.Seals++
	default:
		l.sealing = false
	}
	l.wake()
	g.retire(l)
	g.mu.Unlock()
	return ref, err
}

// compact writes the log where it stays: a short one into an object that it shares with
// others, a long one into its own. Nothing changes the log meanwhile: it is being sealed.
func (g *Gateway) compact(ctx context.Context, l *live, class domain.Class, end uint64) (Ref, error) {
	if len(l.blocks)+len(l.ahead) == 0 {
		if ref, err := g.sealedEarlier(ctx, logID{l.tenant, l.attempt}); ref != nil || err != nil {
			return *cmp.Or(ref, &Ref{}), err
		}
	}
	if l.weight() > sharedBytesMax {
		return g.compactAlone(ctx, l, class, end)
	}
	if !g.seals.Take(ctx) {
		return Ref{}, fmt.Errorf("seal log of %s: %w", l.attempt, ctx.Err())
	}
	var out bytes.Buffer
	p := newPacker(&out, g.codec, l.tenant, l.attempt, int(l.weight()))
	err := g.fill(ctx, p, l, end)
	p.close()
	g.seals.Leave()
	if err != nil {
		return Ref{}, retryable(fmt.Errorf("seal log of %s: %w", l.attempt, err))
	}
	ref := p.index.ref("", p.written, domain.DigestOf(out.Bytes()))
	return g.share(ctx, l, class, ref, out.Bytes())
}

// compactAlone streams the log into an object of its own, named by the attempt. What a seal
// that was never recorded left under that name stays as it is: its log may have gone on.
func (g *Gateway) compactAlone(ctx context.Context, l *live, class domain.Class, end uint64) (Ref, error) {
	if !g.seals.Take(ctx) {
		return Ref{}, fmt.Errorf("seal log of %s: %w", l.attempt, ctx.Err())
	}
	defer g.seals.Leave()
	lot := lotAt(l.tenant, class, g.config.Now())
	for number := 1; ; number++ {
		key := lot.aloneKey(l.attempt, number)
		switch _, err := g.store.Size(ctx, key); {
		case err == nil:
			continue
		case !errors.Is(err, blob.ErrNotFound):
			return Ref{}, retryable(fmt.Errorf("seal log of %s: %w", l.attempt, err))
		}
		var p *packer
		r := newFeed(func(w io.Writer) error {
			p = newPacker(w, g.codec, l.tenant, l.attempt, blockBytes)
			defer p.close()
			return g.fill(ctx, p, l, end)
		})
		sum := sha256.New()
		err := g.store.Put(ctx, key, io.TeeReader(r, sum), -1)
		r.close()
		switch {
		case errors.Is(err, blob.ErrExists):
		case err != nil:
			return Ref{}, retryable(fmt.Errorf("seal log of %s: %w", l.attempt, err))
		default:
			return p.index.ref(key, p.written, domain.Digest("sha256:"+hex.EncodeToString(sum.Sum(nil)))), nil
		}
	}
}

// Sealed says whether a log is closed and whole, although history does not know: it was sealed
// here a moment ago, or by an earlier release. Then nothing is waited for.
func (g *Gateway) Sealed(ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID) (bool, error) {
	if g.sealedRef(logID{tenant, attempt}) != nil {
		return true, nil
	}
	return SealedEarlier(ctx, g.store, tenant, attempt)
}

// SealedEarlier says whether an earlier release sealed a log: it gave every log an object, and
// may have died before history knew.
func SealedEarlier(
	ctx context.Context, store blob.Store, tenant domain.TenantID, attempt domain.AttemptID,
) (bool, error) {
	_, err := store.Size(ctx, earlierKey(tenant, attempt))
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, retryable(fmt.Errorf("find sealed log of %s: %w", attempt, err))
	}
	return true, nil
}

// sealedEarlier makes the reference to the object of an earlier release; nil when there is none.
func (g *Gateway) sealedEarlier(ctx context.Context, id logID) (*Ref, error) {
	there, err := SealedEarlier(ctx, g.store, id.tenant, id.attempt)
	if err != nil || !there {
		return nil, err
	}
	key := earlierKey(id.tenant, id.attempt)
	size, err := g.store.Size(ctx, key)
	if err != nil {
		return nil, retryable(fmt.Errorf("find sealed log of %s: %w", id.attempt, err))
	}
	x, err := readIndex(ctx, g.store, &Ref{Object: key, Length: size})
	if err != nil {
		return nil, retryable(err)
	}
	r, err := g.store.Open(ctx, key, 0, size)
	if err != nil {
		return nil, retryable(fmt.Errorf("read sealed log of %s: %w", id.attempt, err))
	}
	sum := sha256.New()
	_, err = io.Copy(sum, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, retryable(fmt.Errorf("read sealed log of %s: %w", id.attempt, err))
	}
	ref := x.ref(key, size, domain.Digest("sha256:"+hex.EncodeToString(sum.Sum(nil))))
	return &ref, nil
}

func (x *index) ref(key string, length int64, digest domain.Digest) Ref {
	return Ref{
		Object: key, Length: length, Digest: digest, Bytes: x.tally.offset, Lines: x.tally.lines,
		Truncated: x.tally.truncated, Gaps: x.tally.gaps,
	}
}

// fill feeds the whole log to the packer: its blocks, then what waits behind holes, with a
// mark for every hole. A block that storage has lost becomes a mark too: one broken segment
// must not take the rest of the log with it.
func (g *Gateway) fill(ctx context.Context, p *packer, l *live, end uint64) error {
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
