package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// Mirrors is what backups need of the mirrors of repositories.
type Mirrors interface {
	// Mirrored lists the repositories that have a mirror.
	Mirrored(ctx context.Context) ([]scm.Repo, error)
	// RefsDigest is a digest of all refs; empty when there is none.
	RefsDigest(ctx context.Context, repo scm.Repo) (domain.Digest, error)
	// Bundle writes all refs, and what they lead to, as a git bundle.
	Bundle(ctx context.Context, repo scm.Repo, w io.Writer) error
	// Unbundle makes a mirror of a bundle; nil makes an empty one.
	Unbundle(ctx context.Context, repo scm.Repo, r io.Reader) error
}

// Source is a server's belongings.
type Source struct {
	Archive store.Archive
	Kind    string // of database, for people: "sqlite", "postgres"
	Kinds   []*engine.Kind
	Blobs   blob.Store
	Mirrors Mirrors
	// Secrets is the folder that holds keys/ and credentials/.
	Secrets string
}

// Options say where a backup goes and what it holds.
type Options struct {
	Folder string // of the backup: not there yet, or empty
	Base   string // of an earlier backup that unchanged files are taken from; "": none
	// WithSecrets adds keys and credentials. Whoever reads such a backup can sign orders to
	// runners and sign in as the administrator.
	WithSecrets bool
	Version     string // of the program
	Now         func() time.Time
	Progress    func(stage string, done, total int64)
}

// workers copy objects side by side: waiting for disks, mostly.
const workers = 4

// making is one backup under way.
type making struct {
	Source
	Options
	manifest *Manifest
	contents *contents
	list     *listWriter
	base     *earlier
	holes    bool                     // the log has rows that the backup has not
	sealed   map[string]domain.Digest // what history says of sealed logs; only with a base
	mirrored map[string]bool          // mirrors of which is known whether they are in it
	open     map[openLog]bool         // logs that the copied history has still to seal
	copied   map[string]bool          // objects by their keys
	reader   *archive.Reader
	through  map[domain.PartitionID]int64 // where the archive of a partition ends
	era      uint64                       // the last of the logs
	reopened uint32                       // segments that were made again

	mu     sync.Mutex // of what is noted while objects are copied side by side
	listed int        // damage, but for streams
}

// Make makes a backup, beside a running server if there is one. Damage of the server's
// belongings does not keep the rest from being saved: it is listed in the manifest.
func Make(ctx context.Context, from Source, o Options) (*Manifest, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	m := &making{Source: from, Options: o, sealed: map[string]domain.Digest{}, mirrored: map[string]bool{},
		open: map[openLog]bool{}, copied: map[string]bool{},
		reader: archive.NewReader(from.Blobs), through: map[domain.PartitionID]int64{},
		manifest: &Manifest{Format: Format, At: o.Now().UTC(), Version: o.Version, Store: from.Kind,
			Secrets: o.WithSecrets}}
	if err := m.make(ctx); err != nil {
		return nil, fmt.Errorf("back up to %s: %w", o.Folder, err)
	}
	return m.manifest, nil
}

func (m *making) make(ctx context.Context) (err error) {
	if m.Base != "" { // before anything is made: a base that can't be used makes no folder
		if m.base, err = openEarlier(m.Base); err != nil {
			return fmt.Errorf("use %s as the base: %w", m.Base, err)
		}
	}
	if err := begin(m.Folder); err != nil {
		return err
	}
	if m.base != nil {
		m.manifest.Base = m.base.manifest.Digest
		m.contents = newContents(m.Folder, newContents(m.Base, nil))
	} else {
		m.contents = newContents(m.Folder, nil)
	}
	// History first: what it refers to was durable before it, so a copy that is made
	// afterwards has it.
	if err := m.records(ctx); err != nil {
		return err
	}
	if m.list, err = newListWriter(m.Folder); err != nil {
		return err
	}
	if err := m.objects(ctx); err != nil {
		return err
	}
	if err := m.reopen(ctx); err != nil {
		return err
	}
	if err := m.mirrors(ctx); err != nil {
		return err
	}
	if err := m.secrets(ctx); err != nil {
		return err
	}
	if m.manifest.List, err = m.list.close(); err != nil {
		return err
	}
	if err := m.references(ctx); err != nil {
		return err
	}
	return m.finish()
}

// begin takes the folder. A backup that did not come to its end says so in a file that
// people see.
func begin(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := empty(folder); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, incompleteFile), []byte("This backup did not come to its end. "+
		"It can't be restored; delete the folder.\n"), 0o600)
}

// empty refuses a folder with anything in it, but for what file systems put there.
func empty(folder string) error {
	names, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n.Name() != "lost+found" {
			return fmt.Errorf("%s has %s in it: %w", folder, n.Name(), ErrNotEmpty)
		}
	}
	return nil
}

