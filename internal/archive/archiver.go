package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Log is what an archiver needs of a store. It is the store below, which has no more than its
// own rows.
type Log interface {
	store.Ranges
	Read(ctx context.Context, partition domain.PartitionID, after store.Position, limit int) ([]store.Row, error)
	Partitions(ctx context.Context) ([]store.Ownership, error)
}

// Config is what an Archiver works with.
type Config struct {
	Log   Log
	Blobs blob.Store
	// OlderThan is the age from which batches are archived.
	OlderThan time.Duration
	// All takes also what is too little for an object of its own.
	All bool
	// Every is the time between two looks; 0 means ArchiveEvery.
	Every time.Duration
	Now   func() time.Time
	Host  host.Host // nil: the machine
	// Did, if set, is told of every range that was recorded.
	Did func(r *store.ArchivedRange)
}

// Archiver moves old history into objects, one range at a time.
type Archiver struct {
	Config
	through map[domain.PartitionID]store.ArchivedRange // the last range, as far as is known
}

// New makes an archiver. It is for one goroutine.
func New(c Config) *Archiver {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Every == 0 {
		c.Every = ArchiveEvery
	}
	c.Host = host.Or(c.Host)
	return &Archiver{Config: c, through: map[domain.PartitionID]store.ArchivedRange{}}
}

// Run archives the partitions that owned gives, with the epochs of their owner, now and then
// until ctx ends.
func (a *Archiver) Run(ctx context.Context, owned func() map[domain.PartitionID]uint64, log *slog.Logger) {
	for {
		held := owned()
		for _, p := range slices.Sorted(maps.Keys(held)) {
			if err := a.Partition(ctx, p, held[p]); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrFenced) {
				log.Warn("old history was not archived; it stays in the database", "partition", p, "error", err)
			}
		}
		if !host.Pause(ctx, a.Host, a.Every) {
			return
		}
	}
}

// Partition archives what is old of one partition. It begins with what a crash left behind.
func (a *Archiver) Partition(ctx context.Context, p domain.PartitionID, epoch uint64) error {
	if err := a.prune(ctx, p, 0); err != nil {
		return err
	}
	for {
		r, err := a.next(ctx, p, epoch)
		if err != nil || r == nil {
			return err
		}
		if err := a.prune(ctx, p, r.From); err != nil {
			return err
		}
	}
}

// prune removes archived rows in small transactions.
func (a *Archiver) prune(ctx context.Context, p domain.PartitionID, after store.Position) error {
	for {
		at, err := a.Log.Prune(ctx, p, after, pruneRows)
		if err != nil || at == 0 {
			return err
		}
		after = at
		if !host.Pause(ctx, a.Host, prunePause) {
			return ctx.Err()
		}
	}
}

// next archives one range; nil: there is nothing old enough.
func (a *Archiver) next(ctx context.Context, p domain.PartitionID, epoch uint64) (*store.ArchivedRange, error) {
	last, err := a.lastRange(ctx, p)
	if err != nil {
		return nil, err
	}
	marks, err := a.oldMarks(ctx, p, last.To)
	if err != nil || len(marks) == 0 {
		return nil, err
	}
	rows, err := a.rows(ctx, p, last.To, marks[len(marks)-1].Position)
	if err != nil {
		return nil, err
	}
	if rows, marks = bounded(rows, marks); !a.All && len(rows) < rangeRowsMin {
		return nil, nil
	}
	if err := proven(last.To, last.Digest, rows, marks); err != nil {
		return nil, fmt.Errorf("archive partition %s: %w", p, err)
	}
	r, streams, err := a.put(ctx, p, last, rows, marks)
	if err != nil {
		return nil, fmt.Errorf("archive partition %s after %d: %w", p, last.To, err)
	}
	if err := a.Log.ArchiveRange(ctx, epoch, *r, streams); err != nil {
		delete(a.through, p) // somebody else may have archived
		return nil, err
	}
	a.through[p] = *r
	if a.Did != nil {
		a.Did(r)
	}
	return r, nil
}

