package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// chains walks over the log of every partition: no position missing, every batch with the
// digest of its rows and of the batch before.
func (c *check) chains(ctx context.Context) error {
	var done, total int64
	for _, p := range c.report.Partitions {
		total += int64(p.Position)
	}
	for _, p := range c.report.Partitions {
		w := &chain{check: c, own: p, done: &done, total: total, base: c.border(p.Partition)}
		if err := w.walk(ctx); err != nil {
			return fmt.Errorf("walk over the log of %s: %w", p.Partition, err)
		}
	}
	return nil
}

// chain is the walk over one partition's log.
type chain struct {
	*check
	own         store.Ownership
	done        *int64
	total       int64
	base        store.BatchMark // where the archive ends and the walk begins
	last        store.BatchMark // the mark before
	marksBroken bool

	rows   []store.Row // read ahead
	rowsAt store.Position
}

func (w *chain) walk(ctx context.Context) error {
	w.last = w.base
	for window := w.base.Position; window < w.own.Position; window += windowRows {
		end := min(window+windowRows, w.own.Position)
		// The end of the log is always in the sample: it is where damage hurts most.
		if w.Percent != 0 && end < w.own.Position && !w.chosen(string(w.own.Partition), uint64(window)) {
			continue
		}
		if err := w.window(ctx, window, end); err != nil {
			return err
		}
	}
	return w.tail(ctx)
}

// chosen reports whether something is in the share that a sampled examination takes.
func (c *check) chosen(name string, number uint64) bool {
	if c.Percent == 0 {
		return true
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, number))
	spread := (h.Sum64() * 0x9E3779B97F4A7C15) >> 32
	return int((spread+c.Seed)%100) < c.Percent
}

// window examines the batches that end in (from, to]. Where the walk did not come from the
// window before, it begins a batch's length earlier, and what lies there only gives the
// digest that the first batch chains to.
func (w *chain) window(ctx context.Context, from, to store.Position) error {
	known := w.last.Position >= from
	after := int64(w.last.Position)
	if !known {
		w.last = store.BatchMark{}
		after = max(int64(from)-batchRows, int64(w.base.Position))
		if known = after == int64(w.base.Position); known {
			w.last = w.base
		}
	}
	for after < int64(to) {
		marks, err := w.image.Scan(ctx, store.TableBatches,
			store.Page{From: []any{string(w.own.Partition), after}, Limit: pageRows})
		if errors.Is(err, store.ErrBroken) {
			w.unreadable, w.marksBroken = true, true
			w.found(Finding{Code: TableUnreadable, Partition: w.own.Partition, Position: store.Position(after),
				Table: store.TableBatches, Text: fmt.Sprintf("batches after this position can't be read: %v", err),
				Fix: fixStorage})
			return nil
		}
		if err != nil {
			return err
		}
		for _, row := range marks {
			mark := store.BatchOf(row)
			if mark.Partition != w.own.Partition {
				return nil
			}
			if known && mark.Position > from {
				if err := w.batch(ctx, mark); err != nil {
					return err
				}
			}
			known, w.last, after = true, mark, int64(mark.Position)
			if after >= int64(to) {
				return nil
			}
		}
		if len(marks) < pageRows {
			return nil
		}
	}
	return nil
}

// batch examines the rows of one batch. The walk goes on from the digest that is stored, so
// a damaged batch is the only one that is told.
func (w *chain) batch(ctx context.Context, mark store.BatchMark) error {
	rows, whole, err := w.read(ctx, w.last.Position+1, mark.Position)
	if err != nil {
		return err
	}
	w.report.Rows += int64(len(rows))
	if *w.done += int64(len(rows)); *w.done/progressEvery != (*w.done-int64(len(rows)))/progressEvery {
		w.Progress("log", *w.done, w.total)
	}
	if mark.Epoch < w.last.Epoch || mark.Epoch > w.own.Epoch {
		w.found(Finding{Code: BatchWrong, Partition: w.own.Partition, Position: mark.Position, Fix: fixStorage,
			Text: fmt.Sprintf("it was appended under epoch %d, the one before under %d, the partition has %d",
				mark.Epoch, w.last.Epoch, w.own.Epoch)})
	}
	if !whole {
		return nil
	}
	if got := store.BatchDigest(w.last.Digest, rows); got != mark.Digest {
		w.found(Finding{Code: BatchWrong, Partition: w.own.Partition, Position: mark.Position, Stream: only(rows),
			Text: fmt.Sprintf("the rows from position %d on are not those that were committed: they digest to %s, not %s (%s)",
				w.last.Position+1, got, mark.Digest, streamsOf(rows)), Fix: fixHistory})
	}
	return nil
}

