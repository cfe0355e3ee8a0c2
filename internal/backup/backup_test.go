package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/scm/git"
	"github.com/fairlead-ci/fairlead/internal/scm/scmtest"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/store/sqlite"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// keep is a yard with the other things that a server keeps.
type keep struct {
	*yard.World
	mirrors *git.Mirrors
	secrets string
}

var repo = scm.Repo{Tenant: yard.Tenant, Repository: yard.Repo}

func newKeep(t *testing.T, w *yard.World) *keep {
	t.Helper()
	mirrors, err := git.New(t.Context(), git.Config{Root: t.TempDir(), AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := mirrors.Init(t.Context(), repo); err != nil {
		t.Fatal(err)
	}
	k := &keep{World: w, mirrors: mirrors, secrets: t.TempDir()}
	for name, text := range map[string]string{"keys/manifest-1.key": "sign", "credentials/admin-token": "flt_admin"} {
		path := filepath.Join(k.secrets, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *keep) source() Source {
	return Source{Archive: k.Store, Kind: "test", Kinds: projection.Kinds(), Blobs: k.Blobs, Mirrors: k.mirrors,
		Secrets: k.secrets}
}

// push puts a commit into the mirror and pins it.
func (k *keep) push() string {
	k.T.Helper()
	from := scmtest.NewRepo(k.T)
	commit := from.Write("a.txt", "text").Commit("first")
	_, err := k.mirrors.Fetch(k.T.Context(), repo, scm.Remote{URL: from.Dir})
	if err = errors.Join(err, k.mirrors.Pin(k.T.Context(), repo, commit)); err != nil {
		k.T.Fatal(err)
	}
	return commit
}

// backup makes a backup into a new folder.
func (k *keep) backup(change func(*Options)) (string, *Manifest) {
	k.T.Helper()
	o := Options{Folder: filepath.Join(k.T.TempDir(), "backup"), Version: "test"}
	if change != nil {
		change(&o)
	}
	m, err := Make(k.T.Context(), k.source(), o)
	if err != nil {
		k.T.Fatal(err)
	}
	return o.Folder, m
}

// restored is a server that was made of a backup.
type restored struct {
	folder  string
	store   yard.Database
	blobs   *file.Store
	mirrors *git.Mirrors
	out     *Restored
}

// restore makes a server on an empty SQLite or, with a URL, PostgreSQL.
func restore(t *testing.T, from, url string, change func(*RestoreOptions)) (*restored, error) {
	t.Helper()
	r := &restored{folder: filepath.Join(t.TempDir(), "data")}
	o := RestoreOptions{Folder: from, Actor: "ann", Kinds: projection.Kinds()}
	if change != nil {
		change(&o)
	}
	var err error
	r.out, err = Restore(t.Context(), r.target(t, url), o)
	return r, err
}

func (r *restored) target(t *testing.T, url string) Target {
	return Target{Folders: []string{r.folder}, Secrets: r.folder, Open: func(ctx context.Context) (*Opened, error) {
		var s store.Store
		var err error
		if url == "" {
			s, err = sqlite.Open(ctx, r.folder, sqlite.Options{})
		} else {
			s, err = postgres.Open(ctx, url, postgres.Options{ConnsMax: 4, Schema: "restored"})
		}
		if err != nil {
			return nil, err
		}
		r.store = s.(yard.Database)
		t.Cleanup(func() { _ = s.Close() })
		if r.blobs, err = file.Open(filepath.Join(r.folder, "objects")); err != nil {
			return nil, err
		}
		if r.mirrors, err = git.New(ctx, git.Config{Root: filepath.Join(r.folder, "git")}); err != nil {
			return nil, err
		}
		return &Opened{Archive: r.store, Blobs: r.blobs, Mirrors: r.mirrors, Close: func() error { return nil }}, nil
	}}
}

// tables reads all tables, with what a restore changes on purpose taken out.
func tables(t *testing.T, s store.Archive) string {
	t.Helper()
	image, err := s.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, table := range store.Schema() {
		if table.Name == store.TableLosses || table.Name == store.TableCheckpoints {
			continue
		}
		rows, err := image.Scan(t.Context(), table.Name, store.Page{Limit: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if table.Name == store.TablePartitions {
				row[1], row[4], row[5] = 0, "", 0
			}
			fmt.Fprintln(&out, table.Name, row)
		}
	}
	if err := image.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// objects reads every object.
func objects(t *testing.T, s blob.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	found, err := s.List(t.Context(), "", "", 100_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		r, err := s.Open(t.Context(), e.Key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		out[e.Key] = string(text)
	}
	return out
}

// crossings are the ways from one database to another.
func crossings(t *testing.T, test func(t *testing.T, k *keep, to string)) {
	t.Run("SQLiteToPostgreSQL", func(t *testing.T) {
		yard.OnSQLite(t, func(t *testing.T, w *yard.World) { test(t, newKeep(t, w), pg.Start(t)) })
	})
	t.Run("PostgreSQLToSQLite", func(t *testing.T) {
		yard.OnPostgres(t, func(t *testing.T, w *yard.World) { test(t, newKeep(t, w), "") })
	})
}

// A backup of either database makes the same server on the other: every row, object, log,
// commit and key, and nothing to tell.
func TestARestoredServerIsTheSame(t *testing.T) {
	crossings(t, func(t *testing.T, k *keep, to string) {
		for range 70 {
			k.Whole()
		}
		open := k.Lease(k.Request(), 3)
		commit := k.push()
		folder, m := k.backup(func(o *Options) { o.WithSecrets = true })
		if len(m.Damage) > 0 || m.Counts.Objects == 0 || m.Counts.Mirrors != 1 || m.Counts.Secrets != 2 {
			t.Errorf("manifest %+v", m)
		}
		if _, err := Check(t.Context(), folder, nil); err != nil {
			t.Errorf("check: %v", err)
		}
		k.Stop()
		r, err := restore(t, folder, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.out.Report.Damaged() {
			t.Errorf("found %+v", r.out.Report.Findings)
		}
		if want, got := tables(t, k.Store), tables(t, r.store); want != got {
			t.Errorf("tables differ:\n%s\n----\n%s", want, got)
		}
		want, got := objects(t, k.Blobs), objects(t, r.blobs)
		if len(want) != len(got) {
			t.Errorf("%d objects of %d", len(got), len(want))
		}
		for key, text := range want {
			if got[key] != text {
				t.Errorf("object %s differs", key)
			}
		}
		if pins, err := r.mirrors.Pins(t.Context(), repo); err != nil || !pins[commit] {
			t.Errorf("pins %v, %v", pins, err)
		}
		if text, err := os.ReadFile(filepath.Join(r.folder, "keys", "manifest-1.key")); err != nil || string(text) != "sign" {
			t.Errorf("the key is %q, %v", text, err)
		}
		// The open log goes on where it was.
		g, err := logs.Open(t.Context(), r.blobs, logs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close() }()
		data := []byte("line 4\n")
		acks, err := g.Append(t.Context(), []logs.Chunk{{Tenant: yard.Tenant, Attempt: open, Epoch: 1, Sequence: 4,
			Stream: logs.StreamOut, Data: data, Checksum: domain.Checksum(data)}})
		if err != nil || acks[0].Through != 4 {
			t.Errorf("the open log: %+v, %v", acks, err)
		}
		raised(t, r, m)
	})
}

// raised: nobody of the lost future can write, and who restored what is on record.
func raised(t *testing.T, r *restored, m *Manifest) {
	t.Helper()
	for _, p := range m.Partitions {
		losses, err := r.store.Losses(t.Context(), p.Partition)
		if err != nil || len(losses) != 1 || losses[0].Kind != store.LossRestored || losses[0].Actor != "ann" ||
			losses[0].Held != p.Position || !strings.Contains(losses[0].Note, string(m.Digest)) {
			t.Errorf("record of partition %s: %+v, %v", p.Partition, losses, err)
		}
		own, err := r.store.Acquire(t.Context(), p.Partition, "next")
		if err != nil || own.Epoch <= losses[0].Epoch || losses[0].Epoch < p.Epoch+1000 || own.Position != p.Position {
			t.Errorf("the next owner has %+v, %v; the backup had epoch %d", own, err, p.Epoch)
		}
	}
}

// A backup that is made while runs come, print, end and are sealed is whole all the same.
func TestABackupUnderWritesIsWhole(t *testing.T) {
	crossings(t, func(t *testing.T, k *keep, to string) {
		for range 20 {
			k.Whole()
		}
		busy := 0
		folder, m := k.backup(func(o *Options) {
			o.Progress = func(string, int64, int64) {
				if busy++; busy < 12 {
					k.Whole()
					a := k.Lease(k.Request(), 5)
					k.Report(a, 5)
				}
			}
		})
		if busy == 0 || len(m.Damage) > 0 {
			t.Errorf("%d words about progress, damage %+v", busy, m.Damage)
		}
		r, err := restore(t, folder, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.out.Report.Damaged() {
			t.Errorf("found %+v", r.out.Report.Findings)
		}
	})
}

// The history of a backup is older than its objects. A log that is sealed in between, and
// whose segments are gone when they would be copied, is in the backup all the same.
// Promises: [BACKUP-9].
func TestALogThatIsSealedDuringABackupIsInIt(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		a := k.Lease(k.Request(), 3)
		k.Report(a, 3)
		still := k.Lease(k.Request(), 2)
		src := k.source()
		src.Blobs = &late{Store: k.Blobs, first: func() {
			k.Seal(a, 3)
			if err := k.Logs.Close(); err != nil { // segments are gone
				t.Error(err)
			}
		}}
		folder := filepath.Join(t.TempDir(), "backup")
		m, err := Make(t.Context(), src, Options{Folder: folder})
		if err != nil || len(m.Damage) > 0 {
			t.Fatal(err, m)
		}
		r, err := restore(t, folder, "", nil)
		if err != nil || r.out.Report.Damaged() {
			t.Fatalf("restore: %v, %+v", err, r.out)
		}
		g, err := logs.Open(t.Context(), r.blobs, logs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Close() }()
		if one, two := g.Through(yard.Tenant, a), g.Through(yard.Tenant, still); one != 3 || two != 2 {
			t.Errorf("the logs have %d and %d chunks, want 3 and 2", one, two)
		}
	})
}

// late is a store in which something happens before the first object is listed.
type late struct {
	blob.Store
	first func()
}

func (l *late) List(ctx context.Context, prefix, after string, limit int) ([]blob.Entry, error) {
	if l.first != nil {
		l.first()
		l.first = nil
	}
	return l.Store.List(ctx, prefix, after, limit)
}

// A second backup costs what changed, and is complete without the first.
func TestALaterBackupSharesFiles(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		for range 10 {
			k.Whole()
		}
		k.push()
		first, m1 := k.backup(nil)
		k.Whole()
		reads := &counting{Store: k.Blobs}
		src := k.source()
		src.Blobs = reads
		second := filepath.Join(filepath.Dir(first), "second")
		m2, err := Make(t.Context(), src, Options{Folder: second, Base: first})
		if err != nil {
			t.Fatal(err)
		}
		if m2.Counts.NewFiles >= 10 || m2.Counts.Files <= m1.Counts.Files || m2.Base != m1.Digest {
			t.Errorf("first %+v, second %+v", m1.Counts, m2.Counts)
		}
		if opened := int(reads.opened); opened > 12 {
			t.Errorf("%d objects were read although the base has them", opened)
		}
		if err := os.RemoveAll(first); err != nil {
			t.Fatal(err)
		}
		if _, err := Check(t.Context(), second, nil); err != nil {
			t.Errorf("without the first: %v", err)
		}
		r, err := restore(t, second, "", nil)
		if err != nil || r.out.Report.Damaged() {
			t.Fatalf("restore: %v, %+v", err, r.out)
		}
	})
}

type counting struct {
	blob.Store
	opened int64
}

func (c *counting) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	c.opened++
	return c.Store.Open(ctx, key, offset, length)
}

// The same name may hold other bytes after a restore: a base of the lost future is not
// believed for what its names do not prove.
func TestABaseOfAnotherFutureIsNotBelieved(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		a := k.Lease(k.Request(), 3)
		k.Report(a, 3)
		base, _ := k.backup(nil)
		key := "segments/" + string(yard.Tenant) + "/"
		found, err := k.Blobs.List(t.Context(), key, "", 10)
		if err != nil || len(found) == 0 {
			t.Fatalf("segments %v, %v", found, err)
		}
		same := strings.Repeat("x", int(found[0].Size))
		if err := errors.Join(k.Blobs.Delete(t.Context(), found[0].Key),
			k.Blobs.Put(t.Context(), found[0].Key, strings.NewReader(same), -1)); err != nil {
			t.Fatal(err)
		}
		folder, _ := k.backup(func(o *Options) { o.Base = base })
		var digest domain.Digest
		if err := eachEntry(folder, func(e *entry) error {
			if e.Name == found[0].Key {
				digest = e.Digest
			}
			return nil
		}); err != nil || digest != domain.DigestOf([]byte(same)) {
			t.Errorf("the backup has %s under %s, %v", digest, found[0].Key, err)
		}
	})
}

func TestSecretsAreInABackupOnlyIfAskedFor(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		plain, m := k.backup(nil)
		if m.Secrets || m.Counts.Secrets != 0 || holds(t, plain, "flt_admin") {
			t.Errorf("a backup without keys holds some: %+v", m)
		}
		with, m := k.backup(func(o *Options) { o.WithSecrets = true })
		if !m.Secrets || !holds(t, with, "flt_admin") {
			t.Errorf("a backup with keys holds none: %+v", m)
		}
		r, err := restore(t, with, "", func(o *RestoreOptions) { o.WithoutSecrets = true })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(r.folder, "keys")); !errors.Is(err, os.ErrNotExist) || r.out.Secrets {
			t.Errorf("keys were restored: %v", err)
		}
	})
}

