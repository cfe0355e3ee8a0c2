package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Config says what is examined and how thoroughly.
type Config struct {
	Archive store.Archive
	Kinds   []*engine.Kind
	// Blobs, if set, is where every reference must resolve.
	Blobs blob.Store
	// Missing, if set, names the folder where they should be and is not there.
	Missing string
	// Pins, if set, lists the commits that a repository's mirror keeps for its runs.
	Pins func(ctx context.Context, repo scm.Repo) (map[string]bool, error)

	// Stream, if set, is the only stream that is examined, of whichever tenant has it.
	Stream domain.StreamID
	// Percent, from 1 to 99, examines that share of everything: parts of the log, streams
	// with what they refer to, keys. 0 and 100 examine all. Seed says which share; every
	// stream is in some share.
	Percent int
	Seed    uint64

	Now func() time.Time
	// Progress, if set, is told now and then how far a stage has come. total is 0 where it
	// is not known.
	Progress func(stage string, done, total int64)
}

// check is one examination under way.
type check struct {
	Config
	image  store.Image
	later  store.Image // of a later moment; nil until it is needed
	kinds  map[string]*engine.Kind
	report *Report
	told   map[string]bool // findings that were made already

	reader   *archive.Reader
	archives map[domain.PartitionID][]store.ArchivedRange

	rowsOfStreams int64
	listRows      map[string]int64
	numbers       map[counterKey]*numbered
	objects       map[string]objectState
	pins          map[scm.Repo]map[string]bool
	open          map[attemptKey]uint64 // attempts with a result, without a sealed log: their last chunk
	unreadable    bool                  // some rows can't be read, so that counts say nothing
}

// Run examines the store as it is now. What is damaged is in the report; an error says that
// the examination itself could not go on.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Percent < 0 || cfg.Percent > 100 {
		return nil, fmt.Errorf("verify %d percent: from 1 to 100 are possible", cfg.Percent)
	}
	if cfg.Percent == 100 {
		cfg.Percent = 0
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, int64, int64) {}
	}
	c := &check{Config: cfg, kinds: map[string]*engine.Kind{}, report: &Report{At: cfg.Now().UTC(), Sampled: cfg.Percent,
		Stream: cfg.Stream, Findings: []Finding{}}, told: map[string]bool{}, listRows: map[string]int64{},
		numbers: map[counterKey]*numbered{}, objects: map[string]objectState{},
		pins: map[scm.Repo]map[string]bool{}, open: map[attemptKey]uint64{}}
	for _, k := range cfg.Kinds {
		c.kinds[k.Name] = k
	}
	c.reader = archive.NewReader(cfg.Blobs)
	c.Archive = archive.Beside(cfg.Archive, c.reader)
	image, err := c.Archive.Image(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	c.image = image
	err = c.run(ctx)
	if c.later != nil {
		err = errors.Join(err, c.later.Close())
	}
	if err = errors.Join(err, image.Close()); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	c.report.Took = cfg.Now().Sub(c.report.At)
	return c.report, nil
}

// run goes through the stages. Later ones go on whatever earlier ones found.
func (c *check) run(ctx context.Context) error {
	stages := []func(context.Context) error{
		c.storage, c.partitions, c.ranges, c.chains, c.streams, c.missingHeads, c.orphans, c.keys, c.counters, c.cursors,
		c.segments,
	}
	if c.Stream != "" {
		stages = []func(context.Context) error{c.partitions, c.streams}
		c.skip("everything but the stream: it was asked for alone")
	}
	if c.Missing != "" {
		c.found(Finding{Code: ObjectMissing, Object: c.Missing, Fix: fixObject,
			Text: "the folder of objects is not there: nothing that history names was examined"})
	}
	for _, stage := range stages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) skip(form string, args ...any) {
	c.report.NotExamined = append(c.report.NotExamined, fmt.Sprintf(form, args...))
}

// found keeps a finding; the same place is told once.
func (c *check) found(f Finding) {
	id := fmt.Sprintf("%s|%s|%s", f.Code, f.Tenant, f.Place())
	if c.told[id] {
		return
	}
	if len(c.report.Findings) >= findingsMax {
		c.report.More++
		return
	}
	c.told[id] = true
	c.report.Findings = append(c.report.Findings, f)
}

