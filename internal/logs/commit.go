package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// commit carries out what a batch decided, then answers everybody who waits for it.
func (g *Gateway) commit(b *batch) {
	ctx, cancel := context.WithTimeout(g.ctx, g.config.WriteTimeout)
	defer cancel()
	err := g.carryOut(ctx, b)
	written := err == nil

	g.mu.Lock()
	loads, needed := b.lane.done(b, written)
	g.count(b, err)
	for _, r := range b.requests {
		g.queued -= int64(r.bytes)
	}
	var unneeded []uint64
	if len(b.pieces) > 0 {
		switch {
		case !written:
			b.lane.doubtful = append(b.lane.doubtful, b.number)
		default:
			unneeded, b.lane.doubtful = b.lane.doubtful, nil
			if !needed {
				unneeded = append(unneeded, b.number)
			}
		}
	}
	for i := range loads {
		l := &loads[i]
		g.shelf.put(livePlace(b.lane.tenant, &l.block), l, l.cost())
	}
	for _, r := range b.requests {
		r.done <- err
	}
	g.pump(b.lane)
	g.tidy(b.lane)
	g.mu.Unlock()

	g.remove(b.lane, unneeded)
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
	select {
	case g.writes <- struct{}{}:
		defer func() { <-g.writes }()
	case <-ctx.Done():
		return retryable(fmt.Errorf("write log segment: %w", ctx.Err()))
	}
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
	parts := encodeSegment(&b.contents, b.pieces)
	for {
		stream := &gather{pieces: append([][]byte(nil), parts...)}
		size := stream.size()
		key := segmentKey(b.lane.tenant, b.number)
		start := time.Now()
		err := g.store.Put(ctx, key, stream, size)
		if g.config.Wrote != nil {
			g.config.Wrote(Write{b.lane.tenant, size, len(b.pieces), time.Since(start), err})
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

// remove deletes segments that nothing needs. What can't be deleted now is found at the next
// write or the next start.
func (g *Gateway) remove(l *lane, numbers []uint64) {
	var left []uint64
	for _, n := range numbers {
		ctx, cancel := context.WithTimeout(g.ctx, g.config.WriteTimeout)
		if err := g.store.Delete(ctx, segmentKey(l.tenant, n)); err != nil {
			left = append(left, n)
		}
		cancel()
	}
	if left != nil {
		g.mu.Lock()
		l.doubtful = append(l.doubtful, left...)
		g.mu.Unlock()
	}
}
