package fault_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/fault"
)

var (
	only = flag.Int("k", 0, "play only the pass in which the k-th call fails, and print all of it")
	step = flag.Int("step", 0, "sweep every step-th k; 0: a sample that takes seconds; make fault sweeps all")
)

// kMax ends a sweep that finds no end.
const kMax = 20_000

// row is a line of the table of a sweep.
type row struct {
	port   fault.Port
	mode   fault.Mode
	swept  int // passes in which a call was struck
	by     int // the step of k
	struck map[string]int
	failed int
	took   time.Duration
}

// modes are the ways in which a port's calls can fail, each once and for good.
func modes(ways ...fault.How) (out []fault.Mode) {
	for _, how := range ways {
		out = append(out, fault.Mode{How: how}, fault.Mode{How: how, Lasting: true})
	}
	return out
}

// serverPorts are swept with a whole server.
var serverPorts = []struct {
	port fault.Port
	ways []fault.How
}{
	{fault.PortStore, []fault.How{fault.Before, fault.After, fault.Full, fault.Broken}},
	{fault.PortObjects, []fault.How{fault.Before, fault.After, fault.Full}},
	{fault.PortSegments, []fault.How{fault.Before, fault.After, fault.Full}},
	{fault.PortSource, []fault.How{fault.Before, fault.After}},
	{fault.PortManifests, []fault.How{fault.Before}},
}

// TestSweepInMemory fails every call of every port of the server, in every way it can fail,
// once and for good.
// Promises: [CMD-2], [CMD-3], [CMD-6], [CMD-10], [CMD-11], [CMD-12], [HIST-1], [HIST-2], [HIST-5],
// [HIST-13], [LOG-5], [LOG-11], [SRC-2], [SRC-3], [SRC-12].
func TestSweepInMemory(t *testing.T) {
	sweepAll(t, setting{disk: newInMemory}, cmp.Or(*step, 47))
}

// TestSweepOnSQLite is the same over the adapters that the embedded default has.
// Promises: [CMD-10], [CMD-11].
func TestSweepOnSQLite(t *testing.T) {
	sweepAll(t, setting{disk: newInFiles}, cmp.Or(*step, 151))
}

// TestSweepOnGit fails the calls of source control over real repositories.
// Promises: [CMD-10], [CMD-11].
func TestSweepOnGit(t *testing.T) {
	sweepAll(t, setting{disk: newInMemory, source: inGit}, cmp.Or(*step, 17), fault.PortSource)
}

// sweepAll sweeps the ports that are named, or all.
func sweepAll(t *testing.T, s setting, by int, named ...fault.Port) {
	var mu sync.Mutex
	var rows []row
	t.Run("ports", func(t *testing.T) {
		for _, p := range serverPorts {
			if len(named) > 0 && !slices.Contains(named, p.port) {
				continue
			}
			for _, m := range modes(p.ways...) {
				t.Run(strings.ReplaceAll(string(p.port)+"/"+m.String(), " ", "-"), func(t *testing.T) {
					t.Parallel()
					r := sweep(t, s, p.port, m, by)
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, r)
				})
			}
		}
	})
	report(t, rows)
}

// sweep plays k = 1, 1+by, 1+2·by … until a pass in which no call was left to be struck.
func sweep(t *testing.T, s setting, port fault.Port, m fault.Mode, by int) row {
	r := row{port: port, mode: m, by: by, struck: map[string]int{}}
	begin := time.Now()
	for k := cmp.Or(*only, 1); ; k += by {
		if k > kMax {
			t.Fatalf("no clean pass up to k=%d", k)
		}
		p := bubble(t, s, fault.NewPlan(port, m, k))
		if len(p.findings) > 0 {
			r.failed++
			t.Errorf("k=%d, %v fails:\n  %s\nagain: go test ./internal/fault -run '^%s$' -k %d", k,
				first(p.struck), strings.Join(p.findings, "\n  "), strings.ReplaceAll(t.Name(), "/", "$/^"), k)
			if *only > 0 || r.failed >= 5 {
				t.Logf("the pass:\n%s", p.trace)
				break
			}
		}
		if *only > 0 {
			t.Logf("the pass:\n%s", p.trace)
			break
		}
		if len(p.struck) == 0 {
			break
		}
		r.swept++
		r.struck[p.struck[0]]++
	}
	r.took = time.Since(begin)
	t.Logf("%d of k = 1 to %d, %d failed, in %s", r.swept, 1+r.swept*by, r.failed, r.took.Round(time.Second))
	return r
}

func first(struck []string) string {
	if len(struck) == 0 {
		return "nothing"
	}
	return struck[0]
}

// bubble plays a pass in virtual time.
func bubble(t *testing.T, s setting, plan *fault.Plan) (p passed) {
	synctest.Test(t, func(t *testing.T) { p = play(t, s, plan) })
	return p
}

// report prints what was swept.
func report(t *testing.T, rows []row) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.port, b.port), cmp.Compare(a.mode.How, b.mode.How),
			cmp.Compare(a.mode.String(), b.mode.String()))
	})
	var out strings.Builder
	total := 0
	fmt.Fprintf(&out, "%-10s %-16s %6s %5s %7s %8s  %s\n",
		"port", "mode", "k", "step", "failed", "seconds", "first call that failed")
	for _, r := range rows {
		var ops []string
		for _, op := range slices.Sorted(maps.Keys(r.struck)) {
			ops = append(ops, fmt.Sprintf("%s %d", op, r.struck[op]))
		}
		total += r.swept
		fmt.Fprintf(&out, "%-10s %-16s %6d %5d %7d %8.1f  %s\n", r.port, r.mode, r.swept, r.by, r.failed, r.took.Seconds(),
			strings.Join(ops, ", "))
		if r.swept == 0 && *only == 0 {
			t.Errorf("%s %s: no call could be struck", r.port, r.mode)
		}
	}
	t.Logf("swept %d faults\n%s", total, out.String())
}

// TestNothingFails is the pass without a fault: the clean one.
func TestNothingFails(t *testing.T) {
	for name, d := range map[string]func(testing.TB) disk{"memory": newInMemory, "sqlite": newInFiles} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			p := bubble(t, setting{disk: d}, fault.NewPlan(fault.PortStore, fault.Mode{How: fault.Before}, 1<<40))
			for _, f := range p.findings {
				t.Error(f)
			}
			if t.Failed() || testing.Verbose() {
				t.Logf("in %s:\n%s", time.Since(begin), p.trace)
			}
		})
	}
}