func holds(t *testing.T, folder, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A backup that stops anywhere on the way is recognised, and is never restored.
func TestAnIncompleteBackupIsRecognised(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		for range 3 {
			k.Whole()
		}
		for _, stage := range []string{"history", "objects", "mirrors"} {
			ctx, cancel := context.WithCancel(t.Context())
			folder := filepath.Join(t.TempDir(), stage)
			src := k.source()
			switch stage {
			case "history":
				src.Archive = stopping{k.Store, cancel}
			case "objects":
				src.Blobs = &ending{k.Blobs, cancel}
			case "mirrors":
				src.Mirrors = lost{k.mirrors, cancel}
			}
			_, err := Make(ctx, src, Options{Folder: folder})
			cancel()
			if err == nil {
				t.Fatalf("the backup that ended with its %s is complete", stage)
			}
			if _, err := ReadManifest(folder); !errors.Is(err, ErrIncomplete) {
				t.Errorf("after %s: %v", stage, err)
			}
			if _, err := restore(t, folder, "", nil); !errors.Is(err, ErrIncomplete) {
				t.Errorf("restored after %s: %v", stage, err)
			}
			if _, err := Make(t.Context(), k.source(), Options{Folder: folder}); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("a second backup into the same folder: %v", err)
			}
		}
		if _, err := ReadManifest(t.TempDir()); !errors.Is(err, ErrIncomplete) {
			t.Errorf("an empty folder: %v", err)
		}
	})
}

