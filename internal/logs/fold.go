package logs

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// Folding makes one segment of many that hold little. Without it a quiet attempt that runs
// for hours would keep every segment that a busy server wrote meanwhile, for the sake of one
// line in each. The copy is written first, then the index changes, then the old segments go:
// a crash in between leaves repeats, which are dropped at start like all others.

// foldable chooses segments to fold, oldest first, or none while there are too few.
func (l *lane) foldable() []uint64 {
	// A write in doubt must not come to stand before the copy of what it contradicts.
	// Nor may a segment go that says of another, not deleted yet, that it is void.
	if l.folding || len(l.doubtful)+len(l.litter) > 0 {
		return nil
	}
	var small, medium []uint64
	for number, h := range l.segments {
		switch {
		case h.stuck:
		case h.bytes < foldSmall:
			small = append(small, number)
		case h.bytes < foldMedium:
			medium = append(medium, number)
		}
	}
	for _, some := range [][]uint64{small, medium} {
		if len(some) < l.foldAt {
			continue
		}
		slices.Sort(some)
		total := int64(0)
		for i, number := range some[:l.foldAt] {
			if total += l.segments[number].bytes; total > segmentBytes {
				return some[:i]
			}
		}
		return some[:l.foldAt]
	}
	return nil
}

// folded is a log's share of a fold.
type folded struct {
	log    *live
	blocks []block
	first  int // record of its first span in the new segment
}

// shares finds what the logs of a lane have in the segments. The caller holds mu.
func (g *Gateway) shares(l *lane, numbers []uint64) []folded {
	var all []folded
	for _, log := range g.lives {
		if log.tenant != l.tenant || log.sealing {
			continue
		}
		f := folded{log: log}
		for _, b := range log.blocks {
			if slices.Contains(numbers, b.segment) {
				f.blocks = append(f.blocks, b)
			}
		}
		for _, d := range log.waiting() {
			if slices.Contains(numbers, d.segment) {
				f.blocks = append(f.blocks, d.block())
			}
		}
		if len(f.blocks) > 0 {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b folded) int { return cmp.Compare(a.log.attempt, b.log.attempt) })
	return all
}

// block is a span that waits behind a hole, as a block of its own.
func (d *located) block() block {
	return block{
		at: cursor{step: d.step}, first: d.sequence, last: d.sequence, length: int64(d.length), time: d.at,
		segment: d.segment, record: d.record, records: 1, data: d.data,
	}
}

// fold copies what is needed of the segments into a new one, then lets them go. What fails
// is tried again after a later write.
func (g *Gateway) fold(l *lane, numbers []uint64) {
	ctx, cancel := host.Within(g.ctx, g.config.Host, g.config.WriteTimeout)
	defer cancel()
	g.mu.Lock()
	all := g.shares(l, numbers)
	b := &batch{lane: l, number: l.number, contents: contents{tenant: l.tenant}}
	l.number++
	g.mu.Unlock()

	err := g.copyShares(ctx, b, all)
	if err == nil && len(b.pieces) > 0 {
		if g.config.Era > 0 {
			b.contents.folded = numbers
		}
		if g.writes.Take(ctx) {
			err = g.write(ctx, b)
			g.writes.Leave()
		} else {
			err = ctx.Err()
		}
		if err == nil && !g.config.Valid() {
			err = ErrNotHeld
		}
	}
	g.mu.Lock()
	l.folding = false
	switch {
	case len(b.pieces) == 0:
	case err != nil:
		l.doubtful = append(l.doubtful, b.number)
	default:
		g.counters.Folds++
		l.litter = append(l.litter, g.moveShares(b, all, numbers)...)
		g.tidy(l)
	}
	g.mu.Unlock()
	g.remove(l)
}

// copyShares reads what the logs have in the segments.
func (g *Gateway) copyShares(ctx context.Context, b *batch, all []folded) error {
	for i := range all {
		f := &all[i]
		f.first = len(b.pieces)
		b.contents.attempts = append(b.contents.attempts, f.log.attempt)
		for _, k := range f.blocks {
			content, err := g.liveLoad(ctx, f.log.tenant, &k)
			if errors.Is(err, ErrDamaged) || errors.Is(err, blob.ErrNotFound) {
				g.mu.Lock()
				if h := b.lane.segments[k.segment]; h != nil {
					h.stuck = true
				}
				g.mu.Unlock()
			}
			if err != nil {
				b.pieces = nil
				return err
			}
			for j := range content.spans {
				b.contents.records = append(b.contents.records, record{span: content.spans[j], attempt: i})
				b.pieces = append(b.pieces, content.pieces[j])
			}
		}
	}
	return nil
}

// moveShares points the logs at the new segment and gives the segments that nobody needs.
// A log that is being sealed keeps the old ones: its blocks are being read. The caller holds mu.
func (g *Gateway) moveShares(b *batch, all []folded, numbers []uint64) (free []uint64) {
	l := b.lane
	for _, f := range all {
		log := f.log
		if log.sealing || g.lives[logID{log.tenant, log.attempt}] != log {
			continue
		}
		at := map[uint64]int{}
		record := f.first
		for _, k := range f.blocks {
			at[k.first] = record
			record += k.records
		}
		moved := log.relocate(numbers, b, at)
		for _, number := range numbers {
			if log.segments[number] == 0 {
				continue
			}
			if l.disclaim(number, log) {
				free = append(free, number)
			}
			delete(log.segments, number)
		}
		log.segments[b.number] = moved
		l.claim(b.number, log)
	}
	if l.segments[b.number] == nil {
		free = append(free, b.number)
	}
	return free
}

// relocate makes the log's blocks of those segments blocks of the batch's. at gives the
// record where the block with that first sequence begins. Readers keep the list they have.
func (l *live) relocate(numbers []uint64, b *batch, at map[uint64]int) (moved int64) {
	blocks := make([]block, 0, len(l.blocks))
	for _, k := range l.blocks {
		if slices.Contains(numbers, k.segment) {
			moved += k.length + 64*int64(k.records)
			k.record = at[k.first]
			k.segment, k.data = b.number, b.contents.records[k.record].data
			if n := len(blocks); n > 0 && blocks[n-1].join(&k) {
				continue
			}
		}
		blocks = append(blocks, k)
	}
	l.blocks, l.settled = blocks, len(blocks)
	for sequence, d := range l.ahead {
		if slices.Contains(numbers, d.segment) {
			moved += d.cost()
			d.record = at[sequence]
			d.segment, d.data = b.number, b.contents.records[d.record].data
			l.ahead[sequence] = d
		}
	}
	return moved
}
