package spool

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
)

var rewrite = flag.Bool("rewrite", false, "write golden files that don't exist yet")

// A job goes on while its runner is replaced, so what the old one spooled is read by the new
// one, and the other way round.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenSpool(t *testing.T) {
	frames := []Frame{
		{Kind: KindChunk, Sequence: 1, Payload: []byte("first chunk\n")},
		{Kind: KindProgress, Sequence: 1, Payload: []byte{0, 1, 2}},
		{Kind: KindChunk, Sequence: 1<<40 + 2, Payload: bytes.Repeat([]byte{0xAA}, 20)},
		{Kind: KindChunk, Sequence: 1<<40 + 3},
		{Kind: KindResult, Sequence: 1, Payload: []byte("result")},
	}
	dir := t.TempDir()
	w, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := w.Append(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const name = "00000001.spool"
	written, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	form := frozen.Form{Name: "testdata/frozen/segment", Newest: 1, Rewrite: *rewrite}
	form.Written(t, written)

	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, name), form.Read(t, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	r := NewReader(old)
	defer r.Close()
	got := drain(t, r)
	if len(got) != len(frames) || r.Torn() != 0 {
		t.Fatalf("%d frames of %d, %d torn", len(got), len(frames), r.Torn())
	}
	for i, f := range frames {
		if got[i].Kind != f.Kind || got[i].Sequence != f.Sequence || !bytes.Equal(got[i].Payload, f.Payload) {
			t.Errorf("frame %d is read as %+v", i, got[i])
		}
	}
}
