package file

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Where an object lies is a stored form, too.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenPlaces(t *testing.T) {
	key := blob.ObjectKey("tnt_default", domain.DigestOf([]byte("x")))
	const place = "objects/tnt_default+/objects+/2d+/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	written := t.TempDir()
	if err := open(t, written).Put(t.Context(), key, strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(written, place)); err != nil || string(text) != "x" {
		t.Errorf("%s is not at %s: %q, %v", key, place, text, err)
	}
	old := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(old, place)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, place), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := open(t, old).Open(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if text, err := io.ReadAll(r); err != nil || string(text) != "x" {
		t.Errorf("it is read as %q, %v", text, err)
	}
}