// only is the stream of the rows when it is one.
func only(rows []store.Row) domain.StreamID {
	if len(rows) == 1 {
		return rows[0].Stream
	}
	return ""
}

func streamsOf(rows []store.Row) string {
	var names []string
	for i := range rows {
		if name := string(rows[i].Stream); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == 8 && i+1 < len(rows) {
			return strings.Join(names, ", ") + ", …"
		}
	}
	return strings.Join(names, ", ")
}

// read gives the rows of positions from to to. whole is false when one is missing or can't
// be read, which is told.
func (w *chain) read(ctx context.Context, from, to store.Position) (rows []store.Row, whole bool, err error) {
	whole = true
	for at := from; at <= to; at++ {
		row, err := w.row(ctx, at)
		switch {
		case errors.Is(err, store.ErrBroken):
			whole, w.unreadable = false, true
			w.found(Finding{Code: RowUnreadable, Partition: w.own.Partition, Position: at,
				Text: "the row can't be read: " + err.Error(), Fix: fixHistory})
		case errors.Is(err, store.ErrNotFound):
			whole = false
			w.found(Finding{Code: PositionGap, Partition: w.own.Partition, Position: at,
				Text: "the log has no row at this position", Fix: fixHistory})
		case err != nil:
			return nil, false, err
		default:
			rows = append(rows, row)
		}
	}
	return rows, whole, nil
}

// row reads one row of the log, ahead where nothing is damaged.
func (w *chain) row(ctx context.Context, at store.Position) (store.Row, error) {
	if len(w.rows) == 0 || at < w.rowsAt || at > w.rows[len(w.rows)-1].Position {
		page, err := w.page(ctx, at)
		if err != nil {
			return store.Row{}, err
		}
		w.rows, w.rowsAt = page, at
	}
	i, ok := slices.BinarySearchFunc(w.rows, at, func(r store.Row, p store.Position) int {
		return int(int64(r.Position) - int64(p))
	})
	if !ok {
		return store.Row{}, store.ErrNotFound
	}
	return w.rows[i], nil
}

func (w *chain) page(ctx context.Context, at store.Position) ([]store.Row, error) {
	from := []any{string(w.own.Partition), int64(at) - 1}
	rows, err := w.image.Scan(ctx, store.TableLog, store.Page{From: from, Limit: pageRows})
	if errors.Is(err, store.ErrBroken) {
		one, err := w.image.Get(ctx, store.TableLog, []any{string(w.own.Partition), int64(at)})
		if err != nil {
			return nil, err
		}
		rows = [][]any{one}
	} else if err != nil {
		return nil, err
	}
	var page []store.Row
	for _, values := range rows {
		p, row := store.LogOf(values)
		if p != w.own.Partition {
			break
		}
		page = append(page, row)
	}
	if len(page) == 0 {
		return nil, store.ErrNotFound
	}
	return page, nil
}

// tail compares where the log ends with what the partition says.
func (w *chain) tail(ctx context.Context) error {
	if w.own.Position > 0 && !w.marksBroken && (w.last.Position != w.own.Position || w.last.Digest != w.own.Digest) {
		w.found(Finding{Code: TailWrong, Partition: w.own.Partition, Position: w.own.Position, Fix: fixStorage,
			Text: fmt.Sprintf("the last batch ends at %d with digest %s, and the partition says %d and %s",
				w.last.Position, w.last.Digest, w.own.Position, w.own.Digest)})
	}
	rows, err := w.image.Scan(ctx, store.TableLog,
		store.Page{From: []any{string(w.own.Partition), int64(w.own.Position)}, Limit: 1})
	if err != nil && !errors.Is(err, store.ErrBroken) {
		return err
	}
	for _, values := range rows {
		if p, row := store.LogOf(values); p == w.own.Partition {
			w.found(Finding{Code: TailWrong, Partition: p, Position: row.Position, Stream: row.Stream, Fix: fixStorage,
				Text: fmt.Sprintf("the log goes on here, and the partition ends at %d", w.own.Position)})
		}
	}
	return nil
}