type stopping struct {
	store.Archive
	stop func()
}

func (s stopping) Image(ctx context.Context) (store.Image, error) {
	defer s.stop()
	return s.Archive.Image(ctx)
}

type ending struct {
	blob.Store
	stop func()
}

func (e *ending) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	defer e.stop()
	return e.Store.Open(ctx, key, offset, length)
}

type lost struct {
	Mirrors
	stop func()
}

func (l lost) Mirrored(context.Context) ([]scm.Repo, error) { l.stop(); return nil, context.Canceled }

// A destination that fails while a mirror is copied is no damage of the server's mirror: the
// backup fails. It does so even if the destination is well again when the rest is written.
func TestABackupThatCanNotWriteAMirrorFails(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		k.push()
		folder := filepath.Join(t.TempDir(), "backup")
		src := k.source()
		src.Mirrors = unplugged{k.mirrors, filepath.Join(folder, contentFolder)}
		m, err := Make(t.Context(), src, Options{Folder: folder})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the backup gave %+v, %v; want the destination's error", m, err)
		}
		if _, err := ReadManifest(folder); !errors.Is(err, ErrIncomplete) {
			t.Errorf("its manifest: %v", err)
		}
		if _, err := restore(t, folder, "", nil); !errors.Is(err, ErrIncomplete) {
			t.Errorf("restored: %v", err)
		}
	})
}

