package logs

import (
	"cmp"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// block is a piece of a log that is read as a whole: some spans of one segment while the log
// is live, one frame once it is sealed. A log is a list of blocks, and that list is all that
// is held of it.
type block struct {
	at          cursor // where the log stands before the block
	first, last uint64 // sequences
	length      int64  // bytes
	time        int64  // of the first span

	segment uint64 // live: number of the segment,
	record  int    // index of the first record in it,
	records int    // how many,
	data    int64  // and where their bytes begin

	place  int64  // sealed: offset in the object of the detail, with the frame right behind
	detail uint32 // length of the detail,
	packed uint32 // length of the frame,
	sum    uint32 // and CRC-32C of both
}

// located is a span that is durable, and where.
type located struct {
	span
	segment uint64
	record  int
	data    int64
}

// cost is about what the span takes in a segment.
func (d *located) cost() int64 { return int64(d.length) + 64 }

// live is the index of a log that still grows. It is a step function: no lock, no I/O.
type live struct {
	tenant  domain.TenantID
	attempt domain.AttemptID
	through uint64 // everything up to here is in blocks, or marked as missing
	tally   tally
	blocks  []block // append only: readers hold older lengths of the same list
	// settled is how many blocks readers may have seen; only later ones may still grow.
	settled int
	ahead   map[uint64]located // durable, but behind a hole
	// segments are those that hold spans of the log, with about how many bytes.
	segments map[uint64]int64
	// flying are the sequences that are being written, flyingTop the highest of them.
	flying    map[uint64]bool
	flyingTop uint64
	sealing   bool
	packing   bool // it is being read for a seal
	// ref is set once the log is sealed; it stays, with its segments, until that is recorded.
	ref  *Ref
	mine bool // that seal was made here, of this index
	// yielding: somebody else's seal counts, and what is not in it is being kept as evidence.
	yielding bool
	// over: the seal is recorded, and only what is under way keeps the index.
	over bool
	// recovering: spans come in the order of segments, which folding has changed. Gap marks
	// wait until everything is there.
	recovering bool
	changed    chan struct{} // closed when the log changes; nil while nobody waits
}

func newLive(tenant domain.TenantID, attempt domain.AttemptID) *live {
	return &live{
		tenant: tenant, attempt: attempt, ahead: map[uint64]located{}, segments: map[uint64]int64{},
		flying: map[uint64]bool{},
	}
}

// verdict says what to do with a chunk that arrives.
type verdict uint8

const (
	fresh    verdict = iota
	repeated         // dropped; the checksum of the block's span must be compared
	same             // dropped: the same chunk waits behind a hole
	conflicting
	late    // stands in a marked gap
	tooFar  // refused with ErrAhead
	inWrite // wait until the write that has this sequence ends
)

// waits is true of a chunk that must not be decided about before the writes under way have
// ended: its sequence is among them, or it is a gap mark and would pass over them.
func (l *live) waits(s *span) bool {
	return l.flying[s.sequence] || gapMark(s.mark) && len(l.flying) > 0
}

// judge decides about a chunk. base is the highest sequence that the chunks before it in the
// same request lead up to.
func (l *live) judge(s *span, base uint64) (verdict, *block) {
	if l.flying[s.sequence] {
		return inWrite, nil
	}
	if s.sequence <= l.through {
		if b := l.find(s.sequence); b != nil {
			return repeated, b
		}
		return late, nil
	}
	if a, ok := l.ahead[s.sequence]; ok {
		if a.checksum == s.checksum {
			return same, nil
		}
		return conflicting, nil
	}
	if !gapMark(s.mark) && !l.recovering {
		if s.sequence > max(base, l.through, l.flyingTop)+aheadMax || len(l.ahead) > 2*aheadMax {
			return tooFar, nil
		}
	}
	return fresh, nil
}

// find is the block with that sequence, nil when it lies in a gap.
func (l *live) find(sequence uint64) *block {
	i, ok := slices.BinarySearchFunc(l.blocks, sequence, func(b block, want uint64) int {
		switch {
		case b.last < want:
			return -1
		case b.first > want:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &l.blocks[i]
}

// weight is how many bytes of log there are, with what waits behind holes.
func (l *live) weight() int64 {
	n := l.tally.offset
	for _, d := range l.ahead {
		n += int64(d.length)
	}
	return n
}

// take adds a durable span. It reports whether the log now depends on it.
func (l *live) take(d located) bool {
	if _, waiting := l.ahead[d.sequence]; waiting || d.sequence <= l.through {
		return false
	}
	l.segments[d.segment] += d.cost()
	if gapMark(d.mark) && !l.recovering {
		l.passOver(d.sequence)
	}
	if d.sequence > l.through+1 {
		l.ahead[d.sequence] = d
		return true
	}
	l.extend(d)
	l.drain()
	return true
}

// drain takes what waits for as long as there is no hole.
func (l *live) drain() {
	for len(l.ahead) > 0 {
		next, ok := l.ahead[l.through+1]
		if !ok {
			return
		}
		delete(l.ahead, next.sequence)
		l.extend(next)
	}
}

// recovered ends recovery: now that everything is there, the gap marks count.
func (l *live) recovered() {
	l.recovering = false
	for _, d := range l.waiting() {
		if _, waits := l.ahead[d.sequence]; waits && gapMark(d.mark) {
			delete(l.ahead, d.sequence)
			l.passOver(d.sequence)
			l.extend(d)
			l.drain()
		}
	}
	l.settle()
}

// passOver takes what waits below the sequence, holes and all: they are declared missing.
func (l *live) passOver(sequence uint64) {
	for _, d := range l.waiting() {
		if d.sequence < sequence {
			delete(l.ahead, d.sequence)
			l.extend(d)
		}
	}
	l.through = max(l.through, sequence-1)
}

// waiting gives what is behind a hole, in order.
func (l *live) waiting() []located {
	all := make([]located, 0, len(l.ahead))
	for _, d := range l.ahead {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b located) int { return cmp.Compare(a.sequence, b.sequence) })
	return all
}

// extend adds the next span to the last block, or begins one.
func (l *live) extend(d located) {
	b := block{
		at: l.tally.cursor, first: d.sequence, last: d.sequence, length: int64(d.length), time: d.at,
		segment: d.segment, record: d.record, records: 1, data: d.data,
	}
	if n := len(l.blocks); n == l.settled || !l.blocks[n-1].join(&b) {
		l.blocks = append(l.blocks, b)
	}
	l.tally.advance(&d.span)
	l.through = d.sequence
}

// join makes the block go on with the next one, if both lie side by side and are not too
// much for one.
func (b *block) join(next *block) bool {
	if b.segment != next.segment || b.record+b.records != next.record || b.last+1 != next.first ||
		b.length+next.length > blockBytes || b.records+next.records > blockSpansMax {
		return false
	}
	b.records += next.records
	b.last, b.length = next.last, b.length+next.length
	return true
}

// settle ends a series of takes: what was added may be read from now on.
func (l *live) settle() {
	l.settled = len(l.blocks)
	l.wake()
}

// wake tells everybody who waits for a change.
func (l *live) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// watch gives a channel that the next change closes.
func (l *live) watch() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

func (l *live) launch(sequence uint64) {
	l.flying[sequence] = true
	l.flyingTop = max(l.flyingTop, sequence)
}

func (l *live) land(sequence uint64) {
	delete(l.flying, sequence)
	if len(l.flying) == 0 {
		l.flyingTop = 0
		l.wake() // a seal may wait for it
	}
}
