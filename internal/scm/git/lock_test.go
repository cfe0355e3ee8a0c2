package git

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// refsForSure are more refs than there are stripes, so that some have one together.
func refsForSure() []string {
	refs := make([]string, 2*stripesMax)
	for i := range refs {
		refs[i] = fmt.Sprintf("%s%040x", CapturePrefix, i)
	}
	return refs
}

// Refs whose files are the same are locked once, whatever their order, and the files are
// bounded in number however many refs there are.
func TestRefsOfOneStripeAreLockedOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "tnt_a", "x.git")
	refs := refsForSure()
	servers := []*keyedLocks{{shared: true}, {shared: true}}
	var all sync.WaitGroup
	var inside atomic.Int64
	for i := range 8 {
		mine := slices.Clone(refs)
		if i%2 == 1 {
			slices.Reverse(mine)
		}
		all.Go(func() {
			unlock, err := servers[i%2].lockPush(ctx, dir, mine)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d pushes of the same refs at once", n)
			}
			runtime.Gosched()
			inside.Add(-1)
		})
	}
	all.Wait()
	files, err := os.ReadDir(dir + "." + partPush)
	if err != nil || len(files) > stripesMax {
		t.Errorf("%d lock files, %v; want at most %d", len(files), err, stripesMax)
	}
}

// Whatever is locked beside something else has a file of its own: who holds one does not
// wait for itself when it asks for the other.
func TestNoTwoKeysHaveOneFile(t *testing.T) {
	t.Parallel()
	k := &keyedLocks{shared: true}
	keys := append(k.pushKeys("d", refsForSure()), k.pinKey("d", "r"), lockKey{dir: "d"})
	byPart := func(a, b lockKey) int { return cmp.Compare(a.part, b.part) }
	if !slices.IsSortedFunc(keys[:len(keys)-2], byPart) {
		t.Error("the keys of a push are in no order")
	}
	files := map[string]lockKey{}
	for _, key := range keys {
		if other, ok := files[key.file()]; ok {
			t.Errorf("%v and %v have the file %s", key, other, key.file())
		}
		files[key.file()] = key
	}
	if len(files) > stripesMax+2 || len(files) < stripesMax/2 {
		t.Errorf("%d files for %d refs", len(files), len(refsForSure()))
	}
}

// In a folder of one server every ref has a lock of its own.
func TestRefsOfOneServerAreLockedOneByOne(t *testing.T) {
	t.Parallel()
	k := &keyedLocks{}
	refs := refsForSure()
	if got := len(k.pushKeys("d", append(refs, refs...))); got != len(refs) {
		t.Errorf("%d keys for %d refs", got, len(refs))
	}
	if k.pinKey("d", refs[0]) == k.pinKey("d", refs[1]) {
		t.Error("two pins wait for each other")
	}
}