func (a *Archiver) lastRange(ctx context.Context, p domain.PartitionID) (store.ArchivedRange, error) {
	last := a.through[p]
	for {
		more, err := a.Log.ArchivedRanges(ctx, p, last.To, listLimit)
		if err != nil || len(more) == 0 {
			return last, err
		}
		last = more[len(more)-1]
		a.through[p] = last
	}
}

// oldMarks lists batches that are old enough, up to a range's number of rows; never the last
// batch of the log.
func (a *Archiver) oldMarks(ctx context.Context, p domain.PartitionID, from store.Position) ([]store.BatchMark, error) {
	end, err := a.position(ctx, p)
	if err != nil {
		return nil, err
	}
	before := a.Now().Add(-a.OlderThan)
	var out []store.BatchMark
	for after := from; ; {
		marks, err := a.Log.Batches(ctx, p, after, listLimit)
		if err != nil {
			return nil, err
		}
		for _, m := range marks {
			tooMany := len(out) > 0 && m.Position > from+rangeRows
			if m.Position >= end || m.At.After(before) || tooMany {
				return out, nil
			}
			out, after = append(out, m), m.Position
		}
		if len(marks) < listLimit {
			return out, nil
		}
	}
}

func (a *Archiver) position(ctx context.Context, p domain.PartitionID) (store.Position, error) {
	list, err := a.Log.Partitions(ctx)
	if err != nil {
		return 0, err
	}
	for _, own := range list {
		if own.Partition == p {
			return own.Position, nil
		}
	}
	return 0, fmt.Errorf("archive partition %s: %w", p, store.ErrNotFound)
}

// rows reads (from, to], or as much of it as a range may hold.
func (a *Archiver) rows(ctx context.Context, p domain.PartitionID, from, to store.Position) ([]store.Row, error) {
	var out []store.Row
	for size := 0; from < to && size < rangeBytes; {
		page, err := a.Log.Read(ctx, p, from, int(min(to-from, listLimit)))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 || gap(page, from) < len(page) {
			return nil, fmt.Errorf("archive partition %s: rows after position %d are missing: fairlead admin verify "+
				"tells more: %w", p, from, store.ErrBroken)
		}
		for i := range page {
			size += len(page[i].Events) + rowBytes
		}
		out, from = append(out, page...), page[len(page)-1].Position
	}
	return out, nil
}

// bounded cuts rows and marks where the last whole batch ends. The first batch is taken
// however large it is.
func bounded(rows []store.Row, marks []store.BatchMark) ([]store.Row, []store.BatchMark) {
	if len(rows) == 0 {
		return nil, nil
	}
	end := rows[len(rows)-1].Position
	marks = slices.DeleteFunc(marks, func(m store.BatchMark) bool { return m.Position > end })
	if len(marks) == 0 {
		return nil, nil
	}
	last := marks[len(marks)-1].Position
	return slices.DeleteFunc(rows, func(r store.Row) bool { return r.Position > last }), marks
}

// proven checks that rows are those that were committed: every batch has its digest.
func proven(at store.Position, digest domain.Digest, rows []store.Row, marks []store.BatchMark) error {
	for i := range marks {
		n := int(marks[i].Position - at)
		if n < 1 || n > len(rows) {
			return fmt.Errorf("the batch at %d has no rows: %w", marks[i].Position, store.ErrBroken)
		}
		if digest = store.BatchDigest(digest, rows[:n]); digest != marks[i].Digest {
			return fmt.Errorf("the batch at %d is not what was committed: fairlead admin verify tells more: %w",
				marks[i].Position, store.ErrBroken)
		}
		rows, at = rows[n:], marks[i].Position
	}
	if len(rows) > 0 {
		return fmt.Errorf("rows after %d are of no batch: %w", at, store.ErrBroken)
	}
	return nil
}

