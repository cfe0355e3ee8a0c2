package backup

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
	"github.com/fairlead-ci/fairlead/internal/verify"
)

// A mirror that is gone is not missed by looking at those that are there: history names it.
func TestAMirrorThatIsGoneIsDamage(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		k.push()
		before, err := k.mirrors.Dir(repo)
		if err = errors.Join(err, os.RemoveAll(before)); err != nil {
			t.Fatal(err)
		}
		_, m := k.backup(nil)
		if len(m.Damage) != 1 || m.Damage[0].Code != verify.CommitMissing || m.Counts.Mirrors != 0 {
			t.Errorf("%d mirrors, damage %+v", m.Counts.Mirrors, m.Damage)
		}
	})
}

// broken is an object store of which one object can't be read to its end.
type broken struct {
	blob.Store
	key string
}

func (b broken) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Store.Open(ctx, key, offset, length)
	if err == nil && key == b.key {
		return io.NopCloser(io.MultiReader(io.LimitReader(r, 1), iotest.ErrReader(syscall.EIO))), r.Close()
	}
	return r, err
}

// A bad sector below one object costs that object.
func TestAnObjectThatCanNotBeReadIsDamage(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		k := newKeep(t, w)
		k.Whole()
		if err := k.Logs.Close(); err != nil { // segments of what is sealed are gone
			t.Fatal(err)
		}
		_, whole := k.backup(nil)
		key := blob.ObjectKey(yard.Tenant, k.Put("plan 1"))
		src := k.source()
		src.Blobs = broken{k.Blobs, key}
		m, err := Make(t.Context(), src, Options{Folder: filepath.Join(t.TempDir(), "backup")})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Damage) == 0 || m.Damage[0].Code != verify.ObjectDamaged || m.Damage[0].Object != key {
			t.Errorf("damage %+v", m.Damage)
		}
		if m.Counts.Objects < whole.Counts.Objects-1 {
			t.Errorf("%d objects of %d", m.Counts.Objects, whole.Counts.Objects)
		}
	})
}

// What an earlier backup has may have rotted: bytes that were read anew are not thrown away for it.
func TestALaterBackupHealsWhatItReadsAnew(t *testing.T) {
	first, second := newContents(t.TempDir(), nil), (*contents)(nil)
	digest, _, err := first.add(t.Context(), strings.NewReader("bytes"))
	if err = errors.Join(err, os.WriteFile(first.path(digest), []byte("rotte"), 0o600)); err != nil {
		t.Fatal(err)
	}
	second = newContents(t.TempDir(), newContents(first.folder, nil))
	if _, _, err := second.add(t.Context(), strings.NewReader("bytes")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(second.path(digest))
	if err != nil || string(got) != "bytes" {
		t.Errorf("the later backup has %q, %v", got, err)
	}
}

// However much is damaged, a restore is told of every stream that lacks a part.
func TestEveryIncompleteStreamIsListed(t *testing.T) {
	m := &making{manifest: &Manifest{}}
	for i := range 2 * damageMax {
		m.damaged(verify.Finding{Code: verify.RowUnreadable, Position: store.Position(i)})
	}
	m.damaged(verify.Finding{Code: verify.StreamUnreadable, Stream: "run/a", Version: 7})
	if n := len(m.manifest.Damage); n != damageMax+1 || m.listed != 2*damageMax {
		t.Errorf("%d places of %d, and the stream", n, m.listed)
	}
}
