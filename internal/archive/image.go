package archive

import (
	"context"
	"fmt"
	"sort"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Beside gives a store's operators' side whole history: its images read the log and the
// batches as if nothing had been archived.
func Beside(a store.Archive, reader *Reader) store.Archive { return beside{a, reader} }

type beside struct {
	store.Archive
	reader *Reader
}

// Image implements store.Archive.
func (b beside) Image(ctx context.Context) (store.Image, error) {
	i, err := b.Archive.Image(ctx)
	if err != nil {
		return nil, err
	}
	return Across(i, b.reader), nil
}

// Across reads an image across the border.
func Across(i store.Image, reader *Reader) store.Image {
	return image{tables{of: i, reader: reader, known: &ranges{}}, i}
}

// Rewrite implements store.Archive.
func (b beside) Rewrite(ctx context.Context, work func(store.Rewriter) error) error {
	return b.Archive.Rewrite(ctx, func(w store.Rewriter) error {
		return work(rewriter{tables{of: w, reader: b.reader, known: &ranges{}}, w})
	})
}

type image struct {
	tables
	below store.Image
}

// Close implements store.Image.
func (i image) Close() error { return i.below.Close() }

type rewriter struct {
	tables
	below store.Rewriter
}

// Put implements store.Rewriter.
func (w rewriter) Put(ctx context.Context, table string, rows [][]any) error {
	return w.below.Put(ctx, table, rows)
}

// Delete implements store.Rewriter.
func (w rewriter) Delete(ctx context.Context, table string, keys [][]any) error {
	return w.below.Delete(ctx, table, keys)
}

// Tables is what images and rewriters read with.
type Tables interface {
	Scan(ctx context.Context, table string, page store.Page) ([][]any, error)
	Get(ctx context.Context, table string, key []any) ([]any, error)
	Load(
		ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
	) (store.History, error)
}

// tables reads log and batches across the border: up to where the last range ends from
// objects, beyond from the database.
type tables struct {
	of     Tables
	reader *Reader
	known  *ranges
}

// ranges are those of one moment, read once.
type ranges struct {
	read bool
	of   map[domain.PartitionID][]store.ArchivedRange
}

// RangesOf reads all ranges of a moment, by partition.
func RangesOf(ctx context.Context, from Tables) (map[domain.PartitionID][]store.ArchivedRange, error) {
	out := map[domain.PartitionID][]store.ArchivedRange{}
	if err := each(ctx, from, store.TableArchives, nil, listLimit, func(row []any) bool {
		r := store.RangeOf(row)
		out[r.Partition] = append(out[r.Partition], r)
		return true
	}); err != nil {
		return nil, err
	}
	err := each(ctx, from, store.TableArchiveObjects, nil, listLimit, func(row []any) bool {
		list := out[domain.PartitionID(row[0].(string))]
		i := covering(list, store.Position(row[1].(int64)))
		if i == len(list) {
			return true
		}
		if o := store.ArchivedObjectOf(row); o.Tenant == "" {
			list[i].Marks = o
		} else {
			list[i].Objects = append(list[i].Objects, o)
		}
		return true
	})
	return out, err
}

// covering is the index of the first range that ends at the position or after it.
func covering(list []store.ArchivedRange, at store.Position) int {
	return sort.Search(len(list), func(i int) bool { return list[i].To >= at })
}

// each reads rows of a table in order, after a key, until it is told to stop.
func each(ctx context.Context, from Tables, table string, after []any, limit int, row func([]any) bool) error {
	t, _ := store.TableNamed(table)
	for {
		rows, err := from.Scan(ctx, table, store.Page{From: after, Limit: limit})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if !row(r) {
				return nil
			}
			after = r[:t.Key]
		}
		if len(rows) < limit {
			return nil
		}
	}
}

func (t tables) ranges(ctx context.Context, p domain.PartitionID) ([]store.ArchivedRange, error) {
	if !t.known.read {
		of, err := RangesOf(ctx, t.of)
		if err != nil {
			return nil, err
		}
		t.known.of, t.known.read = of, true
	}
	return t.known.of[p], nil
}

func (t tables) through(ctx context.Context, p domain.PartitionID) (store.Position, error) {
	list, err := t.ranges(ctx, p)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[len(list)-1].To, nil
}

