package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/recall"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Damaged is an object of an archive that is missing or not what was written. It wraps
// store.ErrBroken: what lies in it can't be read, and everything else goes on.
type Damaged struct {
	Object  string
	Missing bool
	Why     error
}

// Error implements error.
func (d *Damaged) Error() string {
	if d.Missing {
		return fmt.Sprintf("object %s of the archive is missing: put it back from a backup", d.Object)
	}
	return fmt.Sprintf("object %s of the archive is damaged (%v): put it back from a backup", d.Object, d.Why)
}

// Unwrap leads to store.ErrBroken.
func (d *Damaged) Unwrap() error { return store.ErrBroken }

// damaged tells what is wrong with the object from what went wrong with the network.
func damaged(object string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blob.ErrNotFound):
		return &Damaged{Object: object, Missing: true, Why: err}
	case errors.Is(err, ErrFormat), errors.Is(err, io.ErrUnexpectedEOF):
		return &Damaged{Object: object, Why: err}
	}
	return fmt.Errorf("read object %s of the archive: %w", object, err)
}

// Reader reads objects of archives and remembers some of what it read.
type Reader struct {
	blobs  blob.Store
	heads  recall.Of[string, *head]
	frames recall.Of[frameKey, []store.Row]

	mu   sync.Mutex // guards last
	last struct {
		digest domain.Digest
		rows   []store.Row
	}
}

type frameKey struct {
	object string
	frame  int
}

// NewReader reads from blobs; nil where the objects are not at hand, which every read says.
func NewReader(blobs blob.Store) *Reader { return &Reader{blobs: blobs} }

// ErrNoObjects: the archive's objects are not at hand.
var ErrNoObjects = fmt.Errorf("the folder with the objects of the archive is not given: %w", store.ErrBroken)