// Proven checks a range that was read: that its rows have the digests of its marks, and lead
// from its first digest to its last.
func Proven(r *store.ArchivedRange, rows []store.Row, marks []store.BatchMark) error {
	if len(marks) == 0 || marks[len(marks)-1].Digest != r.Digest {
		return fmt.Errorf("its marks don't end with the digest of the range: %w", store.ErrBroken)
	}
	return proven(r.From, r.Before, rows, marks)
}

// put makes the objects of a range durable, each after it was read back in memory.
func (a *Archiver) put(
	ctx context.Context, p domain.PartitionID, last store.ArchivedRange, rows []store.Row, marks []store.BatchMark,
) (*store.ArchivedRange, []store.ArchivedStream, error) {
	end := marks[len(marks)-1]
	r := &store.ArchivedRange{Partition: p, From: last.To, To: end.Position, Before: last.Digest, Digest: end.Digest,
		Epoch: end.Epoch, Oldest: marks[0].At, Newest: end.At, At: store.StoredTime(a.Now())}
	h := head{partition: p, from: r.From, to: r.To, before: r.Before, digest: r.Digest}
	tenants := map[domain.TenantID][]store.Row{}
	named := map[store.ArchivedStream]bool{}
	for i := range rows {
		row := rows[i]
		tenants[row.Tenant] = append(tenants[row.Tenant], row)
		named[store.ArchivedStream{Tenant: row.Tenant, Stream: row.Stream}] = true
	}
	var back []store.Row
	for _, tenant := range slices.Sorted(maps.Keys(tenants)) {
		h := h
		h.tenant = tenant
		data := encodeRows(h, tenants[tenant])
		again, err := DecodeRows(data)
		if err != nil {
			return nil, nil, err
		}
		back = append(back, again...)
		o := store.ArchivedObject{Tenant: tenant, Rows: int64(len(again))}
		for i := range again {
			o.Raw += int64(len(again[i].Events))
		}
		if err := a.object(ctx, r, &o, data); err != nil {
			return nil, nil, err
		}
		r.Objects = append(r.Objects, o)
	}
	data := encodeMarks(h, marks)
	marksBack, err := DecodeMarks(data)
	if err == nil {
		slices.SortFunc(back, func(a, b store.Row) int { return int(int64(a.Position) - int64(b.Position)) })
		err = Proven(r, back, marksBack)
	}
	if err != nil {
		return nil, nil, err
	}
	r.Marks = store.ArchivedObject{Rows: int64(len(marks))}
	streams := slices.SortedFunc(maps.Keys(named), func(a, b store.ArchivedStream) int {
		return slices.Compare([]string{string(a.Tenant), string(a.Stream)}, []string{string(b.Tenant), string(b.Stream)})
	})
	return r, streams, a.object(ctx, r, &r.Marks, data)
}

// object makes an object durable under a key that its digest is a part of: repeated after a
// crash, it is there already.
func (a *Archiver) object(ctx context.Context, r *store.ArchivedRange, o *store.ArchivedObject, data []byte) error {
	o.Digest, o.Bytes = sumOf(data), int64(len(data))
	o.Object = Key(r, o)
	err := a.Blobs.Put(ctx, o.Object, bytes.NewReader(data), o.Bytes)
	if errors.Is(err, blob.ErrExists) {
		return nil
	}
	return err
}

// Key names an object of a range. Whatever belongs to a tenant lies below the tenant's name,
// so that it can go with the tenant.
func Key(r *store.ArchivedRange, o *store.ArchivedObject) string {
	folder := folder
	if o.Tenant != "" {
		folder = string(o.Tenant) + "/" + folder
	}
	return fmt.Sprintf("%s/%s/%020d-%020d-%s", folder, r.Partition, r.From, r.To, o.Digest.Hex())
}

const folder = "archive"
