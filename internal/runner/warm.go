package runner

import (
	"bufio"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// warmDir holds a folder for each supervisor that waits for an attempt.
func warmDir(dir string) string { return filepath.Join(dir, "warm") }

// warmID is longer than an attempt's id, which must fit in its place.
func warmID() string { return "warm-" + strings.ToLower(rand.Text()+rand.Text()) }

// reserve keeps supervisors started ahead, so that a lease costs messages and not the
// start of processes. They are an accelerator: whatever goes wrong with one, the attempt
// gets a supervisor of its own instead.
type reserve struct {
	c     *Config
	size  int
	nudge chan struct{} // one is wanted again

	watching sync.WaitGroup

	// mu guards what follows.
	mu        sync.Mutex
	waiting   []*waiting
	making    int                    // are about to be among them
	lent      map[*waiting]time.Time // have an attempt, since when
	paused    bool                   // the machine is busy with an attempt that has just begun
	failures  int                    // since one was of use
	notBefore time.Time
}

type waiting struct {
	warm   *supervisor.Warm
	since  time.Time
	uses   int  // attempts that its process has had
	strict bool // the attempt that it has must be its last
	served int  // rank of the most trusted tier that it has had
}

func newReserve(c *Config) *reserve {
	size := min(c.Capacity, warmMax)
	if _, ok := c.Driver.(isolate.Warmer); !ok || c.Cold {
		size = 0
	}
	return &reserve{c: c, size: size, nudge: make(chan struct{}, 1), lent: make(map[*waiting]time.Time)}
}

// blank is what a waiting supervisor is told.
func (r *reserve) blank() supervisor.Blank {
	id := warmID()
	folder := filepath.Join(warmDir(r.c.Data), id)
	return supervisor.Blank{
		Folder: folder, Driver: r.c.Driver.Name(), Sandbox: r.c.sandbox(id, supervisor.Folder(folder), networkUsual),
	}
}

// run keeps the reserve full until ctx ends, and then lets everything in it go.
func (r *reserve) run(ctx context.Context) {
	defer r.dismiss()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.nudge:
		case <-tick.C:
		}
		r.renew(ctx)
		for ctx.Err() == nil && r.claim(time.Now()) {
			if err := r.add(ctx); err != nil {
				r.c.Logger.Warn("no supervisor is started ahead; jobs start slower", "error", err)
				r.failed()
			}
		}
		tick.Reset(r.next(time.Now()))
	}
}

// claim reports whether one more is wanted now, and the machine can spare it. The caller makes
// it.
func (r *reserve) claim(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lacks(now) || r.paused || now.Before(r.notBefore) || memoryAvailable() < warmMemoryMin {
		return false
	}
	r.making++
	return true
}

// lacks reports whether there are too few, with those whose attempt has just begun: a short one
// gives its supervisor back sooner than another is started. mu is held.
func (r *reserve) lacks(now time.Time) bool {
	n := len(r.waiting) + r.making
	for one, at := range r.lent {
		if !one.strict && now.Sub(at) < warmDelay {
			n++
		}
	}
	return n < r.size
}

// next is how long there is nothing to do, if nothing happens.
func (r *reserve) next(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := warmAge
	for _, w := range r.waiting {
		next = min(next, max(warmAge-now.Sub(w.since), 0))
	}
	if r.lacks(now) && !r.paused {
		next = min(next, max(r.notBefore.Sub(now), 0), warmLook)
		if !now.Before(r.notBefore) {
			next = warmLook // there is no memory for it
		}
	}
	return next
}

// failed notes that one could not be started, or did not live to see its order.
func (r *reserve) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notBefore = time.Now().Add(min(backoffFirst<<min(r.failures, 20), warmBackoffMax))
	r.failures++
}

func (r *reserve) add(ctx context.Context) error {
	w, err := supervisor.WarmUp(r.c.program, r.blank(), r.c.Driver)
	r.made(ctx, &waiting{warm: w, since: time.Now()}, err)
	if err != nil {
		return err
	}
	select {
	case <-w.Ready():
	case <-w.Gone():
	case <-ctx.Done():
	}
	return nil
}

// made puts one that was claimed among those that wait.
func (r *reserve) made(ctx context.Context, one *waiting, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.making--
	if err == nil {
		r.waiting = append(r.waiting, one)
		r.watching.Go(func() { r.watch(ctx, one) })
	}
}

