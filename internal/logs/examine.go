package logs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Examine reads all of a sealed log: its digest, its index, every block. It says how many
// stored bytes it read. Whatever does not agree with ref is a *Damage; a log that is not
// there is blob.ErrNotFound.
func Examine(ctx context.Context, store blob.Store, attempt domain.AttemptID, ref Ref) (int64, error) {
	r, err := store.Open(ctx, ref.Object, ref.Offset, ref.Length)
	if err != nil {
		return 0, fmt.Errorf("read log object %s: %w", ref.Object, err)
	}
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return n, fmt.Errorf("read log object %s: %w", ref.Object, err)
	}
	damage := func(offset int64, form string, args ...any) error {
		return &Damage{Object: ref.Object, Offset: ref.Offset + offset, Why: fmt.Sprintf(form, args...)}
	}
	if n != ref.Length {
		return n, damage(n, "%d bytes, not %d", n, ref.Length)
	}
	if got := domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil))); got != ref.Digest {
		return n, damage(0, "the bytes digest to %s, not %s%s", got, ref.Digest, firstBroken(ctx, store, &ref))
	}
	x, err := readIndex(ctx, store, &ref)
	if err != nil {
		return n, err
	}
	if x.attempt != attempt {
		return n, damage(0, "is the log of %.80s", x.attempt)
	}
	if x.tally.offset != ref.Bytes || x.tally.lines != ref.Lines || x.tally.gaps != ref.Gaps ||
		x.tally.truncated != ref.Truncated {
		return n, damage(0, "has %d bytes, %d lines and %d gaps; history says %d, %d and %d",
			x.tally.offset, x.tally.lines, x.tally.gaps, ref.Bytes, ref.Lines, ref.Gaps)
	}
	return n, eachBlock(ctx, store, x, &ref)
}

// eachBlock decodes every block; the first that can't be is the error.
func eachBlock(ctx context.Context, store blob.Store, x *index, ref *Ref) error {
	codec := newCodec()
	for i := range x.blocks {
		b := &x.blocks[i]
		stored, err := readRange(ctx, store, ref.Object, ref.Offset+b.place, int64(b.detail)+int64(b.packed))
		if err != nil {
			return err
		}
		if _, err := codec.decodeBlock(b, stored); err != nil {
			return &Damage{Object: ref.Object, Offset: ref.Offset + b.place, Why: err.Error()}
		}
	}
	return nil
}

// firstBroken says which part of a damaged log can't be read, for people; "" when it can't
// be told.
func firstBroken(ctx context.Context, store blob.Store, ref *Ref) string {
	x, err := readIndex(ctx, store, ref)
	if err == nil {
		err = eachBlock(ctx, store, x, ref)
	}
	var damage *Damage
	if errors.As(err, &damage) {
		return fmt.Sprintf("; at byte %d: %s", damage.Offset, damage.Why)
	}
	return ""
}

// ChunkFound is a chunk that a segment holds, with its checksum verified.
type ChunkFound struct {
	Attempt  domain.AttemptID
	Sequence uint64
	// Gap: it stands for every missing chunk before it, which will never come.
	Gap bool
}

// SegmentFound is a segment as ExamineSegments found it.
type SegmentFound struct {
	Key    string
	Tenant domain.TenantID
	Bytes  int64
	Chunks []ChunkFound // those whose bytes are whole
	Err    error        // what is damaged; nil when nothing is
}

// ExamineSegments reads every segment of logs that are not sealed, with every chunk in it.
// Beside a server, segments that are removed meanwhile are passed over: what they held is
// in another segment, or in a sealed log.
func ExamineSegments(ctx context.Context, store blob.Store, each func(SegmentFound)) error {
	after := ""
	for {
		entries, err := store.List(ctx, segmentPrefix(""), after, recoverPage)
		if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			found, err := examineSegment(ctx, store, e)
			if errors.Is(err, blob.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			each(found)
		}
		after = entries[len(entries)-1].Key
	}
}

func examineSegment(ctx context.Context, store blob.Store, e blob.Entry) (SegmentFound, error) {
	found := SegmentFound{Key: e.Key, Bytes: e.Size}
	c, err := readContents(ctx, store, e.Key, e.Size)
	if errors.Is(err, ErrDamaged) {
		found.Err = err
		return found, nil
	}
	if err != nil {
		return found, err
	}
	found.Tenant = c.tenant
	for i := range c.records {
		r := &c.records[i]
		text, err := readRange(ctx, store, e.Key, r.data, int64(r.length))
		if err == nil && domain.Checksum(text) != r.checksum {
			err = &Damage{Object: e.Key, Offset: r.data, Why: fmt.Sprintf("chunk %d of %s has another checksum",
				r.sequence, c.attempts[r.attempt])}
		}
		if errors.Is(err, ErrDamaged) {
			found.Err = errors.Join(found.Err, err)
			continue
		}
		if err != nil {
			return found, err
		}
		found.Chunks = append(found.Chunks, ChunkFound{c.attempts[r.attempt], r.sequence, gapMark(r.mark)})
	}
	return found, nil
}
