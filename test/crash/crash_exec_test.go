package crash

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var (
	flagKills   = flag.Int("kills", 5, "kills of one siege")
	flagTotal   = flag.Int("total", 0, "go on with sieges until the journal has that many kills per store; 0: one siege")
	flagSeed    = flag.Uint64("seed", 0, "seed of the first siege; 0: the first one that the journal has not")
	flagCommit  = flag.String("commit", "", "what the journal says was tested; \"\": what git describes")
	flagJournal = flag.String("journal", "", "file that accumulates sieges")
	flagServers = flag.Int("servers", 3, "servers of a fleet on one PostgreSQL database")
	flagPlanted = flag.Bool("planted", false, "also besiege builds with a planted defect")
	flagKeep    = flag.Bool("keep", false, "keep the folder of every siege")
)

var programs string // folder of the programs under test

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(build(m))
}

func build(m *testing.M) int {
	if programs = os.Getenv(guestVariable); programs != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "fairlead-crash-bin-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		programs, err = dir, Build(dir, "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	NotRun.Print(os.Stdout)
	return code
}

// Promises: [HIST-4].
func TestCrashesOnSQLite(t *testing.T) { besiege(t, SQLite, 1) }

// Promises: [HIST-4].
func TestCrashesOnPostgreSQL(t *testing.T) { besiege(t, PostgreSQL, 1) }

func TestCrashesOfAFleet(t *testing.T) { besiege(t, PostgreSQL, *flagServers) }

// besiege holds sieges until the journal has as many kills as were asked for.
func besiege(t *testing.T, store Store, servers int) {
	t.Parallel()
	journal, err := OpenJournal(*flagJournal)
	if err != nil {
		t.Fatal(err)
	}
	seed := *flagSeed
	if seed == 0 {
		seed = journal.NextSeed(store, servers)
	}
	for {
		e, still := siege(t, Options{Programs: programs, Store: store, Servers: servers, Runners: 3,
			Kills: *flagKills, Seed: seed})
		if still > stillMost && !e.Clean() {
			// Neither clean nor to be held against the product.
			t.Logf("%s, %d servers, seed %d: not judged: the observer itself stood still for %s", store, servers, seed, still)
			seed++
			continue
		}
		if err := journal.Add(e); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s, %d servers, seed %d: %s", store, servers, seed, e.Summary())
		for _, finding := range e.Findings {
			t.Errorf("%s, seed %d: %s", store, seed, finding)
		}
		if *flagTotal > 0 {
			t.Logf("%s: %d of %d kills in the journal", store, journal.Kills(store, servers), *flagTotal)
		}
		if t.Failed() || journal.Kills(store, servers) >= *flagTotal {
			break
		}
		seed = journal.NextSeed(store, servers)
	}
	if t.Failed() {
		t.Logf("again: go test ./test/crash -run %s -kills %d -seed %d", t.Name(), *flagKills, seed)
	}
}

// say prints what happens for whoever reads along.
func say(begun time.Time) func(string, ...any) {
	return func(format string, args ...any) {
		if testing.Verbose() {
			fmt.Printf("%8s  %s\n", time.Since(begun).Round(10*time.Millisecond), fmt.Sprintf(format, args...))
		}
	}
}

// siege holds one and gives its journal entry. A siege that could not be held at all
// fails the test at once.
func siege(t *testing.T, o Options) (e Entry, still time.Duration) {
	ctx, begun := t.Context(), time.Now()
	o.Say = say(begun)
	s, err := NewSiege(ctx, o)
	if s != nil {
		defer func() { s.Close(*flagKeep || t.Failed() || !e.Clean()) }()
	}
	if err != nil {
		t.Fatal(err)
	}
	load, stopLoad := context.WithCancel(ctx)
	defer stopLoad()
	stop := s.Load(load)
	err = s.Rage(ctx)
	stop()
	if err == nil {
		err = s.Judge(ctx)
	}
	if err != nil {
		s.Book.finding("%v", err)
	}
	return s.Entry(begun, cmp.Or(*flagCommit, revision())), s.still
}
