package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// Target is where a server is made of a backup.
type Target struct {
	// Folders must be empty, or not there yet: the data folder, and the shared one of a
	// fleet if it has one. The first carries the mark of a restore that is under way.
	Folders []string
	// Secrets is the one of them that keys/ and credentials/ go to.
	Secrets string
	// Open opens database, objects and mirrors, once the folders were found empty.
	Open func(ctx context.Context) (*Opened, error)
}

// Opened is an empty server's belongings.
type Opened struct {
	Archive store.Archive
	Blobs   blob.Store
	Mirrors Mirrors
	// Pins lists the commits that a mirror keeps, for the examination afterwards.
	Pins  func(ctx context.Context, repo scm.Repo) (map[string]bool, error)
	Close func() error
}

// RestoreOptions say what is restored.
type RestoreOptions struct {
	Folder string // of the backup
	// WithoutSecrets leaves keys and credentials of the backup out: the server makes new ones.
	WithoutSecrets bool
	Actor          string // who restores, for the record
	Kinds          []*engine.Kind
	Now            func() time.Time
	Progress       func(stage string, done, total int64)
}

// Restored is what a restore came to.
type Restored struct {
	Manifest *Manifest       `json:"backup"`
	Losses   []store.Loss    `json:"-"`
	Derived  *verify.Rebuilt `json:"derived"`
	Report   *verify.Report  `json:"report"` // of the examination afterwards
	Secrets  bool            `json:"secrets"`
}

// MarkFile says that a restore into the folder did not come to its end.
const MarkFile = "RESTORING"

// CheckFolder refuses a data folder that a restore has not finished: a server must not
// start on half of its belongings.
func CheckFolder(folder string) error {
	_, err := os.Stat(filepath.Join(folder, MarkFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("a restore into %s did not come to its end: empty the folder (and the database) and restore again",
		folder)
}

// restoring is one restore under way.
type restoring struct {
	RestoreOptions
	target Target
	to     *Opened
	from   *contents
	out    *Restored
}

// Restore makes a server's belongings of a backup. Every byte is compared with its digest
// on the way, the database is filled in one transaction, and at the end everything is
// examined as verify does. The epoch of every partition is raised, and the fact recorded:
// whoever presents something of the future that is lost now stops its partition.
func Restore(ctx context.Context, target Target, o RestoreOptions) (*Restored, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	m, err := ReadManifest(o.Folder)
	if err != nil {
		return nil, err
	}
	r := &restoring{RestoreOptions: o, target: target, from: newContents(o.Folder, nil),
		out: &Restored{Manifest: m, Secrets: m.Secrets && !o.WithoutSecrets}}
	if err := r.run(ctx, m); err != nil {
		return nil, fmt.Errorf("restore %s: %w", o.Folder, err)
	}
	return r.out, nil
}

func (r *restoring) run(ctx context.Context, m *Manifest) (err error) {
	for _, f := range []struct {
		name string
		want Described
	}{{recordsFile, m.Records}, {listFile, m.List}} {
		if err := matches(filepath.Join(r.Folder, f.name), f.want); err != nil {
			return err
		}
	}
	if err := r.begin(); err != nil {
		return err
	}
	if r.to, err = r.target.Open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.to.Close()) }()
	if err := r.emptyStore(ctx); err != nil {
		return err
	}
	if err := r.files(ctx); err != nil {
		return err
	}
	if err := r.to.Archive.Rewrite(ctx, func(w store.Rewriter) error { return r.records(ctx, w) }); err != nil {
		return err
	}
	r.out.Report, err = verify.Run(ctx, verify.Config{Archive: r.to.Archive, Kinds: r.Kinds, Blobs: r.to.Blobs,
		Pins: r.to.Pins, Now: r.Now, Progress: r.Progress})
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.target.Folders[0], MarkFile)); err != nil {
		return err
	}
	return syncFolder(r.target.Folders[0])
}

// begin takes the folders.
func (r *restoring) begin() error {
	for _, folder := range r.target.Folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		if err := empty(folder); err != nil {
			return err
		}
	}
	first := r.target.Folders[0]
	return writeDurably(filepath.Join(first, MarkFile),
		[]byte("A restore into this folder is under way, or did not come to "+
			"its end.\nNo server starts here until it has.\n"))
}

