package file

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who reads beside a server removes nothing that the server is just writing.
func TestReadingBesideAServerTouchesNothing(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	if err := s.Put(t.Context(), "a/b", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(folder, tempFolder, "half")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenToRead(folder)
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.Open(t.Context(), "a/b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(in); string(text) != "x" || err != nil || in.Close() != nil {
		t.Errorf("read %q, %v", text, err)
	}
	if err := r.Put(t.Context(), "c", strings.NewReader("y"), 1); err == nil {
		t.Error("something was written")
	}
	if err := r.Delete(t.Context(), "a/b"); err == nil {
		t.Error("something was deleted")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("what was being written: %v", err)
	}
	if _, err := OpenToRead(filepath.Join(folder, "none")); err == nil {
		t.Error("a folder that is not there was opened")
	}
}
