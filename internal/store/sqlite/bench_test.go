package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

func streamSuffix(n uint64) domain.StreamID { return domain.StreamID(fmt.Sprintf("%022d", n)) }

// BenchmarkAppendSQLite measures whole batches on the disk of the temporary folder, each
// synced; every row begins a stream.
func BenchmarkAppendSQLite(b *testing.B) {
	for _, size := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			s := mustOpen(b, b.TempDir())
			defer func() { _ = s.Close() }()
			own := acquire(b, s)
			payload := strings.Repeat("e", 250)
			b.ReportAllocs()
			for b.Loop() {
				own = appendTo(b, s, own, rows(own, size, payload))
			}
			seconds := b.Elapsed().Seconds()
			b.ReportMetric(float64(own.Position)/seconds, "rows/s")
			b.ReportMetric(float64(b.N)/seconds, "commits/s")
		})
	}
}

// BenchmarkRowSQLite is the cost of a row without the disk, everything included (making
// the batch, its digest, and copying the write-ahead log back): a folder in memory.
func BenchmarkRowSQLite(b *testing.B) {
	s := mustOpen(b, fastDir(b))
	defer func() { _ = s.Close() }()
	own := acquire(b, s)
	payload := strings.Repeat("e", 250)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		own = appendTo(b, s, own, rows(own, 500, payload))
	}
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(own.Position)/1000, "cpu-µs/row")
}

// cpuTime is the processor time of this process: a figure that a busy machine spoils less.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkFsync is the disk's own figure, to be read beside the others.
func BenchmarkFsync(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "fsync"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	block := make([]byte, 4096)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