// unplugged takes the folder of contents away while a bundle is made, and puts it back.
type unplugged struct {
	Mirrors
	contents string
}

func (u unplugged) RefsDigest(ctx context.Context, repo scm.Repo) (domain.Digest, error) {
	if err := os.Rename(u.contents, u.contents+"-away"); err != nil {
		return "", err
	}
	return u.Mirrors.RefsDigest(ctx, repo)
}

func (u unplugged) Bundle(ctx context.Context, repo scm.Repo, w io.Writer) error {
	err := u.Mirrors.Bundle(ctx, repo, w)
	return errors.Join(err, os.Rename(u.contents+"-away", u.contents))
}

// A mirror whose objects are gone is damage: it is listed, and the backup is complete.
func TestAMirrorThatCanNotBeBundledIsDamage(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		k.push()
		dir, err := k.mirrors.Dir(repo)
		if err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "objects")),
			os.Mkdir(filepath.Join(dir, "objects"), 0o700)); err != nil {
			t.Fatal(err)
		}
		_, m := k.backup(nil)
		if len(m.Damage) == 0 || m.Damage[0].Code != verify.CommitMissing || m.Damage[0].Object != string(repo.Tenant)+"/"+
			string(repo.Repository) {
			t.Errorf("damage %+v", m.Damage)
		}
	})
}

