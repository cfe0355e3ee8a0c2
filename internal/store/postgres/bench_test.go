package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// BenchmarkAppendPostgres measures whole batches on a cluster that syncs every commit,
// over a Unix socket of the same machine. BenchmarkFsync of the SQLite adapter gives the
// disk's own figure.
func BenchmarkAppendPostgres(b *testing.B) {
	url := pg.StartDurable(b)
	for _, size := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("rows=%d", size), func(b *testing.B) {
			s := fresh(b, url)
			defer closed(b, s)
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
