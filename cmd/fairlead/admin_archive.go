package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/cli"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// archiveJSON is how much of a partition is archived.
type archiveJSON struct {
	Partition   domain.PartitionID `json:"partition"`
	Position    store.Position     `json:"position"` // where its log ends
	Through     store.Position     `json:"archived_through"`
	Newest      time.Time          `json:"archived_newest,omitzero"`
	Ranges      int64              `json:"ranges"`
	Rows        int64              `json:"rows"`
	EventBytes  int64              `json:"event_bytes"`
	ObjectBytes int64              `json:"object_bytes"`
}

// Archive implements cli.Operator.
func (operator) Archive(ctx context.Context, of cli.Belongings, r cli.ArchiveRequest) (cli.Result, error) {
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	partitions, err := b.archive.Partitions(ctx)
	if err != nil {
		return cli.Result{}, err
	}
	if r.Move {
		if err := b.move(ctx, of, partitions, r.OlderThan); err != nil {
			return cli.Result{}, err
		}
	}
	all := []archiveJSON{}
	var bytes int64
	for _, p := range partitions {
		line, err := b.archived(ctx, p)
		if err != nil {
			return cli.Result{}, err
		}
		all = append(all, line)
	}
	if bytes, err = b.archive.Size(ctx); err != nil {
		return cli.Result{}, err
	}
	value := map[string]any{"partitions": all, "store_bytes": bytes}
	var free int64
	if f, ok := b.archive.(interface {
		Free(ctx context.Context) (int64, error)
	}); ok {
		if free, err = f.Free(ctx); err != nil {
			return cli.Result{}, err
		}
		value["store_free_bytes"] = free
	}
	return cli.Result{Value: value, Text: textOfArchive(all, bytes, free)}, nil
}

// move archives beside a server: the epoch that it finds is the owner's, and the store lets
// nobody archive once another server took over.
func (b *belongings) move(
	ctx context.Context, of cli.Belongings, partitions []store.Ownership, age time.Duration,
) error {
	if err := b.openFolder(ctx); err != nil {
		return err
	}
	if b.blobs == nil {
		return cli.Misuse(fmt.Errorf("%s holds no objects: give the server's own --data, or --shared", b.folder))
	}
	blobs, err := file.OpenShared(filepath.Join(b.folder, "objects"), "archive")
	if err != nil {
		return err
	}
	defer func() { _ = blobs.Close() }()
	var rows int64
	a := archive.New(archive.Config{Log: b.archive, Blobs: blobs, OlderThan: age, All: true,
		Did: func(r *store.ArchivedRange) {
			rows += int64(r.To - r.From)
			of.Progress("archived", rows, 0)
		}})
	for _, p := range partitions {
		if err := a.Partition(ctx, p.Partition, p.Epoch); err != nil {
			return err
		}
	}
	return nil
}

func (b *belongings) archived(ctx context.Context, p store.Ownership) (archiveJSON, error) {
	line := archiveJSON{Partition: p.Partition, Position: p.Position}
	for {
		ranges, err := b.archive.ArchivedRanges(ctx, p.Partition, line.Through, rangesRead)
		if err != nil || len(ranges) == 0 {
			return line, err
		}
		for i := range ranges {
			rows, bytes, raw := ranges[i].Sizes()
			line.Ranges++
			line.Rows, line.ObjectBytes, line.EventBytes = line.Rows+rows, line.ObjectBytes+bytes, line.EventBytes+raw
			line.Through, line.Newest = ranges[i].To, ranges[i].Newest
		}
	}
}

// rangesRead are read at once.
const rangesRead = 500

func textOfArchive(all []archiveJSON, bytes, free int64) string {
	var out strings.Builder
	for _, p := range all {
		if p.Ranges == 0 {
			fmt.Fprintf(&out, "%s: nothing of %d rows is archived\n", p.Partition, p.Position)
			continue
		}
		fmt.Fprintf(&out, "%s: %d of %d rows are archived, up to %s, in %d ranges: %s of events as %s of objects\n",
			p.Partition, p.Rows, p.Position, p.Newest.Format(time.RFC3339), p.Ranges, size(p.EventBytes), size(p.ObjectBytes))
	}
	fmt.Fprintf(&out, "The database takes %s", size(bytes))
	if free > 0 {
		fmt.Fprintf(&out, ", of which later history fills %s before it grows", size(free))
	}
	out.WriteString(".\n")
	return out.String()
}