// storage asks the database what it thinks of its own files.
func (c *check) storage(ctx context.Context) error {
	if c.Percent != 0 {
		c.skip("the database's own files: only a whole examination reads them")
		return nil
	}
	c.Progress("storage", 0, 0)
	damaged, err := c.Archive.Examine(ctx)
	if errors.Is(err, store.ErrBroken) {
		damaged, err = append(damaged, err.Error()), nil
	}
	for _, text := range damaged {
		c.found(Finding{Code: StorageDamaged, Table: text, Text: "the database says: " + text, Fix: fixStorage})
	}
	return err
}

// partitions reads where every log ends.
func (c *check) partitions(ctx context.Context) error {
	return c.scan(ctx, store.TablePartitions, func(row []any) error {
		c.report.Partitions = append(c.report.Partitions, store.PartitionOf(row))
		return nil
	})
}

// scan reads a whole table. Where rows can't be read, it goes on from the other end, so
// that damage costs no more than what lies between.
func (c *check) scan(ctx context.Context, table string, each func(row []any) error) error {
	return scanAll(ctx, c.image, table, each, func(at []any, err error) {
		c.unreadable = true
		c.found(Finding{Code: TableUnreadable, Table: table,
			Text: fmt.Sprintf("rows beyond %v can't be read: %v", at, err), Fix: fixOfTable(table)})
	})
}

func fixOfTable(table string) string {
	if t, _ := store.TableNamed(table); t.Derived {
		return "back up, then restore into another folder or database: " + table + " is made anew from events"
	}
	return fixStorage
}

// reader is what an Image and a Rewriter have in common.
type reader interface {
	Scan(ctx context.Context, table string, page store.Page) ([][]any, error)
	Get(ctx context.Context, table string, key []any) ([]any, error)
	Load(
		ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
	) (store.History, error)
}

// ScanAll reads a whole table from an image, from both ends where something in between
// can't be read; damaged is told from where.
func ScanAll(
	ctx context.Context, image store.Image, table string, each func(row []any) error, damaged func(at []any, err error),
) error {
	return scanAll(ctx, image, table, each, damaged)
}

func scanAll(
	ctx context.Context, from reader, table string, each func([]any) error, damaged func([]any, error),
) error {
	t, _ := store.TableNamed(table)
	var last []any
	for {
		rows, err := from.Scan(ctx, table, store.Page{From: last, Limit: pageRows})
		if errors.Is(err, store.ErrBroken) {
			return scanBroken(ctx, from, &t, last, each, damaged)
		}
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := each(row); err != nil {
				return err
			}
			last = row[:t.Key]
		}
		if len(rows) < pageRows {
			return nil
		}
	}
}

// scanBroken goes on row by row up to the damage, then from the end backwards.
func scanBroken(
	ctx context.Context, from reader, t *store.Table, last []any, each func([]any) error, damaged func([]any, error),
) error {
	for {
		rows, err := from.Scan(ctx, t.Name, store.Page{From: last, Limit: 1})
		if errors.Is(err, store.ErrBroken) {
			damaged(last, err)
			break
		}
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := each(rows[0]); err != nil {
			return err
		}
		last = rows[0][:t.Key]
	}
	var tail [][]any
	var before []any
	for {
		rows, err := from.Scan(ctx, t.Name, store.Page{From: before, Back: true, Limit: 1})
		if err != nil && !errors.Is(err, store.ErrBroken) {
			return err
		}
		if err != nil || len(rows) == 0 || last != nil && !lessKey(last, rows[0][:t.Key]) {
			break
		}
		tail = append(tail, rows[0])
		before = rows[0][:t.Key]
	}
	for i := len(tail) - 1; i >= 0; i-- {
		if err := each(tail[i]); err != nil {
			return err
		}
	}
	return nil
}

// lessKey compares keys as databases order them: texts by bytes.
func lessKey(a, b []any) bool {
	for i := range a {
		switch x := a[i].(type) {
		case string:
			if y := b[i].(string); x != y {
				return x < y
			}
		case int64:
			if y := b[i].(int64); x != y {
				return x < y
			}
		}
	}
	return false
}
