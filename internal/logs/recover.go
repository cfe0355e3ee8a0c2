package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// recoverPage is how many segments are read before they are taken in.
const recoverPage = 256

// recover rebuilds the index of live logs from the segments' tables of contents. It runs
// before the gateway is used, so it takes no lock.
func (g *Gateway) recover(ctx context.Context) error {
	entries, err := g.beginEra(ctx)
	if err != nil {
		return err
	}
	tables := make([]*contents, 0, len(entries))
	for page := range slices.Chunk(entries, recoverPage) {
		read, err := g.readTables(ctx, page)
		if err != nil {
			return err
		}
		tables = append(tables, read...)
	}
	old := superseded(entries, tables)
	var repeats []recovered
	for i, e := range entries {
		more, err := g.takeSegment(ctx, e.Key, old.rest(e.Key, tables[i]))
		if err != nil {
			return err
		}
		repeats = append(repeats, more...)
	}
	for _, l := range g.lives {
		l.recovered()
	}
	if err := g.findEarlier(ctx); err != nil {
		return err
	}
	if err := g.compareRecovered(ctx, repeats); err != nil {
		return err
	}
	return g.removeRepeated(ctx, repeats)
}

// readTables reads many tables of contents at once. A damaged one is nil and set aside.
func (g *Gateway) readTables(ctx context.Context, entries []blob.Entry) ([]*contents, error) {
	tables := make([]*contents, len(entries))
	err := host.Each(ctx, g.config.Host, len(entries), openReads, func(ctx context.Context, i int) error {
		c, err := readContents(ctx, g.store, entries[i].Key, entries[i].Size)
		switch {
		case errors.Is(err, ErrDamaged):
			g.mu.Lock()
			g.damaged = append(g.damaged, err)
			g.counters.Damaged++
			g.mu.Unlock()
			return nil
		case errors.Is(err, blob.ErrNotFound):
			return nil
		}
		tables[i] = c
		return err
	})
	return tables, err
}

// recovered is a span that stands in two segments.
type recovered struct {
	id       logID
	key      string
	record   record
	conflict bool // known already; otherwise the checksums have to be compared
}

func (g *Gateway) takeSegment(ctx context.Context, key string, c *contents) (repeats []recovered, err error) {
	tenant, number, ok := parseSegmentKey(key)
	if !ok {
		g.damaged = append(g.damaged, &Damage{Object: key, Why: "no name of a segment"})
		return nil, nil
	}
	lane := g.lane(tenant)
	lane.number = max(lane.number, number+1)
	if c == nil {
		return nil, nil
	}
	if c.tenant != tenant {
		g.damaged = append(g.damaged, &Damage{Object: key, Why: "belongs to tenant " + string(c.tenant)})
		return nil, nil
	}
	for i := range c.records {
		r := &c.records[i]
		id := logID{tenant, c.attempts[r.attempt]}
		if c.skip != nil && c.skip(id.attempt) {
			continue
		}
		l := g.lives[id]
		if l == nil {
			l = g.newLive(id)
			l.recovering = true
		}
		switch v, _ := l.judge(&r.span, r.sequence); v {
		case fresh:
			l.take(located{span: r.span, segment: number, record: i, data: r.data})
		case repeated, conflicting:
			repeats = append(repeats, recovered{id, key, *r, v == conflicting})
		}
	}
	for _, attempt := range c.attempts {
		if l := g.lives[logID{tenant, attempt}]; l != nil {
			lane.claim(number, l)
		}
	}
	if lane.segments[number] == nil && len(repeats) == 0 {
		// It was superseded: the crash came before it was deleted.
		if err := g.discard(ctx, key); err != nil {
			return nil, err
		}
	}
	return repeats, nil
}

// findEarlier finds the logs that an earlier release sealed, and of which there are segments all
// the same: it removed only those that no other log needed. Their objects have everything.
func (g *Gateway) findEarlier(ctx context.Context) error {
	ids := slices.SortedFunc(maps.Keys(g.lives), func(a, b logID) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.attempt, b.attempt))
	})
	return host.Each(ctx, g.config.Host, len(ids), openReads, func(ctx context.Context, i int) error {
		ref, err := g.sealedEarlier(ctx, ids[i])
		g.mu.Lock()
		defer g.mu.Unlock()
		if errors.Is(err, ErrDamaged) { // then the segments have what there is
			g.damaged = append(g.damaged, err)
			g.counters.Damaged++
			return nil
		}
		if err != nil || ref == nil {
			return err
		}
		l := g.lives[ids[i]]
		l.ref, l.sealing, l.mine = ref, true, true
		return nil
	})
}

