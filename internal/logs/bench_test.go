package logs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

func onDisk(b *testing.B, config Config) *Gateway {
	b.Helper()
	store, err := file.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	g, err := Open(context.Background(), store, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = g.Close() })
	return g
}

// text is log-like: lines of about 100 bytes that compress about as logs do.
func text(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2026-03-01T12:%02d:%02dZ level=info msg=\"request done\" id=%08x status=200 bytes=%d path=/api\n",
			i/60%60, i%60, i*2654435761, i*7%9973)
	}
	return b.String()[:size]
}

// BenchmarkIngest is chunks of sixteen attempts, each acknowledged after its sync. The time
// of the writes (segment file, two syncs) in the same run stands beside it.
func BenchmarkIngest(b *testing.B) {
	for _, size := range []int{256 << 10, 4 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			const attempts = 16
			var mu sync.Mutex
			var took []time.Duration
			g := onDisk(b, Config{Wrote: func(w Write) {
				mu.Lock()
				took = append(took, w.Took)
				mu.Unlock()
			}})
			content := []byte(text(size))
			sum := domain.Checksum(content)
			b.SetBytes(int64(size))
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range attempts {
				all.Go(func() {
					c := chunk(attempt(i), 0, "")
					c.Data, c.Checksum = content, sum
					for n := i; n < b.N; n += attempts {
						c.Sequence++
						if acks, err := g.Append(context.Background(), []Chunk{c}); err != nil || acks[0].Through != c.Sequence {
							b.Errorf("%+v, %v", acks, err)
							return
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "write-p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "write-p99-ms")
			b.ReportMetric(float64(g.Counters().Chunks)/float64(g.Counters().Segments), "chunks/write")
		})
	}
}

const millionLines = 1_000_000

// millionLog pushes a log of a million lines.
func millionLog(b *testing.B, g *Gateway, a domain.AttemptID) {
	b.Helper()
	content := text(512 << 10)
	content = content[:strings.LastIndexByte(content, '\n')+1]
	per := strings.Count(content, "\n")
	for i, lines := uint64(1), 0; lines < millionLines; i, lines = i+1, lines+per {
		push(b, g, chunk(a, i, content))
	}
}

// BenchmarkWindow opens 200 lines anywhere in a million, live and sealed, nothing in memory.
func BenchmarkWindow(b *testing.B) {
	for _, sealed := range []bool{false, true} {
		b.Run(fmt.Sprintf("sealed=%v", sealed), func(b *testing.B) {
			g := onDisk(b, Config{RecentBytes: 2 << 20})
			a := attempt(1)
			millionLog(b, g, a)
			if sealed {
				seal(b, g, a, SequenceUnknown)
			}
			l := reader(b, g, a)
			b.ResetTimer()
			for i := range b.N {
				from := int64(1 + i*7919%(millionLines-200))
				lines, err := l.Lines(context.Background(), from, 200)
				if err != nil || len(lines) != 200 || lines[0].Number != from {
					b.Fatalf("%d lines, %v", len(lines), err)
				}
			}
		})
	}
}

// BenchmarkSearch looks through a sealed log of a million lines for what is not there.
func BenchmarkSearch(b *testing.B) {
	g := onDisk(b, Config{})
	millionLog(b, g, attempt(1))
	ref := seal(b, g, attempt(1), SequenceUnknown)
	b.SetBytes(ref.Bytes)
	for b.Loop() {
		hits, err := reader(b, g, attempt(1)).Search(context.Background(), []byte("nowhere"), 1, 10)
		if err != nil || hits != nil {
			b.Fatal(hits, err)
		}
	}
}

// BenchmarkSeal compacts a log of a million lines.
func BenchmarkSeal(b *testing.B) {
	g := onDisk(b, Config{})
	for i := range b.N {
		b.StopTimer()
		millionLog(b, g, attempt(i))
		b.StartTimer()
		ref := seal(b, g, attempt(i), SequenceUnknown)
		b.SetBytes(ref.Bytes)
		b.ReportMetric(float64(ref.Bytes)/float64(ref.Length), "ratio")
	}
}

// BenchmarkOpen is a start with 64 live logs of sixteen segments' worth each.
func BenchmarkOpen(b *testing.B) {
	store, err := file.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	g := open(b, store)
	content := text(64 << 10)
	for i := range uint64(16) {
		for n := range 4 {
			var chunks []Chunk
			for a := range 16 {
				chunks = append(chunks, chunk(attempt(n*16+a), i+1, content))
			}
			push(b, g, chunks...)
		}
	}
	for b.Loop() {
		if g, err := Open(context.Background(), store, Config{}); err != nil || g.Counters().Live != 64 {
			b.Fatal(err)
		}
	}
}