// Load implements store.Image.
func (t tables) Load(
	ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
) (store.History, error) {
	h, err := t.of.Load(ctx, tenant, stream, withCheckpoint, encoding)
	if err != nil {
		return h, err
	}
	return t.reader.complete(ctx, tenant, stream, h, func() (out []store.ArchivedRange, err error) {
		var lists error
		err = each(ctx, t.of, store.TableArchivedStreams, []any{string(tenant), string(stream), int64(0)},
			rangesOfStream, func(row []any) bool {
				if row[0] != string(tenant) || row[1] != string(stream) {
					return false
				}
				var list []store.ArchivedRange
				if list, lists = t.ranges(ctx, domain.PartitionID(row[3].(string))); lists != nil {
					return false
				}
				at := store.Position(row[2].(int64))
				if i := covering(list, at); i < len(list) && list[i].To == at {
					out = append(out, list[i])
				}
				return true
			})
		if err == nil {
			err = lists
		}
		return out, err
	})
}

// Get implements store.Image.
func (t tables) Get(ctx context.Context, table string, key []any) ([]any, error) {
	if table != store.TableLog && table != store.TableBatches || len(key) != 2 {
		return t.of.Get(ctx, table, key)
	}
	p, at := domain.PartitionID(key[0].(string)), key[1].(int64)
	through, err := t.through(ctx, p)
	if err != nil {
		return nil, err
	}
	if at < 1 || store.Position(at) > through {
		return t.of.Get(ctx, table, key)
	}
	rows, err := t.archived(ctx, table, p, store.Position(at)-1, 1)
	if err == nil && (len(rows) == 0 || rows[0][1] != at) {
		err = fmt.Errorf("read row %v of table %s: %w", key, table, store.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// archived gives up to limit rows after a position from the range that holds the first.
func (t tables) archived(
	ctx context.Context, table string, p domain.PartitionID, after store.Position, limit int,
) ([][]any, error) {
	list, err := t.ranges(ctx, p)
	if err != nil {
		return nil, err
	}
	r := &list[covering(list, after+1)]
	var out [][]any
	if table == store.TableBatches {
		marks, err := t.reader.Marks(ctx, r)
		if err != nil {
			return nil, err
		}
		for i := range marks {
			if marks[i].Position > after && len(out) < limit {
				out = append(out, store.BatchRow(&marks[i]))
			}
		}
		return out, nil
	}
	rows, err := t.reader.Rows(ctx, r)
	if err != nil {
		return nil, err
	}
	rows = rows[max(after, r.From)-r.From:]
	for i := range rows[:min(limit, len(rows))] {
		out = append(out, store.LogRow(p, &rows[i]))
	}
	return out, nil
}

// Scan implements store.Image. Every partition has rows in the database: its last batch is
// never archived. So the next row of the database says whose archive comes before it.
// Backwards it goes through the database alone.
func (t tables) Scan(ctx context.Context, table string, page store.Page) ([][]any, error) {
	if table != store.TableLog && table != store.TableBatches || page.Back || page.Limit < 1 ||
		page.From != nil && len(page.From) != 2 {
		return t.of.Scan(ctx, table, page)
	}
	var out [][]any
	from := page.From
	for len(out) < page.Limit {
		want := page.Limit - len(out)
		rows, err := t.of.Scan(ctx, table, store.Page{From: from, Limit: want})
		if err != nil || len(rows) == 0 {
			return out, err
		}
		p := domain.PartitionID(rows[0][0].(string))
		var after store.Position
		if from != nil && from[0] == string(p) {
			after = store.Position(max(from[1].(int64), 0))
		}
		through, err := t.through(ctx, p)
		if err != nil {
			return nil, err
		}
		if after < through {
			if rows, err = t.archived(ctx, table, p, after, want); err != nil {
				return nil, err
			}
			if len(rows) == 0 { // an object without its last entry is told by its reader
				return out, nil
			}
		}
		full := len(rows) == want || after < through
		for i, row := range rows {
			if row[0] != string(p) { // of another partition, which may have an archive
				rows, full = rows[:i], true
				break
			}
		}
		out = append(out, rows...)
		from = out[len(out)-1][:2]
		if !full {
			break
		}
	}
	return out, nil
}
