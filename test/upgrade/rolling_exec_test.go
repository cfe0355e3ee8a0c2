package upgrade

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/postgres"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// novel reports whether a row is written as no program of format 1 reads it: packed, or with the
// runner's version.
func novel(events []byte) bool {
	return !bytes.HasPrefix(events, []byte("[")) || bytes.Contains(events, []byte(`"runner_version"`))
}

// A fleet of the previous version is replaced server by server and runner by runner, under
// load. While a server of the previous version lives nothing is written that it could not
// read; afterwards it is. Who is too old or too new for the fleet is told so.
//
// Promises: [FLEET-11].
func TestRollingUpgrade(t *testing.T) {
	old, now := programs(t, "previous", previous), programs(t, "current", nil)
	w := newTown(t, pg.Start(t))
	for _, name := range []string{"s1", "s2", "s3"} {
		w.serve(old, name)
	}
	w.hire(old, "r1")
	w.hire(now, "r2") // a runner may be newer than all servers
	w.settle()

	w.replace(now, "s1")
	w.progress("one of three servers is new")
	w.hire(now, "r1")
	w.replace(now, "s2")
	w.progress("two of three servers are new, and so is the other runner")
	if *flagLong {
		w.replace(old, "s1")
		w.progress("one of them went back")
		w.hire(old, "r2")
		w.replace(old, "s2")
		w.progress("all servers went back, and one runner")
		for _, name := range []string{"s1", "s2"} {
			w.replace(now, name)
			w.progress("forward again, " + name)
		}
	}
	mixed := w.positions()
	w.replace(now, "s3")
	w.progress("all servers are new")
	if *flagLong {
		w.replace(now, "s1")
		w.progress("a new server was restarted")
	}
	w.refused(old, "s4", "older than what is stored")

	w.audit()
	w.readHistory(mixed)
	w.verify(now)
}

// A version that has given up the fleet's format is two versions apart, and says so.
func TestTwoVersionsApart(t *testing.T) {
	if !*flagLong {
		t.Log("not run: it takes a third build; ask for it with -long")
		return
	}
	old, after := programs(t, "previous", previous), programs(t, "next", next)
	w := newTown(t, pg.Start(t))
	w.serve(old, "s1")
	w.hire(old, "r1")
	w.refused(after, "s2", "more than one version apart")
	w.settle()
	w.progress("the fleet did not notice")
	w.audit()
}

// refused starts a server that must not come up, with an exit code and a sentence.
func (w *town) refused(programs, name, sentence string) {
	w.t.Helper()
	_, stderr, code, err := call(w.folder, w.command(programs, name, "127.0.0.1:0")...)
	if err != nil || code == 0 || !strings.Contains(stderr, sentence) {
		w.t.Fatalf("a server that should be refused: exit code %d, %v, want the words %q\n%s", code, err, sentence, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	w.t.Logf("refused with exit code %d: %s", code, lines[len(lines)-1])
}

// open opens the fleet's database beside it.
func (w *town) open() store.Store {
	w.t.Helper()
	s, err := postgres.Open(w.t.Context(), w.store, postgres.Options{Beside: true, ConnsMax: 2})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.(*postgres.Store).Close() })
	return s
}

// positions says how far each partition has come.
func (w *town) positions() map[domain.PartitionID]store.Position {
	w.t.Helper()
	picture, err := w.open().Picture(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if picture.Format != 1 {
		w.t.Errorf("with a member of format 1 the format is %d", picture.Format)
	}
	out := map[domain.PartitionID]store.Position{}
	for _, h := range picture.Partitions {
		out[h.Partition] = h.Position
	}
	return out
}

// readHistory reads every row: up to the mixed positions none has what later formats brought,
// and after them every partition has some.
func (w *town) readHistory(mixed map[domain.PartitionID]store.Position) {
	w.t.Helper()
	s := w.open()
	for p := range w.repos {
		before, leases, after := 0, 0, 0
		for at := store.Position(0); ; {
			rows, err := s.Read(w.t.Context(), p, at, 500)
			if err != nil {
				w.t.Fatal(err)
			}
			if len(rows) == 0 {
				break
			}
			for i := range rows {
				r := &rows[i]
				at = r.Position
				switch has := novel(r.Events); {
				case has && r.Position <= mixed[p]:
					before++
					w.t.Errorf("%s position %d: written for servers that don't read it: %s", p, r.Position, r.Events)
				case has:
					after++
				case bytes.Contains(r.Events, []byte(`"LeaseGranted"`)):
					leases++
				}
			}
		}
		if leases == 0 || after == 0 {
			w.t.Errorf("%s: %d leases in the old form and %d rows in a new one: both are wanted, or nothing was shown",
				p, leases, after)
		}
		w.t.Logf("%s: %d leases in the form of format 1, then %d rows in a later one", p, leases, after)
	}
}