// watch replaces a supervisor that ends while it waits (killed by hand, by the kernel
// for its memory, or by a job that may do so), and has one wait again that is free.
func (r *reserve) watch(ctx context.Context, one *waiting) {
	select {
	case <-one.warm.Gone():
	case <-one.warm.Free():
		r.back(ctx, one)
		return
	case <-ctx.Done():
		if r.forget(one) {
			one.warm.Release()
		}
		return
	}
	if r.forget(one) {
		r.wake() // it had an order, and has done with it
		return
	}
	if !r.remove(one) {
		return // it was let go
	}
	r.failed()
	r.c.Logger.Warn("a waiting supervisor ended; jobs start slower until there is another",
		"said", strings.TrimSpace(one.warm.LastWords()))
	r.clear(one.warm.Clear(ctx))
}

// forget says of one that it has no attempt any more. It reports whether it had.
func (r *reserve) forget(one *waiting) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, had := r.lent[one]
	delete(r.lent, one)
	return had
}

// back has a supervisor wait again that has done with its attempt, if there is use for it.
func (r *reserve) back(ctx context.Context, one *waiting) {
	r.mu.Lock()
	delete(r.lent, one)
	again := ctx.Err() == nil && !one.strict && one.uses < warmUses && r.lacks(time.Now()) &&
		memoryAvailable() >= warmMemoryMin
	if again {
		r.making++
	}
	r.mu.Unlock()
	if !again {
		one.warm.Release()
		r.wake()
		return
	}
	w, err := one.warm.Renew(r.blank())
	r.made(ctx, &waiting{warm: w, since: time.Now(), uses: one.uses, served: one.served}, err)
	if err != nil {
		r.c.Logger.Warn("a supervisor can't be used again; jobs start slower until there is another", "error", err)
		r.failed()
		r.wake()
	}
}

// clear says that something could not be removed now. The next start does it.
func (r *reserve) clear(err error) {
	if err != nil {
		r.c.Logger.Warn("something of a waiting supervisor stays behind until the next start", "error", err)
	}
	r.wake()
}

func (r *reserve) remove(one *waiting) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, w := range r.waiting {
		if w == one {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// renew lets go of what has waited for long: a container keeps the machine's settings of
// the moment it was made.
func (r *reserve) renew(ctx context.Context) {
	for {
		r.mu.Lock()
		var old *waiting
		for _, w := range r.waiting {
			if time.Since(w.since) >= warmAge {
				old = w
			}
		}
		r.mu.Unlock()
		if old == nil || !r.remove(old) {
			return
		}
		r.clear(old.warm.Dismiss(ctx))
	}
}

func (r *reserve) wake() {
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

// take hands out a supervisor that suits the sandbox, the one that has waited longest,
// or nil. The reserve is not filled again before resume, so that the job which begins
// has the machine for itself.
//
// Trust: whoever had a job of strangers has no other one after it, and whoever had one of a tier has
// none of a less trusted one: remains of its secrets may still be in memory.
func (r *reserve) take(spec isolate.Spec, tier domain.Tier) *supervisor.Warm {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
	for i, w := range r.waiting {
		if w.warm.Fits(spec) && tier.Rank() >= w.served {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			r.failures = 0
			w.uses++
			w.served = tier.Rank()
			w.strict = tier.Rank() < domain.TierTrusted.Rank()
			r.lent[w] = time.Now()
			return w.warm
		}
	}
	return nil
}

// resume lets the reserve be filled again.
func (r *reserve) resume() {
	r.mu.Lock()
	r.paused = false
	r.mu.Unlock()
	r.wake()
}

// dismiss lets go of all that wait. They would notice by themselves that the runner is
// gone; a runner that ends in order leaves nothing behind.
func (r *reserve) dismiss() {
	r.watching.Wait() // whoever comes back now waits with the others
	r.mu.Lock()
	left := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), farewellPatience)
	defer cancel()
	var all sync.WaitGroup
	for _, one := range left {
		all.Go(func() {
			if err := one.warm.Dismiss(ctx); err != nil {
				r.c.Logger.Info("a waiting supervisor ends after its runner", "error", err)
			}
		})
	}
	all.Wait()
}

// memoryAvailable is what the kernel would give without swapping; very much where it
// does not say.
func memoryAvailable() int64 {
	const unknown = 1 << 62
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return unknown
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil {
				return unknown
			}
			return kib << 10
		}
	}
	return unknown
}