// damaged notes what could not be saved. Streams of which a part is lost are all listed: a restore
// needs them, or they would go on as if the rest had never been.
func (m *making) damaged(f verify.Finding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.Code == verify.StreamUnreadable || m.listed < damageMax {
		m.manifest.Damage = append(m.manifest.Damage, f)
	}
	if f.Code != verify.StreamUnreadable {
		m.listed++
	}
}

// damageMax bounds the list of damage in a manifest, but for streams.
const damageMax = 1000

// records writes the history of one moment.
func (m *making) records(ctx context.Context) error {
	image, err := m.Archive.Image(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }() // it only read
	m.manifest.At = m.Now().UTC()
	out, err := describe(filepath.Join(m.Folder, recordsFile))
	if err != nil {
		return err
	}
	w, err := newRecordWriter(out)
	if err != nil {
		return err
	}
	for _, t := range store.Schema() {
		if t.Derived {
			continue
		}
		if err := m.table(ctx, image, w, &t); err != nil {
			return fmt.Errorf("copy table %s: %w", t.Name, err)
		}
	}
	if err := w.close(); err != nil {
		return err
	}
	m.manifest.Counts.Rows = w.rows
	m.manifest.Records, err = out.close()
	return err
}

func (m *making) table(ctx context.Context, image store.Image, w *recordWriter, t *store.Table) error {
	if err := w.begin(t); err != nil {
		return err
	}
	each := func(row []any) error {
		switch t.Name {
		case store.TableArchives:
			r := store.RangeOf(row)
			m.through[r.Partition] = max(m.through[r.Partition], int64(r.To))
		case store.TableArchiveObjects:
			if err := m.noteArchived(ctx, store.ArchivedObjectOf(row)); err != nil {
				return err
			}
		case store.TablePartitions:
			p := store.PartitionOf(row)
			m.manifest.Partitions = append(m.manifest.Partitions, Partition{p.Partition, p.Epoch, p.Position, p.Digest})
		case store.TableLog:
			_, one := store.LogOf(row)
			m.note(&one)
		}
		return m.row(w, t, row)
	}
	if t.Name == store.TableLog {
		for _, p := range m.manifest.Partitions {
			if err := m.log(ctx, image, p, each); err != nil {
				return err
			}
		}
		if m.holes {
			if err := m.incomplete(ctx, image); err != nil {
				return err
			}
		}
		return w.end()
	}
	err := verify.ScanAll(ctx, image, t.Name, each, func(at []any, err error) {
		m.damaged(verify.Finding{Code: verify.TableUnreadable, Table: t.Name,
			Text: fmt.Sprintf("rows beyond %v can't be read: %v", at, err), Fix: "restore an earlier backup to have them back"})
	})
	return errors.Join(err, w.end())
}

// row writes a row; one that no database should hold is damage.
func (m *making) row(w *recordWriter, t *store.Table, row []any) error {
	err := w.row(row)
	if errors.Is(err, store.ErrInvalid) {
		m.damaged(verify.Finding{Code: verify.TableUnreadable, Table: t.Name,
			Text: fmt.Sprintf("row %v: %v", row[:t.Key], err), Fix: "restore an earlier backup to have it back"})
		m.holes = m.holes || t.Name == store.TableLog
		return nil
	}
	if w.n%rowsTold == 0 {
		m.Progress("history", w.rows+w.n, 0)
	}
	return err
}

const (
	rowsTold = 1000 // rows between two words about progress
	pageRows = 500
)

// log copies a partition's log position by position, so that a damaged page costs the rows
// on it and no more.
func (m *making) log(ctx context.Context, image store.Image, p Partition, each func([]any) error) error {
	at, end := int64(0), int64(p.Position)
	for more := true; more && at < end; {
		rows, err := image.Scan(ctx, store.TableLog, store.Page{From: []any{string(p.Partition), at}, Limit: pageRows})
		if errors.Is(err, store.ErrBroken) {
			at++
			row, err := image.Get(ctx, store.TableLog, []any{string(p.Partition), at})
			switch {
			case errors.Is(err, store.ErrNotFound) && at <= m.through[p.Partition]:
			case errors.Is(err, store.ErrBroken), errors.Is(err, store.ErrNotFound):
				m.hole(p, at, at, verify.RowUnreadable, "the row can't be read: "+err.Error())
			case err != nil:
				return err
			default:
				if err := each(row); err != nil {
					return err
				}
			}
			continue
		}
		if err != nil {
			return err
		}
		for _, row := range rows {
			partition, one := store.LogOf(row)
			if partition != p.Partition || one.Position > p.Position {
				more = false
				break
			}
			if from := max(at, m.through[p.Partition]) + 1; int64(one.Position) > from {
				m.hole(p, from, int64(one.Position)-1, verify.PositionGap, "the log has no rows here")
			}
			if err := each(row); err != nil {
				return err
			}
			at = int64(one.Position)
		}
		more = more && len(rows) == pageRows
	}
	if at = max(at, m.through[p.Partition]); at < end {
		m.hole(p, at+1, end, verify.PositionGap, "the log ends before its partition's position")
	}
	return nil
}

