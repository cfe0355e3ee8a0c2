// Package blobtest is the meaning of the port blob: one suite, run against every adapter.
//
// It is deliberately no benchmark and knows no adapter; what only one adapter can show
// (a full disk, leftovers of a crash) is tested beside that adapter.
//
// Invariants: everything in here follows from the comments of blob.Store; an adapter that
// passes may be swapped for any other without a change elsewhere.
//
// Read next: internal/blob/file/file_test.go
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Harness is how the suite gets at an adapter.
type Harness struct {
	// Open makes an empty store.
	Open func(t *testing.T) blob.Store
	// Reopen gives the store as a new process would see it.
	Reopen func(t *testing.T, old blob.Store) blob.Store
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"an object is whole and survives a restart", testRoundTrip},
		{"a key never changes its bytes", testCreateOnly},
		{"of many writers of one key exactly one wins", testCreateOnce},
		{"ranges", testRanges},
		{"a missing object is ErrNotFound everywhere", testMissing},
		{"deleting is repeatable and frees the key", testDelete},
		{"lists come in key order, page by page", testList},
		{"tenants do not see each other under their prefix", testTenants},
		{"hostile keys are refused", testHostileKeys},
		{"a failed read stores nothing", testFailedReader},
		{"a wrong size stores nothing", testWrongSize},
		{"a cancelled put stores nothing", testCancelled},
		{"a big object streams", testBig},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, h) })
	}
}

func put(t *testing.T, s blob.Store, key, content string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, s blob.Store, key string, offset, length int64) string {
	t.Helper()
	r, err := s.Open(t.Context(), key, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func keys(t *testing.T, s blob.Store, prefix, after string, limit int) []string {
	t.Helper()
	entries, err := s.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Key)
	}
	return out
}

func testRoundTrip(t *testing.T, h Harness) {
	s := h.Open(t)
	put(t, s, "a/b/c", "hello")
	put(t, s, "a/b", "a key may be a prefix of another")
	put(t, s, "empty", "")
	s = h.Reopen(t, s)
	for key, want := range map[string]string{"a/b/c": "hello", "a/b": "a key may be a prefix of another", "empty": ""} {
		if got := read(t, s, key, 0, -1); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
		if n, err := s.Size(t.Context(), key); err != nil || n != int64(len(want)) {
			t.Errorf("size of %s = %d, %v", key, n, err)
		}
	}
}

func testCreateOnly(t *testing.T, h Harness) {
	s := h.Open(t)
	put(t, s, "k", "first")
	for _, again := range []string{"first", "second"} {
		if err := s.Put(t.Context(), "k", strings.NewReader(again), -1); !errors.Is(err, blob.ErrExists) {
			t.Errorf("put again: %v, want ErrExists", err)
		}
	}
	if got := read(t, h.Reopen(t, s), "k", 0, -1); got != "first" {
		t.Errorf("k = %q", got)
	}
}

func testCreateOnce(t *testing.T, h Harness) {
	s := h.Open(t)
	var won atomic.Int64
	var winner atomic.Value
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			mine := strings.Repeat(fmt.Sprintf("%02d", i), 5000)
			err := s.Put(context.Background(), "race/k", strings.NewReader(mine), int64(len(mine)))
			switch {
			case err == nil:
				won.Add(1)
				winner.Store(mine)
			case !errors.Is(err, blob.ErrExists):
				t.Errorf("put: %v", err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d writers won", won.Load())
	}
	if got := read(t, s, "race/k", 0, -1); got != winner.Load() {
		t.Error("the bytes are not the winner's")
	}
}

func testRanges(t *testing.T, h Harness) {
	s := h.Open(t)
	put(t, s, "k", "0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {3, 4, "3456"}, {8, 100, "89"}, {10, -1, ""}, {50, -1, ""}, {50, 2, ""}, {4, 0, ""}} {
		if got := read(t, s, "k", c.offset, c.length); got != c.want {
			t.Errorf("range %d+%d = %q, want %q", c.offset, c.length, got, c.want)
		}
	}
	for _, bad := range [][2]int64{{-1, 3}, {0, -2}} {
		if r, err := s.Open(t.Context(), "k", bad[0], bad[1]); err == nil {
			t.Errorf("range %v is accepted", bad)
			_ = r.Close()
		}
	}
}

func testMissing(t *testing.T, h Harness) {
	s := h.Open(t)
	put(t, s, "a/b", "x")
	for _, key := range []string{"nothing", "a", "a/b/c"} {
		if _, err := s.Open(t.Context(), key, 0, -1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("open %s: %v", key, err)
		}
		if _, err := s.Size(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("size %s: %v", key, err)
		}
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %s: %v", key, err)
		}
	}
}