func (r *Reader) bytes(ctx context.Context, object string, offset, length int64) ([]byte, error) {
	if r.blobs == nil {
		return nil, ErrNoObjects
	}
	from, err := r.blobs.Open(ctx, object, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(from)
	return data, errors.Join(err, from.Close())
}

// Whole gives all bytes of an object, if they are those that were written.
func (r *Reader) Whole(ctx context.Context, o *store.ArchivedObject) ([]byte, error) {
	data, err := r.bytes(ctx, o.Object, 0, -1)
	if err == nil && sumOf(data) != o.Digest {
		err = fmt.Errorf("%w: its %d bytes digest to %s, not %s", ErrFormat, len(data), sumOf(data), o.Digest)
	}
	if err != nil {
		return nil, damaged(o.Object, err)
	}
	return data, nil
}

func (r *Reader) head(ctx context.Context, o *store.ArchivedObject) (*head, error) {
	if h, ok := r.heads.Get(o.Object); ok {
		return h, nil
	}
	start, err := r.bytes(ctx, o.Object, 0, min(headGuess, o.Bytes))
	if err != nil {
		return nil, err
	}
	n, err := headLength(start)
	if err == nil && n > len(start) {
		start, err = r.bytes(ctx, o.Object, 0, min(int64(n), o.Bytes))
	}
	if err != nil {
		return nil, err
	}
	h, err := decodeHead(start, o.Bytes)
	if err != nil {
		return nil, err
	}
	r.heads.Put(o.Object, h, n)
	return h, nil
}

func (r *Reader) frame(ctx context.Context, o *store.ArchivedObject, h *head, i int) ([]store.Row, error) {
	key := frameKey{o.Object, i}
	if rows, ok := r.frames.Get(key); ok {
		return rows, nil
	}
	f := &h.frames[i]
	data, err := r.bytes(ctx, o.Object, int64(f.offset), int64(f.length))
	if err != nil {
		return nil, err
	}
	raw, err := f.open(data)
	if err != nil {
		return nil, err
	}
	rows, err := h.rows(raw)
	if err != nil {
		return nil, err
	}
	r.frames.Put(key, rows, len(raw)+len(rows)*rowBytes)
	return rows, nil
}

// rowBytes is what a row takes in memory besides its events.
const rowBytes = 128

// stream gives the rows of one stream in an object, in order.
func (r *Reader) stream(ctx context.Context, o *store.ArchivedObject, stream domain.StreamID) ([]store.Row, error) {
	h, err := r.head(ctx, o)
	if err != nil {
		return nil, damaged(o.Object, err)
	}
	var out []store.Row
	first := sort.Search(len(h.frames), func(i int) bool { return h.frames[i].stream >= string(stream) })
	for i := max(first-1, 0); i < len(h.frames) && h.frames[i].stream <= string(stream); i++ {
		rows, err := r.frame(ctx, o, h, i)
		if err != nil {
			return nil, damaged(o.Object, err)
		}
		for _, row := range rows {
			if row.Stream == stream {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

// Rows gives all rows of a range by position: whole, or an error that says which object is
// at fault.
func (r *Reader) Rows(ctx context.Context, of *store.ArchivedRange) ([]store.Row, error) {
	r.mu.Lock()
	rows, known := r.last.rows, r.last.digest == of.Digest
	r.mu.Unlock()
	if known {
		return rows, nil
	}
	rows = make([]store.Row, 0, of.To-of.From)
	for i := range of.Objects {
		o := &of.Objects[i]
		data, err := r.Whole(ctx, o)
		if err != nil {
			return nil, err
		}
		some, err := DecodeRows(data)
		if err != nil {
			return nil, damaged(o.Object, err)
		}
		for n := range some {
			if some[n].Tenant != o.Tenant {
				return nil, damaged(o.Object, fmt.Errorf("%w: it has rows of another tenant", ErrFormat))
			}
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, func(a, b store.Row) int { return cmp.Compare(a.Position, b.Position) })
	if i := gap(rows, of.From); i < len(rows) || len(rows) != int(of.To-of.From) {
		return nil, damaged(of.Objects[0].Object,
			fmt.Errorf("%w: the range %d-%d has no row at %d", ErrFormat, of.From, of.To, int(of.From)+i+1))
	}
	r.mu.Lock()
	r.last.digest, r.last.rows = of.Digest, rows
	r.mu.Unlock()
	return rows, nil
}

// gap is the index of the first row that does not follow the one before; after is the
// position before the first.
func gap(rows []store.Row, after store.Position) int {
	for i := range rows {
		if rows[i].Position != after+store.Position(i)+1 {
			return i
		}
	}
	return len(rows)
}

// Marks gives the batches of a range.
func (r *Reader) Marks(ctx context.Context, of *store.ArchivedRange) ([]store.BatchMark, error) {
	data, err := r.Whole(ctx, &of.Marks)
	if err != nil {
		return nil, err
	}
	marks, err := DecodeMarks(data)
	if err == nil && (len(marks) == 0 || marks[len(marks)-1].Position != of.To) {
		err = fmt.Errorf("%w: its marks don't end at %d", ErrFormat, of.To)
	}
	if err != nil {
		return nil, damaged(of.Marks.Object, err)
	}
	return marks, nil
}

// complete adds the archived rows that a history lacks. of lists the ranges of the stream.
func (r *Reader) complete(
	ctx context.Context, tenant domain.TenantID, stream domain.StreamID, h store.History,
	of func() ([]store.ArchivedRange, error),
) (store.History, error) {
	if whole(&h) {
		return h, nil
	}
	ranges, err := of()
	if err != nil || len(ranges) == 0 {
		return h, err
	}
	var base uint64
	if h.Checkpoint != nil {
		base = h.Checkpoint.Version
	}
	have := h.Rows
	for i := len(ranges) - 1; i >= 0 && !whole(&h); i-- {
		o, ok := ranges[i].Of(tenant)
		if !ok {
			continue
		}
		rows, err := r.stream(ctx, &o, stream)
		if err != nil {
			return store.History{}, fmt.Errorf("load stream %s: %w", stream, err)
		}
		for _, row := range rows {
			if row.Version > base {
				have = append(have, row)
			}
		}
		have = slices.Clone(have)
		slices.SortFunc(have, func(a, b store.Row) int { return cmp.Compare(a.Version, b.Version) })
		have = slices.CompactFunc(have, func(a, b store.Row) bool { return a.Version == b.Version })
		h.Rows = have
	}
	return h, nil
}

// whole reports whether the rows lead from the checkpoint, or the beginning, to the head.
func whole(h *store.History) bool {
	var at uint64
	if h.Checkpoint != nil {
		at = h.Checkpoint.Version
	}
	for i := range h.Rows {
		if h.Rows[i].Version-uint64(h.Rows[i].Count) != at {
			return false
		}
		at = h.Rows[i].Version
	}
	return at >= h.Head.Version
}
