package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Rebuilt is what making derived records anew came to.
type Rebuilt struct {
	Streams     int64            `json:"streams"`
	Heads       int64            `json:"heads_changed"`
	Lists       map[string]int64 `json:"list_rows_changed"`
	Orphans     int64            `json:"list_rows_removed"`
	Checkpoints int64            `json:"checkpoints_dropped"`
	// Findings are streams whose history can't be followed: their records stay as they are.
	Findings []Finding `json:"findings"`
}

// RebuildConfig says what is made anew.
type RebuildConfig struct {
	Archive store.Archive
	Kinds   []*engine.Kind
	// Blobs, if set, is where the objects of archived history are.
	Blobs blob.Store
	// Stream, if set, is the only stream whose records are made anew.
	Stream domain.StreamID
	// HeadsThere: every stream of the log has a head, so none is looked for.
	HeadsThere bool
	Progress   func(stage string, done, total int64)
}

// Rebuild makes heads, list rows and checkpoints anew from events, a few streams per
// transaction: appends of a running server wait that long and no longer. Records that are
// right are not written.
func Rebuild(ctx context.Context, cfg RebuildConfig) (*Rebuilt, error) {
	r := &rebuild{RebuildConfig: cfg, kinds: map[string]*engine.Kind{},
		out: &Rebuilt{Lists: map[string]int64{}, Findings: []Finding{}}}
	r.Archive = archive.Beside(cfg.Archive, archive.NewReader(cfg.Blobs))
	for _, k := range cfg.Kinds {
		r.kinds[k.Name] = k
	}
	if r.Progress == nil {
		r.Progress = func(string, int64, int64) {}
	}
	if err := r.headless(ctx); err != nil {
		return nil, fmt.Errorf("rebuild projections: %w", err)
	}
	var from []any
	for {
		var rows [][]any
		err := r.Archive.Rewrite(ctx, func(w store.Rewriter) (err error) {
			if rows, err = w.Scan(ctx, store.TableStreams, store.Page{From: from, Limit: rebuildStreams}); err != nil {
				return err
			}
			return r.page(ctx, w, rows)
		})
		if err != nil {
			return nil, fmt.Errorf("rebuild projections: %w", err)
		}
		r.Progress("streams", r.out.Streams, 0)
		if len(rows) < rebuildStreams {
			break
		}
		from = rows[len(rows)-1][:2]
	}
	if cfg.Stream != "" && r.out.Streams == 0 {
		return nil, fmt.Errorf("rebuild projections of %s: %w", cfg.Stream, store.ErrNotFound)
	}
	if err := r.orphans(ctx); err != nil {
		return nil, fmt.Errorf("rebuild projections: %w", err)
	}
	return r.out, nil
}

// Derive is Rebuild inside a transaction of the caller's: for a store that was just filled
// with history.
func Derive(ctx context.Context, w store.Rewriter, cfg RebuildConfig) (*Rebuilt, error) {
	cfg.Archive = within{w}
	return Rebuild(ctx, cfg)
}

// within is an archive that is one transaction.
type within struct{ store.Rewriter }

// Image implements store.Archive.
func (a within) Image(context.Context) (store.Image, error) { return a, nil }

// Close implements store.Image.
func (within) Close() error { return nil }

// Rewrite implements store.Archive.
func (a within) Rewrite(_ context.Context, work func(store.Rewriter) error) error { return work(a) }

// Examine implements store.Archive.
func (within) Examine(context.Context) ([]string, error) { return nil, nil }

type rebuild struct {
	RebuildConfig
	kinds map[string]*engine.Kind
	out   *Rebuilt
}

