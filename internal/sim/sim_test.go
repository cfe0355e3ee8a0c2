package sim

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	first  = flag.Uint64("first", 1, "seed of the first world")
	worlds = flag.Int("worlds", 12, "how many worlds")
)

// clean runs a world and shows the end of its trace when a promise was broken.
func clean(t *testing.T, seed uint64) {
	t.Helper()
	if v := Run(seed, Options{}).Violation; v != nil {
		trace := Run(seed, Options{Trace: true}).Trace
		t.Errorf("go run ./internal/sim/cmd -trace %d: %v\n%s", seed, v, strings.Join(trace[max(0, len(trace)-60):], "\n"))
	}
}

func TestWorlds(t *testing.T) {
	for seed := *first; seed < *first+uint64(*worlds); seed++ {
		clean(t, seed)
	}
}

// Servers that move history into objects all the time, among all the faults, break no promise.
// Promises: [ARCHIVE-1], [ARCHIVE-2].
func TestWorldsThatArchive(t *testing.T) {
	for seed := uint64(1); seed <= 4; seed++ {
		if v := Run(seed, Options{Archive: true}).Violation; v != nil {
			t.Errorf("go run ./internal/sim/cmd -archive -trace %d: %v", seed, v)
		}
	}
}

// Seeds that once found a defect are run for ever, whatever they find today.
func TestSeedsThatFailedOnce(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		var seed uint64
		if _, err := fmt.Sscan(text, &seed); err == nil {
			clean(t, seed)
			n++
		}
	}
	if n == 0 {
		t.Error("the list of seeds is empty")
	}
}

func TestTheSameSeedIsTheSameWorldToTheByte(t *testing.T) {
	for _, seed := range []uint64{3, 4, 12} {
		a, b := Run(seed, Options{Trace: true}), Run(seed, Options{Trace: true})
		if a.Sum != b.Sum || len(a.Trace) != len(b.Trace) {
			t.Errorf("seed %d: %d and %d lines, sums %x and %x", seed, len(a.Trace), len(b.Trace), a.Sum, b.Sum)
		}
		for i := range min(len(a.Trace), len(b.Trace)) {
			if a.Trace[i] != b.Trace[i] {
				t.Fatalf("seed %d, line %d:\n%s\n%s", seed, i, a.Trace[i], b.Trace[i])
			}
		}
		if c := Run(seed+1, Options{Trace: true}); c.Sum == a.Sum {
			t.Errorf("seeds %d and %d are the same world", seed, seed+1)
		}
	}
}

func TestATrimIsReadAsItIsWritten(t *testing.T) {
	trim := Trim{Off: []string{"net-drop", "put-late"}, Phase: 40 * time.Second,
		Runners: 2, Clients: 1, Runs: 3, Servers: 3}
	again, err := ParseTrim(trim.String())
	if err != nil || again.String() != trim.String() {
		t.Errorf("%q was read as %q: %v", trim, again, err)
	}
	if _, err := ParseTrim("runners=2,moon=1"); err == nil {
		t.Error("a trim of the moon was taken")
	}
	whole, part := draw(7, Trim{}), draw(7, Trim{Off: []string{"net-drop"}, Servers: 1})
	if part.odds[netDrop] != 0 || part.servers != 1 || part.odds[putFails] != whole.odds[putFails] ||
		part.runs != whole.runs {
		t.Errorf("leaving one thing out changed others: %+v became %+v", whole, part)
	}
}

func TestAJournalCountsWorldsOfTheseSourcesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	for _, code := range []string{"old", "new", "new"} {
		j, err := OpenJournal(path, code)
		if err != nil {
			t.Fatal(err)
		}
		tally := &Tally{}
		tally.Add(&Result{Events: 3, Faults: map[string]int{"net-drop": 2}, Coverage: Coverage{{"ready", "LeaseGranted"}: 1}})
		if err := j.Write(j.Next, tally); err != nil {
			t.Fatal(err)
		}
	}
	j, err := OpenJournal(path, "new")
	if err != nil {
		t.Fatal(err)
	}
	if p := j.Past; p.Worlds != 2 || p.Events != 6 || p.Faults["net-drop"] != 4 || j.Next != 3 ||
		p.Covers()[Transition{"ready", "LeaseGranted"}] != 2 {
		t.Errorf("the journal adds up to %+v and goes on with %d", p, j.Next)
	}
}

func TestTransitionsAreReadFromTheirPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/transitions.md")
	if err != nil {
		t.Fatal(err)
	}
	legal := legalTransitions(string(page))
	for _, want := range []Transition{{"no run", "RunRequested"}, {"ready", "LeaseGranted"},
		{"uncertain", "LeaseRegained"}} {
		if !legal[want] {
			t.Errorf("the page does not list %v", want)
		}
	}
	if legal[Transition{"no run", "LeaseGranted"}] || len(legal) < 60 {
		t.Errorf("%d transitions were read", len(legal))
	}
}