// hole notes rows of the log that the backup does not have.
func (m *making) hole(p Partition, from, to int64, code verify.Code, text string) {
	m.holes = true
	if to > from {
		text = fmt.Sprintf("%s, up to position %d", text, to)
	}
	m.damaged(verify.Finding{Code: code, Partition: p.Partition, Position: store.Position(from), Text: text,
		Fix: "restore an earlier backup to have them back"})
}

// incomplete finds the streams whose rows are in a hole. Their heads tell how far they went,
// which the rows that are left do not.
func (m *making) incomplete(ctx context.Context, image store.Image) error {
	image = archive.Across(image, m.reader)
	tell := func(p domain.PartitionID, head store.Head, why string) {
		m.damaged(verify.Finding{Code: verify.StreamUnreadable, Partition: p, Tenant: head.Tenant, Stream: head.Stream,
			Version: head.Version, Text: why, Fix: "restore an earlier backup to have it back"})
	}
	return verify.ScanAll(ctx, image, store.TableStreams, func(row []any) error {
		p, head := store.HeadOf(row)
		h, err := image.Load(ctx, head.Tenant, head.Stream, false, 0)
		if errors.Is(err, store.ErrBroken) {
			tell(p, head, "rows of its history can't be read: "+err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		var version uint64
		for i := range h.Rows {
			version += uint64(h.Rows[i].Count)
		}
		if version != head.Version {
			tell(p, head, fmt.Sprintf("rows of its history are missing: %d events of %d are left", version, head.Version))
		}
		return nil
	}, func(at []any, err error) {
		m.damaged(verify.Finding{Code: verify.TableUnreadable, Table: store.TableStreams,
			Text: fmt.Sprintf("which streams beyond %v are whole can't be told: %v", at, err),
			Fix:  "restore an earlier backup: of this one they may lack their end"})
	})
}

// objects copies every object that there is. Segments of open logs come and go while this
// runs: one that is gone was folded into a later one or sealed, so the list is read again
// until nothing new is on it.
func (m *making) objects(ctx context.Context) error {
	for {
		fresh, gone := 0, 0
		after := ""
		for {
			found, err := m.Blobs.List(ctx, "", after, pageRows)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				break
			}
			after = found[len(found)-1].Key
			found = slices.DeleteFunc(found, func(e blob.Entry) bool { return m.copied[e.Key] })
			n, err := m.page(ctx, found)
			if err != nil {
				return err
			}
			for _, e := range found {
				m.copied[e.Key] = true
				if era, ok := logs.EraOf(e.Key); ok {
					m.era = max(m.era, era)
				}
			}
			fresh, gone = fresh+len(found), gone+n
			m.Progress("objects", m.manifest.Counts.Objects, 0)
		}
		if gone == 0 || fresh == 0 {
			break
		}
	}
	return m.removals(ctx)
}

// removals copies the records of removed logs that were written meanwhile. A record is there
// before the first of its logs is gone: of a log that was not found, it is found now.
func (m *making) removals(ctx context.Context) error {
	after := ""
	for {
		found, err := m.Blobs.List(ctx, logs.RemovalsPrefix, after, pageRows)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return nil
		}
		after = found[len(found)-1].Key
		found = slices.DeleteFunc(found, func(e blob.Entry) bool { return m.copied[e.Key] })
		if _, err := m.page(ctx, found); err != nil {
			return err
		}
		for _, e := range found {
			m.copied[e.Key] = true
		}
	}
}

