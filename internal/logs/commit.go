package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// commit carries out what a batch decided, then answers everybody who waits for it.
func (g *Gateway) commit(b *batch) {
	ctx, cancel := host.Within(g.ctx, g.config.Host, g.config.WriteTimeout)
	defer cancel()
	err := g.carryOut(ctx, b)
	if err == nil && !g.config.Valid() {
		// It is durable, but the next holder may have looked already and not found it.
		err = retryable(ErrNotHeld)
	}
	written := err == nil

	g.mu.Lock()
	loads, needed := b.lane.done(b, written)
	g.count(b, err)
	for _, r := range b.requests {
		g.queued -= int64(r.bytes)
	}
	if len(b.pieces) > 0 {
		switch {
		case !written:
			b.lane.doubtful = append(b.lane.doubtful, b.number)
		default:
			// Those that the segment itself calls void: whoever reads one reads the other.
			b.lane.doubtful = slices.DeleteFunc(b.lane.doubtful, func(n uint64) bool { return slices.Contains(b.void, n) })
			b.lane.litter = append(b.lane.litter, b.void...)
			if !needed {
				b.lane.litter = append(b.lane.litter, b.number)
			}
		}
	}
	for i := range loads {
		l := &loads[i]
		g.shelf.put(livePlace(b.lane.tenant, &l.block), l, l.cost())
	}
	for _, r := range b.requests {
		r.err = err
		close(r.done)
	}
	for _, l := range b.lives {
		g.retire(l)
	}
	g.pump(b.lane)
	g.tidy(b.lane)
	g.mu.Unlock()

	g.remove(b.lane)
}

func livePlace(tenant domain.TenantID, b *block) place {
	return place{segmentKey(tenant, b.segment), int64(b.record)}
}

// count keeps the sums. The caller holds mu.
func (g *Gateway) count(b *batch, err error) {
	c := &g.counters
	if err != nil {
		c.Failures++
		return
	}
	if len(b.pieces) > 0 {
		c.Segments++
	}
	c.Chunks += uint64(len(b.pieces))
	for _, p := range b.pieces {
		c.Bytes += uint64(len(p))
	}
	c.Repeats += uint64(len(b.repeats))
	for _, r := range b.refused {
		if r.reason == "conflict" {
			c.Conflicts++
		} else {
			c.Refused++
		}
	}
}

// carryOut does the batch's I/O: compare repeats, keep evidence, write the segment.
func (g *Gateway) carryOut(ctx context.Context, b *batch) error {
	if !g.writes.Take(ctx) {
		return retryable(fmt.Errorf("write log segment: %w", ctx.Err()))
	}
	defer g.writes.Leave()
	repeats := b.repeats[:0]
	for _, r := range b.repeats {
		first, err := g.spanOf(ctx, r.part.ack.Tenant, &r.block, r.item.sequence)
		if errors.Is(err, blob.ErrNotFound) {
			// Its segment was folded into another since the batch was admitted.
			g.mu.Lock()
			where := *r.part.live.find(r.item.sequence)
			g.mu.Unlock()
			first, err = g.spanOf(ctx, r.part.ack.Tenant, &where, r.item.sequence)
		}
		if err != nil {
			return retryable(fmt.Errorf("compare chunk %d of %s: %w", r.item.sequence, r.part.ack.Attempt, err))
		}
		if first.checksum != r.item.checksum {
			b.conflict(r.part, r.item)
			continue
		}
		repeats = append(repeats, r)
	}
	b.repeats = repeats
	for _, r := range b.refused {
		if err := g.keep(ctx, r); err != nil {
			return err
		}
	}
	if len(b.pieces) == 0 {
		return nil
	}
	return g.write(ctx, b)
}

// spanOf finds the span of a sequence in a live block.
func (g *Gateway) spanOf(ctx context.Context, tenant domain.TenantID, b *block, sequence uint64) (*span, error) {
	spans, err := g.liveSpans(ctx, tenant, b)
	if err != nil {
		return nil, err
	}
	return &spans[sequence-b.first], nil
}

// write stores the segment. A number that is taken was left by a write whose reply was lost,
// or by another process: the next one is used.
func (g *Gateway) write(ctx context.Context, b *batch) error {
	if g.config.Era > 0 {
		b.contents.void = b.void
	}
	parts := encodeSegment(&b.contents, b.pieces)
	for {
		stream := &gather{pieces: append([][]byte(nil), parts...)}
		size := stream.size()
		key := segmentKey(b.lane.tenant, b.number)
		start := g.config.Host.Elapsed()
		err := g.store.Put(ctx, key, stream, size)
		if g.config.Wrote != nil {
			g.config.Wrote(Write{b.lane.tenant, size, len(b.pieces), g.config.Host.Elapsed() - start, err})
		}
		if !errors.Is(err, blob.ErrExists) {
			if err != nil {
				return retryable(fmt.Errorf("write log segment: %w", err))
			}
			return nil
		}
		g.mu.Lock()
		b.number = b.lane.number
		b.lane.number++
		g.mu.Unlock()
	}
}

// remove deletes the lane's litter. What can't be deleted now is tried again after the next
// write or found at the next start. A holder that may have lost the logs deletes nothing:
// validity is asked after what makes a segment needless became durable, so the next holder
// has seen it.
func (g *Gateway) remove(l *lane) {
	g.mu.Lock()
	if l.removing {
		g.mu.Unlock()
		return // whoever is at it sees what came meanwhile
	}
	l.removing = true
	g.mu.Unlock()
	tried, gone := map[uint64]bool{}, map[uint64]bool{}
	for {
		numbers := g.litter(l, tried, gone)
		if len(numbers) == 0 {
			return
		}
		for _, n := range numbers {
			tried[n] = true
			if !g.config.Valid() {
				continue
			}
			ctx, cancel := host.Within(g.ctx, g.config.Host, g.config.WriteTimeout)
			gone[n] = g.store.Delete(ctx, segmentKey(l.tenant, n)) == nil
			cancel()
		}
	}
}

// litter strikes out what is gone and gives what was not tried yet; nothing ends the removal.
func (g *Gateway) litter(l *lane, tried, gone map[uint64]bool) []uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.litter = slices.DeleteFunc(l.litter, func(n uint64) bool { return gone[n] })
	numbers := slices.DeleteFunc(slices.Clone(l.litter), func(n uint64) bool { return tried[n] })
	if len(numbers) == 0 {
		l.removing = false
		if len(tried) > 0 {
			g.tidy(l)
		}
	}
	return numbers
}