// compareRecovered keeps as evidence what stands in a later segment with other bytes. Such a
// pair is left when a write failed for its caller but happened all the same.
func (g *Gateway) compareRecovered(ctx context.Context, repeats []recovered) error {
	for _, r := range repeats {
		if !r.conflict {
			l := g.lives[r.id]
			b := l.find(r.record.sequence)
			if b == nil {
				continue
			}
			first, err := g.spanOf(ctx, r.id.tenant, b, r.record.sequence)
			if errors.Is(err, ErrDamaged) {
				continue // reading the log will tell
			}
			if err != nil {
				return err
			}
			if first.checksum == r.record.checksum {
				continue
			}
		}
		text, err := readRange(ctx, g.store, r.key, r.record.data, int64(r.record.length))
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		it := item{span: r.record.span, content: text}
		if err := g.keep(ctx, refusal{r.id.tenant, r.id.attempt, it, "conflict"}); err != nil {
			return err
		}
		g.counters.Conflicts++
	}
	return nil
}

// removeRepeated deletes segments that hold nothing but what others hold too: the copy of a
// fold that did not come to its end.
func (g *Gateway) removeRepeated(ctx context.Context, repeats []recovered) error {
	for _, r := range repeats {
		_, number, _ := parseSegmentKey(r.key)
		if g.lane(r.id.tenant).segments[number] != nil {
			continue
		}
		if err := g.discard(ctx, r.key); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes a segment that nothing needs, unless this holder may have lost the logs.
func (g *Gateway) discard(ctx context.Context, key string) error {
	if !g.config.Valid() {
		return nil
	}
	return g.store.Delete(ctx, key)
}

// parseSegmentKey is the reverse of segmentKey.
func parseSegmentKey(key string) (domain.TenantID, uint64, bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 || len(parts[2]) != 16 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(parts[2], 16, 64)
	tenant := domain.TenantID(parts[1])
	return tenant, number, err == nil && segmentKey(tenant, number) == key
}

// table gives the table of contents of a segment.
func (g *Gateway) table(ctx context.Context, key string) (*contents, error) {
	at := place{key, partIndex}
	if c, ok := g.shelf.take(at); ok {
		return c.(*contents), nil
	}
	size, err := g.store.Size(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read log segment %s: %w", key, err)
	}
	c, err := readContents(ctx, g.store, key, size)
	if err != nil {
		return nil, err
	}
	g.shelf.put(at, c, int64(len(c.records))*160+256)
	return c, nil
}

// shelved finds a block of a live log on the shelf. What lies at its place may be shorter: a
// span that was behind a hole, read alone, before the hole was filled and it became a block
// together with others. Where it stands in the log is the asker's knowledge, too.
func (g *Gateway) shelved(tenant domain.TenantID, b *block) *loaded {
	l, ok := g.shelf.take(livePlace(tenant, b))
	if !ok || len(l.(*loaded).spans) != b.records {
		return nil
	}
	return &loaded{block: *b, spans: l.(*loaded).spans, pieces: l.(*loaded).pieces}
}

// liveSpans gives the spans of a block of a live log.
func (g *Gateway) liveSpans(ctx context.Context, tenant domain.TenantID, b *block) ([]span, error) {
	if l := g.shelved(tenant, b); l != nil {
		return l.spans, nil
	}
	key := segmentKey(tenant, b.segment)
	c, err := g.table(ctx, key)
	if err != nil {
		return nil, err
	}
	if b.record+b.records > len(c.records) || c.records[b.record].data != b.data {
		return nil, &Damage{Object: key, Why: "the table of contents has changed"}
	}
	spans := make([]span, b.records)
	for i := range spans {
		spans[i] = c.records[b.record+i].span
	}
	return spans, nil
}

// liveLoad reads a block of a live log, from the shelf or from its segment.
func (g *Gateway) liveLoad(ctx context.Context, tenant domain.TenantID, b *block) (*loaded, error) {
	if l := g.shelved(tenant, b); l != nil {
		return l, nil
	}
	at := livePlace(tenant, b)
	spans, err := g.liveSpans(ctx, tenant, b)
	if err != nil {
		return nil, err
	}
	text, err := readRange(ctx, g.store, at.object, b.data, b.length)
	if err != nil {
		return nil, err
	}
	l := &loaded{block: *b, spans: spans}
	offset := 0
	for i := range spans {
		end := offset + int(spans[i].length)
		if end > len(text) || domain.Checksum(text[offset:end]) != spans[i].checksum {
			return nil, &Damage{Object: at.object, Offset: b.data + int64(offset), Why: "a chunk has another checksum"}
		}
		l.pieces = append(l.pieces, text[offset:end:end])
		offset = end
	}
	g.shelf.put(at, l, l.cost())
	return l, nil
}