func testDelete(t *testing.T, h Harness) {
	s := h.Open(t)
	put(t, s, "k", "first")
	open, err := s.Open(t.Context(), "k", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
	if got := keys(t, s, "", "", 10); got != nil {
		t.Errorf("listed after delete: %v", got)
	}
	// A reader that was open keeps what it opened.
	if content, err := io.ReadAll(open); err != nil || string(content) != "first" {
		t.Errorf("open reader: %q, %v", content, err)
	}
	_ = open.Close()
	put(t, s, "k", "second")
	if got := read(t, s, "k", 0, -1); got != "second" {
		t.Errorf("k = %q", got)
	}
}

func testList(t *testing.T, h Harness) {
	s := h.Open(t)
	all := []string{"a", "a-b", "a.b/x", "a/b", "a/b/c", "a/b-c", "a0", "b/1", "b/2", "c"}
	for _, key := range all {
		put(t, s, key, key)
	}
	slices.Sort(all)
	if got := keys(t, s, "", "", 100); !slices.Equal(got, all) {
		t.Fatalf("list = %v, want %v", got, all)
	}
	for size := 1; size < 4; size++ {
		var paged []string
		after := ""
		for {
			page := keys(t, s, "", after, size)
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
			after = page[len(page)-1]
		}
		if !slices.Equal(paged, all) {
			t.Errorf("pages of %d = %v", size, paged)
		}
	}
	for prefix, want := range map[string][]string{
		"a/": {"a/b", "a/b-c", "a/b/c"}, "a/b": {"a/b", "a/b-c", "a/b/c"}, "b": {"b/1", "b/2"}, "zzz": nil,
		"a/b/c/d/": nil,
	} {
		if got := keys(t, s, prefix, "", 100); !slices.Equal(got, want) {
			t.Errorf("list %s = %v, want %v", prefix, got, want)
		}
	}
	if got := keys(t, s, "a/", "a/b", 1); !slices.Equal(got, []string{"a/b-c"}) {
		t.Errorf("list after a/b = %v", got)
	}
	entries, err := s.List(t.Context(), "a.b", "", 5)
	if err != nil || len(entries) != 1 || entries[0].Size != int64(len("a.b/x")) {
		t.Errorf("entries = %v, %v", entries, err)
	}
}

func testTenants(t *testing.T, h Harness) {
	s := h.Open(t)
	digest := domain.DigestOf([]byte("same"))
	put(t, s, blob.ObjectKey("tnt_a", digest), "same")
	put(t, s, blob.ObjectKey("tnt_ab", digest), "same")
	if got := keys(t, s, "tnt_a/", "", 10); !slices.Equal(got, []string{blob.ObjectKey("tnt_a", digest)}) {
		t.Errorf("tnt_a sees %v", got)
	}
}

// HostileKeys are keys that every adapter must refuse with blob.ErrKey.
func HostileKeys() []string {
	return []string{
		"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", ".", "a/./b", "a//b", "a/", "a\x00b", "a\nb",
		`a\b`, `..\x`, "a b", "a+b", "a%2f", "ü", "\xff",
		"a/" + strings.Repeat("x", 201), strings.Repeat("a/", 512) + "b",
	}
}

func testHostileKeys(t *testing.T, h Harness) {
	s := h.Open(t)
	for _, key := range HostileKeys() {
		_, open := s.Open(t.Context(), key, 0, -1)
		_, size := s.Size(t.Context(), key)
		for call, err := range map[string]error{
			"put": s.Put(t.Context(), key, strings.NewReader("x"), 1), "open": open, "size": size,
			"delete": s.Delete(t.Context(), key),
		} {
			if !errors.Is(err, blob.ErrKey) {
				t.Errorf("%s %.40q: %v, want ErrKey", call, key, err)
			}
		}
	}
	for _, prefix := range []string{"../", "/", "a/../", "a\x00"} {
		if _, err := s.List(t.Context(), prefix, "", 1); !errors.Is(err, blob.ErrKey) {
			t.Errorf("list %q: %v, want ErrKey", prefix, err)
		}
	}
	if got := keys(t, s, "", "", 10); got != nil {
		t.Errorf("something was stored: %v", got)
	}
}

func nothingStored(t *testing.T, h Harness, s blob.Store, key string) {
	t.Helper()
	if _, err := s.Size(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("size: %v, want ErrNotFound", err)
	}
	if got := keys(t, h.Reopen(t, s), "", "", 10); got != nil {
		t.Errorf("stored: %v", got)
	}
}

func testFailedReader(t *testing.T, h Harness) {
	s := h.Open(t)
	broken := errors.New("line cut")
	r := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), &failing{broken})
	if err := s.Put(t.Context(), "k", r, -1); !errors.Is(err, broken) {
		t.Errorf("put: %v", err)
	}
	nothingStored(t, h, s, "k")
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func testWrongSize(t *testing.T, h Harness) {
	s := h.Open(t)
	for _, size := range []int64{2, 4} {
		if err := s.Put(t.Context(), "k", strings.NewReader("abc"), size); err == nil {
			t.Errorf("size %d for 3 bytes is accepted", size)
		}
	}
	nothingStored(t, h, s, "k")
}

func testCancelled(t *testing.T, h Harness) {
	s := h.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, "k", strings.NewReader("abc"), 3); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	nothingStored(t, h, s, "k")
}

func testBig(t *testing.T, h Harness) {
	s := h.Open(t)
	const size = 24<<20 + 17
	sum := sha256.New()
	if err := s.Put(t.Context(), "big", io.TeeReader(io.LimitReader(&pattern{}, size), sum), -1); err != nil {
		t.Fatal(err)
	}
	r, err := h.Reopen(t, s).Open(t.Context(), "big", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	back := sha256.New()
	n, err := io.Copy(back, r)
	if err = errors.Join(err, r.Close()); err != nil || n != size || !bytes.Equal(back.Sum(nil), sum.Sum(nil)) {
		t.Errorf("read %d bytes, %v, same bytes: %v", n, err, bytes.Equal(back.Sum(nil), sum.Sum(nil)))
	}
}

// pattern is an endless stream that never repeats at a power of two.
type pattern struct{ at int }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(p.at * 7 % 251)
		p.at++
	}
	return len(b), nil
}
