package fleet

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// Whoever reads that a lease ran out is to learn whether the store or the machine was late.
func TestALeaseThatRanOutSaysWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, memory.New(), 2*time.Second)
		var said bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&said, nil))
		s := w.open("a")
		w.settle("a")
		s.gate.freeze()
		time.Sleep(3 * time.Second)
		s.gate.thaw()
		w.settle("a")
		w.close()
		synctest.Wait()
		words, _, _ := strings.Cut(said.String()[max(strings.Index(said.String(), "lease ran out"), 0):], "\n")
		for _, want := range []string{"lease ran out", "late=0s", "ttl=2s", "store_silent=1.5s"} {
			if !strings.Contains(words, want) {
				t.Errorf("no %s in %q", want, words)
			}
		}
	})
}