// emptyStore refuses a database that holds anything.
func (r *restoring) emptyStore(ctx context.Context) error {
	image, err := r.to.Archive.Image(ctx)
	if err != nil {
		return err
	}
	for _, t := range store.Schema() {
		rows, scanned := image.Scan(ctx, t.Name, store.Page{Limit: 1})
		if err = errors.Join(err, scanned); err == nil && len(rows) > 0 {
			err = fmt.Errorf("the database has rows in table %s: %w", t.Name, ErrNotEmpty)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, image.Close())
}

// files puts objects, mirrors and secrets back, several at once.
func (r *restoring) files(ctx context.Context) error {
	counts := r.out.Manifest.Counts
	total := counts.Objects + counts.Mirrors + counts.Secrets
	var done int64
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(2 * workers) // they wait for syncs, mostly
	err := eachEntry(r.Folder, func(e *entry) error {
		if err := within.Err(); err != nil {
			return err
		}
		if done++; done%rowsTold == 0 {
			r.Progress("files", done, total)
		}
		group.Go(func() error { return r.file(within, e) })
		return nil
	})
	return errors.Join(group.Wait(), err)
}

func (r *restoring) file(ctx context.Context, e *entry) error {
	switch {
	case e.Kind == kindSecret && r.WithoutSecrets:
		return nil
	case e.Kind == kindMirror && e.Digest == "":
		return r.mirror(ctx, e, nil)
	}
	content, err := r.from.open(e)
	if err != nil {
		return err
	}
	switch e.Kind {
	case kindObject:
		err = r.to.Blobs.Put(ctx, e.Name, content, e.Bytes)
	case kindMirror:
		err = r.mirror(ctx, e, content)
	case kindSecret:
		var text bytes.Buffer
		if _, err = text.ReadFrom(io.LimitReader(content, secretBytesMax+1)); err == nil {
			err = restoreSecret(r.target.Secrets, e, &text)
		}
	default:
		err = fmt.Errorf("a file of kind %q: %w", e.Kind, ErrNewer)
	}
	if err = errors.Join(err, content.Close()); err != nil {
		return fmt.Errorf("restore %s %s: %w", e.Kind, e.Name, err)
	}
	return nil
}

func (r *restoring) mirror(ctx context.Context, e *entry, bundle io.Reader) error {
	tenant, repository, ok := strings.Cut(e.Name, "/")
	if !ok {
		return fmt.Errorf("restore mirror %.100q: %w", e.Name, ErrDamaged)
	}
	return r.to.Mirrors.Unbundle(ctx, scm.Repo{Tenant: domain.TenantID(tenant),
		Repository: domain.RepositoryID(repository)},
		bundle)
}

// records fills the database and makes of history what is derived from it.
func (r *restoring) records(ctx context.Context, w store.Rewriter) error {
	file, err := os.Open(filepath.Join(r.Folder, recordsFile))
	if err != nil {
		return err
	}
	in := &filling{restoring: r, w: w}
	reader := &recordReader{table: func(*store.Table) error { return in.flush(ctx) },
		row: func(t *store.Table, values []any) error { return in.row(ctx, t, values) }}
	err = reader.read(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	for _, l := range r.out.Losses {
		if err := w.Put(ctx, store.TableLosses, [][]any{store.LossRow(l)}); err != nil {
			return err
		}
	}
	r.out.Derived, err = verify.Derive(ctx, w, verify.RebuildConfig{Kinds: r.Kinds, Blobs: r.to.Blobs, HeadsThere: true,
		Progress: r.Progress})
	if err != nil {
		return err
	}
	return r.incomplete(ctx, w)
}

// incomplete gives streams that the backup has only a part of the head that they had: a
// server then finds them damaged, instead of going on as if the rest had never been.
func (r *restoring) incomplete(ctx context.Context, w store.Rewriter) error {
	for i := range r.out.Manifest.Damage {
		f := &r.out.Manifest.Damage[i]
		if f.Code != verify.StreamUnreadable || f.Version == 0 {
			continue
		}
		head := store.HeadRow(f.Partition, store.Head{Tenant: f.Tenant, Stream: f.Stream, Version: f.Version, Live: true})
		if err := w.Put(ctx, store.TableStreams, [][]any{head}); err != nil {
			return err
		}
	}
	return nil
}

// filling collects rows and puts them many at a time.
type filling struct {
	*restoring
	w     store.Rewriter
	table string
	rows  [][]any
	done  int64
}

func (f *filling) row(ctx context.Context, t *store.Table, values []any) error {
	if t.Name == store.TablePartitions {
		own := store.PartitionOf(values)
		epoch := store.EpochAfterLoss(own.Epoch)
		now := f.Now().UTC()
		values[1], values[4], values[5] = int64(epoch), "", now.UnixMicro()
		f.out.Losses = append(f.out.Losses, store.Loss{Partition: own.Partition, Kind: store.LossRestored, Epoch: epoch,
			Held: own.Position, Digest: own.Digest, Actor: f.Actor, At: store.StoredTime(now),
			Note: fmt.Sprintf("backup %s of %s", f.out.Manifest.Digest, f.out.Manifest.At.Format(time.RFC3339))})
	}
	f.table = t.Name
	f.rows = append(f.rows, values)
	if f.done++; f.done%rowsTold == 0 {
		f.Progress("history", f.done, f.out.Manifest.Counts.Rows)
	}
	if len(f.rows) < pageRows {
		return nil
	}
	return f.flush(ctx)
}

// flush puts what was collected. Rows of the log leave a head each, so that their streams
// are found and made whole afterwards.
func (f *filling) flush(ctx context.Context) error {
	rows := f.rows
	f.rows = nil
	if len(rows) == 0 {
		return nil
	}
	if err := f.w.Put(ctx, f.table, rows); err != nil {
		return err
	}
	if f.table != store.TableLog && f.table != store.TableArchivedStreams {
		return nil
	}
	at := map[[2]string]int{}
	var heads [][]any
	for _, values := range rows {
		p, made := place(f.table, values)
		head := store.HeadRow(p, made)
		key := [2]string{string(made.Tenant), string(made.Stream)}
		if i, twice := at[key]; twice {
			heads[i] = head // positions grow, and versions with them
			continue
		}
		at[key] = len(heads)
		heads = append(heads, head)
	}
	return f.w.Put(ctx, store.TableStreams, heads)
}

// place is the head that a row of the log or of the archive leaves.
func place(table string, values []any) (domain.PartitionID, store.Head) {
	if table == store.TableArchivedStreams {
		return domain.PartitionID(values[3].(string)), store.Head{Tenant: domain.TenantID(values[0].(string)),
			Stream: domain.StreamID(values[1].(string)), Version: 1, Live: true}
	}
	p, row := store.LogOf(values)
	return p, store.Head{Tenant: row.Tenant, Stream: row.Stream, Version: row.Version, Live: true}
}

// Check compares every byte of a backup with its digest, without restoring it.
func Check(ctx context.Context, folder string, progress func(stage string, done, total int64)) (*Manifest, error) {
	m, err := ReadManifest(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name string
		want Described
	}{{recordsFile, m.Records}, {listFile, m.List}} {
		if err := matches(filepath.Join(folder, f.name), f.want); err != nil {
			return m, fmt.Errorf("check backup %s: %w", folder, err)
		}
	}
	from := newContents(folder, nil)
	var broken []error
	var done int64
	err = eachEntry(folder, func(e *entry) error {
		if done++; done%rowsTold == 0 && progress != nil {
			progress("files", done, m.Counts.Objects+m.Counts.Mirrors+m.Counts.Secrets)
		}
		if e.Digest == "" {
			return ctx.Err()
		}
		content, err := from.open(e)
		if err == nil {
			_, err = io.Copy(io.Discard, reader{ctx, content})
			err = errors.Join(err, content.Close())
		}
		if err != nil && len(broken) < damageMax {
			broken = append(broken, err)
		}
		return ctx.Err()
	})
	if err = errors.Join(append(broken, err)...); err != nil {
		return m, fmt.Errorf("check backup %s: %w", folder, err)
	}
	return m, nil
}
