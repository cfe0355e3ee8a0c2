package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/backup"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/cli"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/tally"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// operator is cli.Operator: it opens a server's belongings beside the server.
type operator struct{}

var _ cli.Operator = operator{}

// database is the database side of the belongings.
type database interface {
	store.Archive
	store.Sizer
	store.Losses
	archive.Log
	Partitions(ctx context.Context) ([]store.Ownership, error)
	Close() error
}

// belongings are opened without touching what a server has open.
type belongings struct {
	archive database
	kind    string
	folder  string // of objects, mirrors and secrets
	shared  bool   // the folder was named
	missing string // where objects should be and are not
	blobs   blob.Store
	mirrors *git.Mirrors
	closers []func() error
}

func (b *belongings) close() error {
	var errs []error
	for _, c := range b.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// openBeside opens the database.
func openBeside(ctx context.Context, of cli.Belongings) (*belongings, error) {
	b := &belongings{kind: "sqlite", folder: of.Data}
	if of.Store != "" {
		b.kind = "postgres"
		s, err := postgres.Open(ctx, of.Store, postgres.Options{ConnsMax: workersOfOperator, Beside: true})
		if err != nil {
			return nil, err
		}
		b.archive = s.(*postgres.Store)
	} else {
		s, err := sqlite.OpenBeside(ctx, of.Data)
		if errors.Is(err, store.ErrNotFound) {
			return nil, cli.Misuse(fmt.Errorf("%w: name the folder with --data, or the database with --store", err))
		}
		if err != nil {
			return nil, err
		}
		b.archive = s
	}
	if of.Shared != "" {
		b.folder, b.shared = of.Shared, true
	}
	b.closers = append(b.closers, b.archive.Close)
	return b, nil
}

// workersOfOperator bounds the connections to PostgreSQL: an image, a look beside it.
const workersOfOperator = 4

// openFolder opens objects and mirrors, if the folder has them.
func (b *belongings) openFolder(ctx context.Context) error {
	objects := filepath.Join(b.folder, "objects")
	if _, err := os.Stat(objects); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(b.folder); err == nil || b.kind == "sqlite" || b.shared {
			b.missing = objects // of a database alone nobody said where its objects are
		}
		return nil
	}
	blobs, err := file.OpenToRead(objects)
	if err != nil {
		return err
	}
	b.blobs = blobs
	b.closers = append(b.closers, blobs.Close)
	if b.mirrors, err = git.New(ctx, git.Config{Root: filepath.Join(b.folder, "git"), Shared: true}); err != nil {
		return err
	}
	return nil
}

// Backup implements cli.Operator.
func (operator) Backup(ctx context.Context, of cli.Belongings, r cli.BackupRequest) (cli.Result, error) {
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	if err := b.openFolder(ctx); err != nil {
		return cli.Result{}, err
	}
	if b.blobs == nil {
		return cli.Result{}, cli.Misuse(fmt.Errorf("%s holds no objects: give the server's own --data, or --shared",
			b.folder))
	}
	m, err := backup.Make(ctx, backup.Source{Archive: b.archive, Kind: b.kind, Kinds: projection.Kinds(), Blobs: b.blobs,
		Mirrors: b.mirrors, Secrets: b.folder}, backup.Options{Folder: r.Folder, Base: r.Base, WithSecrets: r.Secrets,
		Version: of.Version, Progress: of.Progress})
	if err != nil {
		return cli.Result{}, refusing(err)
	}
	return cli.Result{Value: m, Text: textOfBackup(r.Folder, m), Damaged: len(m.Damage) > 0}, nil
}

// refusing marks what says no: nothing was done.
func refusing(err error) error {
	for code, kind := range map[string]error{"not_empty": backup.ErrNotEmpty, "backup_incomplete": backup.ErrIncomplete,
		"backup_damaged": backup.ErrDamaged, "backup_newer": backup.ErrNewer, "in_use": sqlite.ErrInUse,
		"not_found": store.ErrNotFound} {
		if errors.Is(err, kind) {
			return cli.Refused(code, err)
		}
	}
	return err
}

// Restore implements cli.Operator.
func (operator) Restore(ctx context.Context, to cli.Belongings, r cli.RestoreRequest) (cli.Result, error) {
	folder := to.Data
	if to.Shared != "" {
		folder = to.Shared
	}
	target := backup.Target{Folders: []string{folder}, Secrets: folder,
		Open: func(ctx context.Context) (*backup.Opened, error) { return openEmpty(ctx, to, folder) }}
	out, err := backup.Restore(ctx, target, backup.RestoreOptions{Folder: r.Folder, WithoutSecrets: r.WithoutSecrets,
		Actor: to.Actor, Kinds: projection.Kinds(), Progress: to.Progress})
	if err != nil {
		if _, begun := os.Stat(filepath.Join(folder, backup.MarkFile)); begun == nil && errors.Is(err, backup.ErrDamaged) {
			return cli.Result{}, err // half of it is there: no refusal
		}
		return cli.Result{}, refusing(err)
	}
	return cli.Result{Value: out, Text: textOfRestore(folder, out), Damaged: out.Report.Damaged() ||
		len(out.Manifest.Damage) > 0 || out.Derived.Damaged()}, nil
}

