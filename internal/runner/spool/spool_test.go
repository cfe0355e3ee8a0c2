package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func chunk(n uint64, size int) Frame {
	return Frame{Kind: KindChunk, Sequence: n, Payload: bytes.Repeat([]byte{byte(n)}, size)}
}

func drain(t *testing.T, r *Reader) []Frame {
	t.Helper()
	var frames []Frame
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Payload = bytes.Clone(f.Payload)
		frames = append(frames, f)
	}
}

// written is a frame as it is on disk.
func written(dst []byte, f Frame) []byte {
	head := frameHead(f)
	return append(append(dst, head[:]...), f.Payload...)
}

func TestFramesComeBackInOrderWhileTheyAreWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	r := NewReader(dir)
	defer r.Close()
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("reading what is not there yet: %v", err)
	}
	w, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var read []Frame
	for n := uint64(1); n <= 40; n++ {
		if err := w.Append(chunk(n, 256<<10)); err != nil {
			t.Fatal(err)
		}
		if n%7 == 0 {
			read = append(read, drain(t, r)...)
		}
	}
	if err := w.Append(Frame{Kind: KindResult, Sequence: 1, Payload: []byte("done")}); err != nil {
		t.Fatal(err)
	}
	read = append(read, drain(t, r)...)
	if len(read) != 41 || read[40].Kind != KindResult {
		t.Fatalf("%d frames", len(read))
	}
	for i, f := range read[:40] {
		if f.Sequence != uint64(i+1) || len(f.Payload) != 256<<10 || f.Payload[0] != byte(i+1) {
			t.Fatalf("frame %d is %d", i, f.Sequence)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAcknowledgedSegmentsGiveTheirSpaceBack(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(dir, Options{UnackedBytesMax: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for n < 1000 {
		if err := w.Append(chunk(n+1, 1<<20)); err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
		n++
	}
	if n != 7 {
		t.Fatalf("%d chunks of 1 MiB fit into 8 MiB", n)
	}
	// Progress is never refused for being too much.
	if err := w.Append(Frame{Kind: KindProgress, Sequence: 1, Payload: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	w.Acknowledge(5, 0)
	if err := w.Append(chunk(n+1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	w.Acknowledge(8, 1)
	for i := range uint64(8) {
		if err := w.Append(chunk(n+2+i, 256<<10)); err != nil {
			t.Fatal(err)
		}
	}
	names, _ := segmentNames(dir)
	if len(names) == 0 || names[0] == 1 {
		t.Errorf("segments %v", names)
	}
	r := NewReader(dir)
	defer r.Close()
	for _, f := range drain(t, r) {
		if f.Kind == KindChunk && f.Sequence < 5 {
			t.Errorf("chunk %d is still there", f.Sequence)
		}
	}
}

// Promises: [RNR-10].
func TestATornFrameIsNoFrame(t *testing.T) {
	dir := t.TempDir()
	w, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		if err := w.Append(chunk(n+1, 100)); err != nil {
			t.Fatal(err)
		}
	}
	_ = w.Close()
	path := segmentPath(dir, 1)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-1); err != nil {
		t.Fatal(err)
	}
	r := NewReader(dir)
	defer r.Close()
	if frames := drain(t, r); len(frames) != 2 {
		t.Fatalf("%d frames", len(frames))
	}
	// Another process takes over and writes the end.
	w, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(Frame{Kind: KindResult, Sequence: 1, Payload: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if frames := drain(t, r); len(frames) != 1 || frames[0].Kind != KindResult || r.Torn() != 1 {
		t.Fatalf("%d frames, %d torn", len(frames), r.Torn())
	}
	_ = w.Close()
}

// brokenFile is a disk with room for so many bytes.
type brokenFile struct {
	*os.File
	left *int
}

func (b brokenFile) Write(p []byte) (int, error) {
	if len(p) <= *b.left {
		*b.left -= len(p)
		return b.File.Write(p)
	}
	n, _ := b.File.Write(p[:*b.left])
	*b.left = 0
	return n, fmt.Errorf("write: %w", unix.ENOSPC)
}

// Promises: [RNR-9].
func TestTheResultFitsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	left := 10_000
	w, err := Open(dir, Options{Create: func(path string) (File, error) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		return brokenFile{f, &left}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	kept := uint64(0)
	for {
		if err := w.Append(chunk(kept+1, 3000)); err != nil {
			if !errors.Is(err, ErrDisk) {
				t.Fatal(err)
			}
			break
		}
		kept++
	}
	// Giving up the reserve is what makes the room; here the test plays the disk.
	if _, err := os.Stat(filepath.Join(dir, "reserve")); err != nil {
		t.Fatal(err)
	}
	left = 5_000
	if err := w.Append(Frame{Kind: KindResult, Sequence: 1, Payload: []byte("platform_error")}); err != nil {
		t.Fatal(err)
	}
	r := NewReader(dir)
	defer r.Close()
	frames := drain(t, r)
	if uint64(len(frames)) != kept+1 || frames[kept].Kind != KindResult {
		t.Errorf("%d frames, %d chunks were kept", len(frames), kept)
	}
}

// FuzzReader: no bytes on disk make the reader panic, loop or believe a bad checksum.
func FuzzReader(f *testing.F) {
	f.Add(written(written(nil, chunk(1, 10)), Frame{Kind: KindResult, Sequence: 1, Payload: []byte("ok")}))
	f.Add([]byte{magic, 1, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 1), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(dir)
		defer r.Close()
		var again []byte
		for _, fr := range drain(t, r) {
			again = written(again, fr)
		}
		if len(again) > len(data) {
			t.Fatal("more came out than went in")
		}
	})
}