// page copies some objects side by side and says how many were gone.
func (m *making) page(ctx context.Context, found []blob.Entry) (int, error) {
	entries := make([]*entry, len(found))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, e := range found {
		group.Go(func() error {
			var err error
			entries[i], err = m.object(ctx, e)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	gone := 0
	for _, e := range entries {
		if e == nil {
			gone++
			continue
		}
		m.manifest.Counts.Objects++
		m.manifest.Counts.ObjectBytes += e.Bytes
		if err := m.list.add(*e); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// object copies one object; nil when it is gone. Whether the base has it is known without
// reading where its name or history tells its digest.
func (m *making) object(ctx context.Context, found blob.Entry) (*entry, error) {
	if before, ok := m.base.object(found.Key, m.sealed); ok && before.Bytes == found.Size {
		there, err := m.contents.reuse(before.Digest, before.Bytes)
		if err != nil {
			return nil, err
		}
		if there {
			return &before, nil
		}
	}
	r, err := m.Blobs.Open(ctx, found.Key, 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return m.unread(ctx, found.Key, err)
	}
	from := &source{Reader: r}
	digest, n, err := m.contents.add(ctx, from)
	err = errors.Join(err, r.Close())
	if from.err != nil {
		return m.unread(ctx, found.Key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("copy object %s: %w", found.Key, err)
	}
	return &entry{Kind: kindObject, Name: found.Key, Bytes: n, Digest: digest}, nil
}

// unread notes an object that is there and can't be read; everything else is still copied.
func (m *making) unread(ctx context.Context, key string, err error) (*entry, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	m.damaged(verify.Finding{Code: verify.ObjectDamaged, Object: key, Text: "it can't be read: " + err.Error(),
		Fix: "restore an earlier backup of it"})
	return nil, nil
}

// mirrors copies every repository's mirror as a bundle. Refs only ever lead to commits that
// are there, so a bundle that is made beside fetches and pushes is whole.
func (m *making) mirrors(ctx context.Context) error {
	if m.Mirrors == nil {
		return nil
	}
	repos, err := m.Mirrors.Mirrored(ctx)
	if err != nil {
		return err
	}
	for i, repo := range repos {
		m.Progress("mirrors", int64(i), int64(len(repos)))
		if err := m.mirror(ctx, repo); err != nil {
			return fmt.Errorf("copy mirror %s: %w", repo.Repository, err)
		}
	}
	return nil
}

func (m *making) mirror(ctx context.Context, repo scm.Repo) error {
	e := entry{Kind: kindMirror, Name: string(repo.Tenant) + "/" + string(repo.Repository)}
	var err error
	if e.Refs, err = m.Mirrors.RefsDigest(ctx, repo); err != nil {
		return m.unbundled(ctx, e.Name, err)
	}
	if e.Refs == "" {
		return m.addMirror(e)
	}
	if before, ok := m.base.mirror(e.Name); ok && before.Refs == e.Refs {
		if there, err := m.contents.reuse(before.Digest, before.Bytes); err != nil {
			return err
		} else if there {
			return m.addMirror(before)
		}
	}
	r, w := io.Pipe()
	bundled := make(chan error, 1)
	go func() {
		err := m.Mirrors.Bundle(ctx, repo, w)
		_ = w.CloseWithError(err) // nil is the end
		bundled <- err
	}()
	from := &source{Reader: r}
	e.Digest, e.Bytes, err = m.contents.add(ctx, from)
	_ = r.CloseWithError(errors.New("nobody reads any more"))
	made := <-bundled
	// A destination that takes no more breaks the bundle as well. What is wrong then is not the
	// server's mirror, and a backup without it is not complete.
	if err != nil && from.err == nil {
		return err
	}
	if made != nil {
		return m.unbundled(ctx, e.Name, made)
	}
	if err != nil {
		return err
	}
	return m.addMirror(e)
}

func (m *making) addMirror(e entry) error {
	m.mirrored[e.Name] = true
	m.manifest.Counts.Mirrors++
	return m.list.add(e)
}

// unbundled notes a mirror that can't be copied.
func (m *making) unbundled(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.damaged(verify.Finding{Code: verify.CommitMissing, Object: name, Text: "the mirror can't be copied: " + err.Error(),
		Fix: "restore an earlier backup of it, or push and fetch anew"})
	m.mirrored[name] = true // it is told once
	return nil
}

// source remembers whether reading failed, to tell a bundle that could not be made from one
// that could not be written.
type source struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// finish makes everything durable and then says that it is complete.
func (m *making) finish() error {
	counts, sums := &m.manifest.Counts, m.contents.sum
	counts.Files, counts.FileBytes, counts.NewFiles, counts.NewBytes = sums.Files, sums.FileBytes, sums.NewFiles,
		sums.NewBytes
	if more := m.listed - damageMax; more > 0 {
		last := m.manifest.Damage[len(m.manifest.Damage)-1]
		m.manifest.Damage = append(m.manifest.Damage, verify.Finding{Code: last.Code,
			Text: fmt.Sprintf("and %d places more, which are not listed", more), Fix: last.Fix})
	}
	m.manifest.Ended = m.Now().UTC()
	text, err := m.manifest.seal()
	if err != nil {
		return err
	}
	if err := syncAll(m.Folder); err != nil {
		return fmt.Errorf("make the files durable: %w", err)
	}
	if err := os.Remove(filepath.Join(m.Folder, incompleteFile)); err != nil {
		return err
	}
	return writeDurably(filepath.Join(m.Folder, ManifestFile), text)
}

// writeDurably writes a file that is there whole or not at all.
func writeDurably(path string, content []byte) error {
	temp := path + ".new"
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