// Damage of the source costs what is damaged: it is listed, and everything else comes back.
func TestDamageIsListedAndTheRestIsSaved(t *testing.T) {
	t.Run("in the middle", func(t *testing.T) { damageIsListed(t, func(store.Position) int64 { return 5 }) })
	t.Run("at the end", func(t *testing.T) { damageIsListed(t, func(last store.Position) int64 { return int64(last) }) })
}

func damageIsListed(t *testing.T, damaged func(last store.Position) int64) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		for range 3 {
			k.Whole()
		}
		gone := k.Put("plan 2")
		if err := k.Blobs.Delete(t.Context(), blob.ObjectKey(yard.Tenant, gone)); err != nil {
			t.Fatal(err)
		}
		_, m := k.backup(nil)
		var last store.Position
		for _, p := range m.Partitions {
			if p.Partition == yard.Home {
				last = p.Position
			}
		}
		if err := k.Store.Rewrite(t.Context(), func(r store.Rewriter) error {
			return r.Delete(t.Context(), store.TableLog, [][]any{{string(yard.Home), damaged(last)}})
		}); err != nil {
			t.Fatal(err)
		}
		folder, m := k.backup(nil)
		var codes []string
		for _, f := range m.Damage {
			codes = append(codes, string(f.Code))
		}
		slices.Sort(codes)
		if fmt.Sprint(codes) != "[object_missing position_gap stream_unreadable]" {
			t.Errorf("damage %v", codes)
		}
		r, err := restore(t, folder, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		report := r.out.Report
		if !report.Has(verify.ObjectMissing) || !report.Has(verify.PositionGap) || !report.Has(verify.StreamUnreadable) {
			t.Errorf("found %+v", report.Findings)
		}
		broken := map[domain.StreamID]bool{}
		for _, f := range report.Findings {
			if f.Stream != "" {
				broken[f.Stream] = true
			}
		}
		if len(broken) > 2 {
			t.Errorf("damage of two streams became that of %v", broken)
		}
	})
}