// openEmpty opens a database, objects and mirrors that a restore fills.
func openEmpty(ctx context.Context, to cli.Belongings, folder string) (*backup.Opened, error) {
	var s interface {
		store.Archive
		Close() error
	}
	if to.Store != "" {
		opened, err := postgres.Open(ctx, to.Store, postgres.Options{ConnsMax: workersOfOperator})
		if err != nil {
			return nil, err
		}
		s = opened.(*postgres.Store)
	} else {
		opened, err := sqlite.Open(ctx, to.Data, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		s = opened.(*sqlite.Store)
	}
	blobs, err := file.Open(filepath.Join(folder, "objects"))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	mirrors, err := git.New(ctx, git.Config{Root: filepath.Join(folder, "git")})
	if err != nil {
		return nil, errors.Join(err, blobs.Close(), s.Close())
	}
	return &backup.Opened{Archive: s, Blobs: blobs, Mirrors: mirrors, Pins: mirrors.Pins,
		Close: func() error { return errors.Join(blobs.Close(), s.Close()) }}, nil
}

// Verify implements cli.Operator.
func (operator) Verify(ctx context.Context, of cli.Belongings, r cli.VerifyRequest) (cli.Result, error) {
	if r.Backup != "" {
		m, err := backup.Check(ctx, r.Backup, of.Progress)
		if errors.Is(err, backup.ErrDamaged) { // that is what was asked for, and not a refusal
			return cli.Result{Value: map[string]any{"backup": r.Backup, "damaged": err.Error()},
				Text: fmt.Sprintf("%s: %v\n", r.Backup, err), Damaged: true}, nil
		}
		if err != nil {
			return cli.Result{}, refusing(err)
		}
		return cli.Result{Value: m, Text: textOfManifest(r.Backup, m), Damaged: len(m.Damage) > 0}, nil
	}
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	if err := b.openFolder(ctx); err != nil {
		return cli.Result{}, err
	}
	config := verify.Config{Archive: b.archive, Kinds: projection.Kinds(), Stream: domain.StreamID(r.Stream),
		Percent: r.Percent, Seed: r.Seed, Progress: of.Progress}
	if b.blobs != nil {
		config.Blobs, config.Pins = b.blobs, b.mirrors.Pins
	}
	config.Missing = b.missing
	report, err := verify.Run(ctx, config)
	if err != nil {
		return cli.Result{}, refusing(err)
	}
	return cli.Result{Value: report, Text: textOfReport(report), Damaged: report.Damaged()}, nil
}

// Rebuild implements cli.Operator.
func (operator) Rebuild(ctx context.Context, of cli.Belongings, stream string) (cli.Result, error) {
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	if err := b.openFolder(ctx); err != nil {
		return cli.Result{}, err
	}
	if of.Store == "" {
		release, err := sqlite.Hold(of.Data)
		if errors.Is(err, sqlite.ErrInUse) {
			return cli.Result{}, cli.Refused("in_use", fmt.Errorf("rebuild projections: %w", err))
		}
		if err != nil {
			return cli.Result{}, err
		}
		defer func() { _ = release() }()
	}
	out, err := verify.Rebuild(ctx, verify.RebuildConfig{Archive: b.archive, Kinds: projection.Kinds(),
		Blobs: b.blobs, Stream: domain.StreamID(stream), Progress: of.Progress})
	if err != nil {
		return cli.Result{}, refusing(err)
	}
	return cli.Result{Value: out, Text: textOfRebuilt(out), Damaged: out.Damaged()}, nil
}

// AcceptLoss implements cli.Operator.
func (operator) AcceptLoss(ctx context.Context, of cli.Belongings, r cli.LossRequest) (cli.Result, error) {
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	loss, err := b.archive.RecordLoss(ctx, store.Loss{Partition: domain.PartitionID(r.Partition), Kind: store.LossAccepted,
		Through: store.Position(r.Position), Actor: of.Actor, Note: r.Note, At: time.Now()})
	if errors.Is(err, store.ErrNotFound) {
		return cli.Result{}, cli.Refused("not_found", fmt.Errorf("there is no partition %s: fairlead admin fleet lists them",
			r.Partition))
	}
	if err != nil {
		return cli.Result{}, err
	}
	return cli.Result{Value: lossLine(&loss), Text: fmt.Sprintf("Partition %s goes on from position %d, without what was "+
		"acknowledged up to %d. Recorded for %s.\n", loss.Partition, loss.Held, loss.Through, loss.Actor)}, nil
}

// Losses implements cli.Operator.
func (operator) Losses(ctx context.Context, of cli.Belongings) (cli.Result, error) {
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	partitions, err := b.archive.Partitions(ctx)
	if err != nil {
		return cli.Result{}, err
	}
	all := []lossJSON{}
	for _, p := range partitions {
		losses, err := b.archive.Losses(ctx, p.Partition)
		if err != nil {
			return cli.Result{}, err
		}
		for i := range losses {
			all = append(all, lossLine(&losses[i]))
		}
	}
	return cli.Result{Value: map[string]any{"losses": all}, Text: textOfLosses(all)}, nil
}

// Tally implements cli.Operator.
func (operator) Tally(ctx context.Context, of cli.Belongings, r cli.TallyRequest) (cli.Result, error) {
	b, err := openBeside(ctx, of)
	if err != nil {
		return cli.Result{}, err
	}
	defer func() { _ = b.close() }()
	if err := b.openFolder(ctx); err != nil {
		return cli.Result{}, err
	}
	config := tally.Config{Archive: b.archive, Blobs: b.blobs, From: r.From, To: r.To, Progress: of.Progress}
	if r.Book != "" {
		file, err := os.Open(r.Book)
		if err != nil {
			return cli.Result{}, cli.Misuse(err)
		}
		defer func() { _ = file.Close() }()
		config.Book = file
	}
	report, err := tally.Run(ctx, config)
	if err != nil {
		return cli.Result{}, refusing(err)
	}
	return cli.Result{Value: report, Text: textOfTally(report), Damaged: report.Wrong()}, nil
}
