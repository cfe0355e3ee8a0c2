package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Servers that share a store of objects take turns at holding the logs. A store of objects
// fences nobody: a holder that was stopped in the middle of a write finishes it when it wakes,
// long after another has taken over. Four rules make that harmless:
//
//   - The number of a segment begins with its holder's era, so no two holders meet in a name.
//   - Whoever opens an era first writes down which segments there were. A segment of an
//     earlier era that is not on that list came too late: nobody was told that it is durable
//     (a holder asks whether it is still valid after the write, before the answer).
//   - A segment that replaces others says so itself, and readers prefer it. So a holder that
//     wakes and deletes what it had replaced takes nothing away.
//   - Nothing is deleted unless the holder was valid after that replacement was durable, so
//     the next one has seen the replacement.

// ErrNotHeld: another server holds the logs, or none does at the moment.
var ErrNotHeld = errors.New("the logs are held by another server")

// eraShift puts the era above the numbers of its segments: four thousand million of each.
const eraShift = 32

// firstOf is the first number of an era; without eras numbers begin at 1.
func firstOf(era uint64) uint64 { return era<<eraShift + 1 }

// eraOf is the era that a segment was written in.
func eraOf(number uint64) uint64 { return number >> eraShift }

const eraPrefix = "segment-eras/"

func eraKey(era uint64) string { return fmt.Sprintf("%s%016x", eraPrefix, era) }

// eraRecord says which segments there were when an era began.
type eraRecord struct {
	Era      uint64   `json:"era"`
	Segments []string `json:"segments"`
}

// eraBytesMax bounds a record that a damaged store could make us read.
const eraBytesMax = 64 << 20

// beginEra lists the segments that count, and opens this holder's era over them. Without
// eras it only lists. A holder that failed to open its era before may find it opened: by a
// write whose reply was lost. Then what was written down counts.
func (g *Gateway) beginEra(ctx context.Context) ([]blob.Entry, error) {
	var last *eraRecord
	var records []string
	if g.config.Era > 0 {
		var err error
		if last, records, err = g.lastEra(ctx); err != nil {
			return nil, err
		}
		if last != nil && last.Era >= g.config.Era && !(g.config.again && last.Era == g.config.Era) {
			return nil, fmt.Errorf("open era %d of the logs: era %d was opened: %w", g.config.Era, last.Era, ErrNotHeld)
		}
	}
	all, err := g.listSegments(ctx)
	if err != nil || g.config.Era == 0 {
		return all, err
	}
	entries, void := punctual(all, last)
	if last != nil && last.Era == g.config.Era {
		records = slices.DeleteFunc(records, func(key string) bool { return key == eraKey(last.Era) })
		return entries, g.tidyEra(ctx, void, records)
	}
	record := eraRecord{Era: g.config.Era, Segments: make([]string, 0, len(entries))}
	for _, e := range entries {
		record.Segments = append(record.Segments, e.Key)
	}
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode era %d of the logs: %w", g.config.Era, err)
	}
	err = g.store.Put(ctx, eraKey(g.config.Era), bytes.NewReader(text), int64(len(text)))
	if errors.Is(err, blob.ErrExists) {
		return nil, fmt.Errorf("open era %d of the logs: it was opened before: %w", g.config.Era, ErrNotHeld)
	}
	if err != nil {
		return nil, fmt.Errorf("open era %d of the logs: %w", g.config.Era, err)
	}
	return entries, g.tidyEra(ctx, void, records)
}

// tidyEra removes what the open era has made needless.
func (g *Gateway) tidyEra(ctx context.Context, void, records []string) error {
	g.counters.Void += uint64(len(void))
	for _, key := range slices.Concat(void, records) {
		if err := g.discard(ctx, key); err != nil {
			return fmt.Errorf("tidy era %d of the logs: %w", g.config.Era, err)
		}
	}
	return nil
}

// punctual parts the segments that count from those that came after their era had ended.
func punctual(all []blob.Entry, last *eraRecord) (entries []blob.Entry, void []string) {
	if last == nil {
		return all, nil
	}
	listed := make(map[string]bool, len(last.Segments))
	for _, key := range last.Segments {
		listed[key] = true
	}
	for _, e := range all {
		_, number, ok := parseSegmentKey(e.Key)
		if ok && eraOf(number) < last.Era && !listed[e.Key] {
			void = append(void, e.Key)
			continue
		}
		entries = append(entries, e)
	}
	return entries, void
}

func (g *Gateway) listSegments(ctx context.Context) (all []blob.Entry, err error) {
	for after := ""; ; after = all[len(all)-1].Key {
		page, err := g.store.List(ctx, segmentPrefix(""), after, recoverPage)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) == 0 {
			return all, nil
		}
	}
}

// lastEra reads the newest record, and names all of them. A record that can't be read stops
// the opening: going on without it could bring back what nobody was told of.
func (g *Gateway) lastEra(ctx context.Context) (last *eraRecord, keys []string, err error) {
	for after := ""; ; after = keys[len(keys)-1] {
		page, err := g.store.List(ctx, eraPrefix, after, recoverPage)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range page {
			keys = append(keys, e.Key)
		}
		if len(page) == 0 {
			break
		}
	}
	if len(keys) == 0 {
		return nil, nil, nil
	}
	key := keys[len(keys)-1]
	r, err := g.store.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, nil, fmt.Errorf("read log era %s: %w", key, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, eraBytesMax))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, nil, fmt.Errorf("read log era %s: %w", key, err)
	}
	last = &eraRecord{}
	if err := json.Unmarshal(text, last); err != nil || eraKey(last.Era) != key {
		return nil, nil, &Damage{Object: key, Why: "is no record of an era"}
	}
	return last, keys, nil
}

// replaced knows which segments others have made needless.
type replaced struct {
	void   map[string]bool
	folded map[string]map[domain.AttemptID]bool
}

// superseded gathers what the tables say of other segments.
func superseded(entries []blob.Entry, tables []*contents) replaced {
	out := replaced{map[string]bool{}, map[string]map[domain.AttemptID]bool{}}
	for i, c := range tables {
		tenant, _, ok := parseSegmentKey(entries[i].Key)
		if c == nil || !ok || c.tenant != tenant {
			continue
		}
		for _, n := range c.void {
			out.void[segmentKey(tenant, n)] = true
		}
		for _, n := range c.folded {
			key := segmentKey(tenant, n)
			if out.folded[key] == nil {
				out.folded[key] = map[domain.AttemptID]bool{}
			}
			for _, a := range c.attempts {
				out.folded[key][a] = true
			}
		}
	}
	return out
}

// rest is what still counts of a segment. Records keep their places: data offsets and
// indexes are those of the object.
func (r replaced) rest(key string, c *contents) *contents {
	if c == nil || !r.void[key] && r.folded[key] == nil {
		return c
	}
	left := *c
	left.skip = func(a domain.AttemptID) bool { return r.void[key] || r.folded[key][a] }
	return &left
}
