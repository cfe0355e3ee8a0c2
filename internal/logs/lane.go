package logs

import (
	"cmp"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// item is one chunk on its way in.
type item struct {
	span
	content []byte
}

// part is what one request brings for one attempt, in order of sequence.
type part struct {
	live      *live
	items     []item
	conflicts []item // contradict another item of the same request
	ended     bool   // the attempt has an outcome
	ack       Ack
}

// request is what one caller of Append waits for, for one tenant.
type request struct {
	parts []*part
	bytes int
	done  chan struct{} // closed when err says what became of it
	err   error
}

// lane collects the chunks of one tenant into segments. It is a step function: submit and
// done are its inputs, the batches that next gives its effects. While one batch is being
// written, and for a moment after it began, the next collects; a second is written beside it
// only when it is full, so a lone chunk on an idle gateway goes out at once and many small ones
// share a write.
type lane struct {
	tenant   domain.TenantID
	queue    []*request
	queued   int // bytes
	writing  int
	resting  bool             // a write began a moment ago
	number   uint64           // of the next segment
	segments map[uint64]*held // that live logs need
	doubtful []uint64         // segments whose write failed and that may be there all the same
	litter   []uint64         // segments that nobody needs and that could not be deleted yet
	removing bool
	folding  bool
	foldAt   int // how many segments make a fold worth while
}

// held is what a lane knows of a segment.
type held struct {
	logs  int   // live logs that need it
	bytes int64 // what they need of it, about
	stuck bool  // can't be folded: damaged
}

// batch is what one write makes durable, and everything that is decided at the same time.
type batch struct {
	lane     *lane
	number   uint64
	requests []*request
	lives    []*live // by the records' attempt index
	contents contents
	pieces   [][]byte
	repeats  []repeat
	refused  []refusal
	void     []uint64 // segments in doubt that count for nothing once this one is there
}

// repeat is a chunk whose sequence is in a block already.
type repeat struct {
	part  *part
	item  item
	block block
}

// refusal is a chunk that is kept as evidence.
type refusal struct {
	tenant  domain.TenantID
	attempt domain.AttemptID
	item    item
	reason  string
}

func (l *lane) submit(r *request) {
	l.queue = append(l.queue, r)
	l.queued += r.bytes
}

// next gives the batch to write now, or nil.
func (l *lane) next() *batch {
	if len(l.queue) == 0 || l.writing > 1 || l.writing == 1 && l.queued < segmentBytes ||
		l.resting && l.queued < restBytes {
		return nil
	}
	b := &batch{lane: l, number: l.number, contents: contents{tenant: l.tenant}}
	b.void = slices.Clone(l.doubtful)
	size := 0
	for len(l.queue) > 0 && size < segmentBytes {
		r := l.queue[0]
		if !b.admit(r) {
			break
		}
		size += r.bytes
		l.queued -= r.bytes
		l.queue[0] = nil
		l.queue = l.queue[1:]
	}
	if len(b.requests) == 0 {
		return nil
	}
	b.arrange()
	if len(b.pieces) > 0 {
		l.number++
	}
	l.writing++
	return b
}

// admit decides about every chunk of a request. It reports false, and has changed nothing,
// when one of them has to wait for a write: whether it is a repeat shows afterwards.
func (b *batch) admit(r *request) bool {
	for _, p := range r.parts {
		for i := range p.items {
			if p.live.waits(&p.items[i].span) {
				return false
			}
		}
	}
	b.requests = append(b.requests, r)
	for _, p := range r.parts {
		b.admitPart(p)
	}
	return true
}

func (b *batch) admitPart(p *part) {
	if p.live.sealing {
		// Not ErrSealed: the seal may fail, and then the chunk is welcome.
		p.ack.Refused = &Busy{After: busyFor}
		return
	}
	for _, c := range p.conflicts {
		b.conflict(p, c)
	}
	base := uint64(0)
	for _, it := range p.items {
		switch v, where := p.live.judge(&it.span, base); v {
		case repeated:
			b.repeats = append(b.repeats, repeat{part: p, item: it, block: *where})
		case conflicting:
			b.conflict(p, it)
		case late:
			b.refuse(p, it, "late")
		case tooFar:
			p.ack.Refused = ErrAhead
		case fresh:
			base = it.sequence
			b.add(p.live, it)
		case same, inWrite: // inWrite was ruled out by admit
		}
	}
}

func (b *batch) conflict(p *part, it item) {
	p.ack.Conflicts++
	b.refuse(p, it, "conflict")
}

func (b *batch) refuse(p *part, it item, reason string) {
	b.refused = append(b.refused, refusal{p.live.tenant, p.live.attempt, it, reason})
}

func (b *batch) add(l *live, it item) {
	i := slices.Index(b.lives, l)
	if i < 0 {
		i = len(b.lives)
		b.lives = append(b.lives, l)
		b.contents.attempts = append(b.contents.attempts, l.attempt)
	}
	l.launch(it.sequence)
	b.contents.records = append(b.contents.records, record{span: it.span, attempt: i})
	b.pieces = append(b.pieces, it.content)
}

// arrange puts what belongs to one attempt side by side, so that a reader of one log finds
// one range in the segment.
func (b *batch) arrange() {
	order := make([]int, len(b.pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := &b.contents.records[i], &b.contents.records[j]
		return cmp.Or(cmp.Compare(x.attempt, y.attempt), cmp.Compare(x.sequence, y.sequence))
	})
	records, pieces := make([]record, len(order)), make([][]byte, len(order))
	for at, i := range order {
		records[at], pieces[at] = b.contents.records[i], b.pieces[i]
	}
	b.contents.records, b.pieces = records, pieces
}

// done ends a batch. Of a written one the logs take their spans; fresh blocks are given back
// with the pieces that fill them. needed says whether any log depends on the segment.
func (l *lane) done(b *batch, written bool) (loads []loaded, needed bool) {
	l.writing--
	for _, r := range b.contents.records {
		b.lives[r.attempt].land(r.sequence)
	}
	if written && len(b.pieces) > 0 {
		for i := range b.contents.records {
			r := &b.contents.records[i]
			b.lives[r.attempt].take(located{span: r.span, segment: b.number, record: i, data: r.data})
		}
		for _, log := range b.lives {
			loads = append(loads, b.load(log)...)
			log.settle()
			l.claim(b.number, log)
		}
	}
	for _, r := range b.requests {
		for _, p := range r.parts {
			p.ack.Through = p.live.through
		}
	}
	return loads, l.segments[b.number] != nil
}

// load pairs the new blocks of a log with the pieces in hand, so that a reader that follows
// needs no storage.
func (b *batch) load(log *live) []loaded {
	var loads []loaded
	for _, k := range log.blocks[log.settled:] {
		if k.segment != b.number {
			continue
		}
		at := loaded{block: k, pieces: b.pieces[k.record : k.record+k.records]}
		for i := range at.pieces {
			at.spans = append(at.spans, b.contents.records[k.record+i].span)
		}
		loads = append(loads, at)
	}
	return loads
}

// claim counts that the log needs a segment, if it does.
func (l *lane) claim(number uint64, log *live) {
	n := log.segments[number]
	if n == 0 {
		return
	}
	h := l.segments[number]
	if h == nil {
		h = &held{}
		l.segments[number] = h
	}
	h.logs++
	h.bytes += n
}

// disclaim takes the claim back. It reports whether nobody needs the segment any more.
func (l *lane) disclaim(number uint64, log *live) (free bool) {
	h := l.segments[number]
	h.logs--
	h.bytes -= log.segments[number]
	if h.logs > 0 {
		return false
	}
	delete(l.segments, number)
	return true
}

// release takes a sealed log's claims back and gives the segments that nobody needs.
func (l *lane) release(log *live) (free []uint64) {
	for number := range log.segments {
		if l.disclaim(number, log) {
			free = append(free, number)
		}
	}
	slices.Sort(free)
	return free
}

// loaded is a block with its bytes.
type loaded struct {
	block  block
	spans  []span
	pieces [][]byte // one per span
}

// cost is about how much memory it takes.
func (k *loaded) cost() int64 { return k.block.length + int64(len(k.spans))*160 + 256 }
