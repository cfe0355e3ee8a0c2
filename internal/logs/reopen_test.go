package logs

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
)

// A backup has history of one moment and objects of a later one: a log that was sealed in
// between lies in an object that the copied history does not name, and its segments are gone.
// Promises: [BACKUP-9].
func TestASealedLogCanBeOpenedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []Chunk
		end    uint64
	}{
		"nothing":      {nil, 0},
		"one line":     {[]Chunk{chunk(attempt(1), 1, "one\n")}, 1},
		"gaps":         {[]Chunk{chunk(attempt(1), 2, "two\n"), chunk(attempt(1), 4, "four")}, 6},
		"only gaps":    {nil, 3},
		"marks":        {[]Chunk{chunk(attempt(1), 1, "x"), marked(attempt(1), 2, "truncated:bytes", 9)}, 2},
		"over a block": {[]Chunk{chunk(attempt(1), 1, "x"), chunk(attempt(1), 2, strings.Repeat("line\n", 120_000))}, 2},
		"many segments": {[]Chunk{chunk(attempt(1), 1, strings.Repeat("a line\n", 140_000)),
			chunk(attempt(1), 2, strings.Repeat("b line\n", 140_000)), chunk(attempt(1), 3, strings.Repeat("c\n", 500_000)),
			chunk(attempt(1), 4, strings.Repeat("d line\n", 140_000)), chunk(attempt(1), 5, strings.Repeat("e\n", 500_000))}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			a, store := attempt(1), memory.New()
			g := open(t, store)
			if len(c.chunks) > 0 {
				push(t, g, c.chunks...)
			}
			want := seal(t, g, a, c.end)
			text := raw(t, reader(t, g, a))

			other := memory.New()
			n := uint32(0)
			if err := Reopen(t.Context(), store, tenant, a, want, func(segment []byte) error {
				n++
				return other.Put(t.Context(), ReopenedKey(tenant, 7, n-1), bytes.NewReader(segment), -1)
			}); err != nil {
				t.Fatal(err)
			}
			for _, era := range []uint64{0, 8} {
				again, err := Open(t.Context(), copyOf(other), Config{Era: era})
				if err != nil || len(again.Damaged()) > 0 {
					t.Fatal(err, again.Damaged())
				}
				if got := raw(t, reader(t, again, a)); got != text {
					t.Errorf("era %d: %d bytes, want %d", era, len(got), len(text))
				}
				got := seal(t, again, a, c.end)
				got.Object, got.Digest, got.Offset, got.Length = want.Object, want.Digest, want.Offset, want.Length
				if got != want {
					t.Errorf("era %d: sealed as %+v, want %+v", era, got, want)
				}
				push(t, again, chunk(attempt(2), 1, fmt.Sprint("goes on in era ", era)))
			}
		})
	}
}