// headless gives every stream of the log a head, so that the pages below find it.
func (r *rebuild) headless(ctx context.Context) (err error) {
	if r.HeadsThere {
		return nil
	}
	image, err := r.Archive.Image(ctx)
	if err != nil {
		return err
	}
	var heads [][]any
	err = eachHeadless(ctx, image, func(p domain.PartitionID, row *store.Row) error {
		heads = append(heads, store.HeadRow(p, store.Head{Tenant: row.Tenant, Stream: row.Stream, Version: row.Version,
			Live: true}))
		return nil
	})
	if err = errors.Join(err, image.Close()); err != nil || len(heads) == 0 {
		return err
	}
	return r.Archive.Rewrite(ctx, func(w store.Rewriter) error {
		for _, head := range heads {
			_, err := w.Get(ctx, store.TableStreams, head[:2])
			if errors.Is(err, store.ErrNotFound) {
				err = w.Put(ctx, store.TableStreams, [][]any{head})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *rebuild) page(ctx context.Context, w store.Rewriter, rows [][]any) error {
	for _, row := range rows {
		p, head := store.HeadOf(row)
		if r.Stream != "" && head.Stream != r.Stream {
			continue
		}
		if err := r.stream(ctx, w, p, head); err != nil {
			return err
		}
	}
	return nil
}

// stream makes one stream's records anew. Damaged history changes nothing but the head of a
// stream that nobody would look at: a live head makes the server load it, find the damage
// and show it.
func (r *rebuild) stream(ctx context.Context, w store.Rewriter, p domain.PartitionID, head store.Head) error {
	r.out.Streams++
	broken := func(version uint64, at store.Position, why string) error {
		r.out.Findings = append(r.out.Findings, Finding{Code: StreamUnreadable, Partition: p, Tenant: head.Tenant,
			Stream: head.Stream, Version: version, Position: at, Text: why, Fix: fixHistory})
		return nil
	}
	kind := r.kinds[head.Stream.Kind()]
	if kind == nil {
		return broken(0, 0, "no such kind of stream is known")
	}
	h, err := w.Load(ctx, head.Tenant, head.Stream, false, kind.Encoding)
	if errors.Is(err, store.ErrBroken) {
		return broken(0, 0, err.Error())
	}
	if err != nil {
		return err
	}
	got, err := replay(kind, p, h.Rows, nil)
	var bad *Broken
	if errors.As(err, &bad) {
		if err := broken(bad.Version, bad.Position, bad.Why); err != nil {
			return err
		}
		return r.lists(ctx, w, &got, true)
	}
	if got.Version == 0 {
		return broken(0, 0, "it has a head and no history")
	}
	if want := store.HeadRow(p, got.Head); !slices.Equal(want, store.HeadRow(p, head)) {
		r.out.Heads++
		if err := w.Put(ctx, store.TableStreams, [][]any{want}); err != nil {
			return err
		}
	}
	if err := r.lists(ctx, w, &got, false); err != nil {
		return err
	}
	return r.checkpoint(ctx, w, kind, head, h.Rows)
}

// lists writes list rows that differ; of a damaged stream only those that are missing,
// since what is there may know more than the part of its history that is left.
func (r *rebuild) lists(ctx context.Context, w store.Rewriter, got *Replayed, missingOnly bool) error {
	rows := tableRows(got.Lists)
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		t, _ := store.TableNamed(table)
		for _, want := range rows[table] {
			have, err := w.Get(ctx, table, want[:t.Key])
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil && (missingOnly || differing(&t, have, want) == "") {
				continue
			}
			r.out.Lists[table]++
			if err := w.Put(ctx, table, [][]any{want}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkpoint drops a saved state that is not what history leads to. The server saves a new
// one when the stream has grown.
func (r *rebuild) checkpoint(
	ctx context.Context, w store.Rewriter, kind *engine.Kind, head store.Head, rows []store.Row,
) error {
	key := []any{string(head.Tenant), string(head.Stream)}
	row, err := w.Get(ctx, store.TableCheckpoints, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	s := &saved{there: uint32(row[3].(int64)) == kind.Encoding, version: uint64(row[2].(int64)), state: row[4].([]byte)}
	if s.there && s.verdict(kind, rows) == "" {
		return nil
	}
	r.out.Checkpoints++
	return w.Delete(ctx, store.TableCheckpoints, [][]any{key})
}

// orphans removes list rows that no stream has.
func (r *rebuild) orphans(ctx context.Context) error {
	if r.Stream != "" {
		return nil
	}
	tables := listTables()
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		t, _ := store.TableNamed(table)
		image, err := r.Archive.Image(ctx)
		if err != nil {
			return err
		}
		var keys [][]any
		err = eachOrphan(ctx, image, table, tables[table], func(row []any, _ domain.StreamID) error {
			keys = append(keys, row[:t.Key])
			return nil
		})
		if err = errors.Join(err, image.Close()); err != nil {
			return err
		}
		if len(keys) == 0 {
			continue
		}
		r.out.Orphans += int64(len(keys))
		if err := r.Archive.Rewrite(ctx, func(w store.Rewriter) error { return w.Delete(ctx, table, keys) }); err != nil {
			return err
		}
	}
	return nil
}

// Damaged reports whether some stream could not be followed.
func (r *Rebuilt) Damaged() bool { return len(r.Findings) > 0 }

// Changed reports whether anything was not as history says.
func (r *Rebuilt) Changed() bool {
	var lists int64
	for _, n := range r.Lists {
		lists += n
	}
	return r.Heads+lists+r.Orphans+r.Checkpoints > 0
}
