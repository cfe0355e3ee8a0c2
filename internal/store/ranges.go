package store

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// ArchivedRange is a range of a partition's log, from batch border to batch border, whose
// rows lie in objects of a blob store. The ranges of a partition follow each other without
// a gap from its first position on; the last batch of a log is never in one.
type ArchivedRange struct {
	Partition domain.PartitionID
	From      Position      // before the first row
	To        Position      // of the last row
	Before    domain.Digest // of the batch that ends at From; "" at the beginning
	Digest    domain.Digest // of the batch that ends at To
	Epoch     uint64        // of that batch
	Oldest    time.Time     // batch of the range
	Newest    time.Time
	At        time.Time // when it was archived
	Marks     ArchivedObject
	Objects   []ArchivedObject // the rows, one object per tenant
}

// ArchivedObject is an object of a range.
type ArchivedObject struct {
	Tenant domain.TenantID // whose rows it holds; "" for the marks of batches
	Object string          // its key
	Digest domain.Digest   // of its bytes
	Bytes  int64
	Rows   int64 // or marks
	Raw    int64 // bytes of the rows' events
}

// ArchivedStream says that a stream has rows in a range.
type ArchivedStream struct {
	Tenant domain.TenantID
	Stream domain.StreamID
}

// Check refuses a range that contradicts itself.
func (r *ArchivedRange) Check(streams []ArchivedStream) error {
	refused := func(why string) error {
		return fmt.Errorf("archive range %d-%d of partition %q: %s: %w", r.From, r.To, r.Partition, why, ErrInvalid)
	}
	switch {
	case r.Partition == "" || !ValidText(string(r.Partition)):
		return refused("no partition")
	case r.To <= r.From || r.To > math.MaxInt64 || r.Epoch > math.MaxInt64:
		return refused("no such range")
	case (r.From == 0) != (r.Before == "") || r.Digest == "" || !ValidText(string(r.Before)+string(r.Digest)):
		return refused("no digests")
	case r.Marks.Tenant != "" || r.Marks.Object == "" || !ValidText(r.Marks.Object) || len(r.Objects) == 0 ||
		len(streams) == 0:
		return refused("no objects")
	}
	var rows int64
	for i, o := range r.Objects {
		if !named(o.Tenant, o.Object, string(o.Digest)) || i > 0 && r.Objects[i-1].Tenant >= o.Tenant {
			return refused("the objects of tenants are not in order")
		}
		rows += o.Rows
	}
	if rows != int64(r.To-r.From) {
		return refused(fmt.Sprintf("%d rows in its objects", rows))
	}
	for _, s := range streams {
		_, there := slices.BinarySearchFunc(r.Objects, s.Tenant, func(o ArchivedObject, t domain.TenantID) int {
			if o.Tenant < t {
				return -1
			} else if o.Tenant > t {
				return 1
			}
			return 0
		})
		if !there || !named(s.Tenant, string(s.Stream)) {
			return refused(fmt.Sprintf("stream %s has no object", s.Stream))
		}
	}
	return nil
}

// Sizes are the range's rows, the bytes of its objects, and the bytes that its events had.
func (r *ArchivedRange) Sizes() (rows, bytes, raw int64) {
	bytes = r.Marks.Bytes
	for _, o := range r.Objects {
		rows, bytes, raw = rows+o.Rows, bytes+o.Bytes, raw+o.Raw
	}
	return rows, bytes, raw
}

// Of is the object with a tenant's rows.
func (r *ArchivedRange) Of(tenant domain.TenantID) (ArchivedObject, bool) {
	for _, o := range r.Objects {
		if o.Tenant == tenant {
			return o, true
		}
	}
	return ArchivedObject{}, false
}

// Ranges is the side of the port that knows which part of a log lies in objects. It makes
// and reads no object: whoever archives has put them first, and they are never removed while
// a range names them.
//
// A range that is recorded changes what Load, Read and BatchAt give only by Prune: those
// speak of rows that the store itself has. Prune keeps what owners need: of live streams
// every row that no checkpoint covers, and the mark where the last range ends.
type Ranges interface {
	// ArchiveRange records a range and the streams with rows in it, or changes nothing.
	// ErrFenced: epoch is not the partition's current one. ErrConflict: the range does not
	// follow the last one, is not what the log holds, or would leave no batch.
	ArchiveRange(ctx context.Context, epoch uint64, r ArchivedRange, streams []ArchivedStream) error
	// Prune looks at up to limit rows after a position and in recorded ranges, removes those
	// that nobody needs, with the marks of their batches and the checkpoints of streams that
	// are over, and gives the position to go on from; 0 when there are no more. Repeating it
	// is no error.
	Prune(ctx context.Context, partition domain.PartitionID, after Position, limit int) (Position, error)
	// ArchivedRanges lists up to limit ranges of a partition that end after a position, in order.
	ArchivedRanges(
		ctx context.Context, partition domain.PartitionID, after Position, limit int,
	) ([]ArchivedRange, error)
	// ArchivedOf lists the ranges that a stream has rows in, in order; of their objects only
	// the tenant's.
	ArchivedOf(ctx context.Context, tenant domain.TenantID, stream domain.StreamID) ([]ArchivedRange, error)
	// Batches lists up to limit batches that the store has after a position, in order.
	Batches(ctx context.Context, partition domain.PartitionID, after Position, limit int) ([]BatchMark, error)
}