// Bytes that are not those that were written are never restored.
func TestADamagedBackupIsRefused(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		for range 3 {
			k.Whole()
		}
		k.push()
		folder, m := k.backup(func(o *Options) { o.WithSecrets = true })
		for name, harm := range map[string]func(copy string){
			"another manifest": func(c string) {
				path := filepath.Join(c, ManifestFile)
				text := read(t, path)
				write(t, path, strings.Replace(text, `"position": `, `"position": 1`, 1))
			},
			"a flipped bit in the history": func(c string) { flip(t, filepath.Join(c, recordsFile), 100) },
			"a shorter history":            func(c string) { truncate(t, filepath.Join(c, recordsFile)) },
			"a flipped bit in the list":    func(c string) { flip(t, filepath.Join(c, listFile), 100) },
			"a lost file":                  func(c string) { remove(t, anyContent(t, c)) },
			"a flipped bit in a file":      func(c string) { flip(t, anyContent(t, c), 3) },
			"a shorter file":               func(c string) { truncate(t, anyContent(t, c)) },
			"another key": func(c string) {
				write(t, filepath.Join(c, secretFolder, "keys/manifest-1.key"),
					"sing")
			},
		} {
			t.Run(name, func(t *testing.T) {
				c := filepath.Join(t.TempDir(), "copy")
				if err := os.CopyFS(c, os.DirFS(folder)); err != nil {
					t.Fatal(err)
				}
				harm(c)
				if _, err := Check(t.Context(), c, nil); !errors.Is(err, ErrDamaged) {
					t.Errorf("check: %v", err)
				}
				r, err := restore(t, c, "", nil)
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("restore: %v", err)
				}
				// No server starts on what a refused restore has left.
				if _, stat := os.Stat(r.folder); stat == nil && CheckFolder(r.folder) == nil {
					t.Error("a server would start on it")
				}
			})
		}
		if m.Format != Format {
			t.Errorf("form %d", m.Format)
		}
	})
}

func TestABackupOfALaterFormIsRefused(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		folder, m := newKeep(t, w).backup(nil)
		m.Format = Format + 1
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, ManifestFile), string(text))
		if _, err := restore(t, folder, "", nil); !errors.Is(err, ErrNewer) {
			t.Errorf("restore: %v", err)
		}
	})
}

func TestOnlyWhatIsEmptyIsRestoredInto(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		folder, _ := k.backup(nil)
		r := &restored{folder: t.TempDir()}
		write(t, filepath.Join(r.folder, "something"), "x")
		o := RestoreOptions{Folder: folder, Kinds: projection.Kinds()}
		if _, err := Restore(t.Context(), r.target(t, ""), o); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("a folder with something in it: %v", err)
		}
		url := pg.Start(t)
		if _, err := restore(t, folder, url, nil); err != nil {
			t.Fatal(err)
		}
		second, err := restore(t, folder, url, nil)
		if !errors.Is(err, ErrNotEmpty) {
			t.Errorf("a database with something in it: %v", err)
		}
		if CheckFolder(second.folder) == nil {
			t.Error("a server would start beside the wrong database")
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	text := []byte(read(t, path))
	text[min(at, len(text)-1)] ^= 0x20
	write(t, path, string(text))
}

func truncate(t *testing.T, path string) {
	t.Helper()
	text := read(t, path)
	write(t, path, text[:len(text)/2])
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func anyContent(t *testing.T, folder string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, contentFolder, "*", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no content (%v)", err)
	}
	return found[len(found)/2]
}
