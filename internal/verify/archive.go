package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// ranges examines the archive: that its ranges follow each other and end before the log does,
// and that the objects of each hold exactly what was committed.
func (c *check) ranges(ctx context.Context) (err error) {
	if c.archives, err = archive.RangesOf(ctx, c.image); err != nil {
		return err
	}
	ends := map[domain.PartitionID]store.Position{}
	for _, p := range c.report.Partitions {
		ends[p.Partition] = p.Position
	}
	for _, p := range slices.Sorted(maps.Keys(c.archives)) {
		var before store.ArchivedRange
		for i := range c.archives[p] {
			r := &c.archives[p][i]
			if r.From != before.To || r.Before != before.Digest || r.To >= ends[p] {
				c.found(Finding{Code: ArchiveGap, Partition: p, Position: r.To, Fix: fixStorage,
					Text: fmt.Sprintf("the range %d-%d of the archive does not follow the one before, which ends at %d, "+
						"or the log ends in it, at %d", r.From+1, r.To, before.To, ends[p])})
			}
			before = *r
			if c.Blobs == nil || !c.chosen("archive "+string(p), uint64(r.To)) {
				continue
			}
			if err := c.archivedRange(ctx, r); err != nil {
				return err
			}
		}
	}
	if c.Blobs == nil && len(c.archives) > 0 {
		c.skip("archived history: no folder with its objects was given")
	}
	return nil
}

// archivedRange reads a range and proves it. What is wrong with an object is told once,
// however many streams lie in it.
func (c *check) archivedRange(ctx context.Context, r *store.ArchivedRange) error {
	rows, err := c.reader.Rows(ctx, r)
	var marks []store.BatchMark
	if err == nil {
		marks, err = c.reader.Marks(ctx, r)
	}
	c.report.Objects += int64(1 + len(r.Objects))
	_, size, _ := r.Sizes()
	c.report.Bytes += size
	if c.unread(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.report.Rows += int64(len(rows))
	c.Progress("archive", int64(r.To), 0)
	if err := archive.Proven(r, rows, marks); err != nil {
		c.found(Finding{Code: ArchiveDamaged, Partition: r.Partition, Position: r.To, Object: r.Marks.Object,
			Text: fmt.Sprintf("the range %d-%d of the archive is not what was committed: %v", r.From+1, r.To, err),
			Fix:  fixArchive})
	}
	return nil
}

// unread tells of an object of the archive that an error is about, and reports whether it was.
func (c *check) unread(err error) bool {
	var bad *archive.Damaged
	switch {
	case errors.Is(err, archive.ErrNoObjects):
		c.unreadable = true // told as not examined
		return true
	case !errors.As(err, &bad):
		return false
	}
	c.unreadable = true
	f := Finding{Code: ArchiveDamaged, Object: bad.Object, Text: "what was archived in it can't be read: " + err.Error(),
		Fix: fixArchive}
	if bad.Missing {
		f.Code, f.Text = ArchiveMissing, "what was archived in it is not there"
	}
	c.found(f)
	return true
}

// border is where the walk over a partition's log begins: behind its archive.
func (c *check) border(p domain.PartitionID) store.BatchMark {
	list := c.archives[p]
	if len(list) == 0 {
		return store.BatchMark{}
	}
	last := list[len(list)-1]
	return store.BatchMark{Partition: p, Position: last.To, Epoch: last.Epoch, Digest: last.Digest, At: last.Newest}
}
