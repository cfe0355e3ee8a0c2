package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	jobOfTests = "job_01jdqz3k0000000000000000aa_0"
	attOfTests = "att_01jdqz3k0000000000000000aa_0_"
)

func mark(t *testing.T, verb string, number int, seconds string) string {
	t.Helper()
	return fmt.Sprintf("%s %s %s%d %s r1\n", verb, jobOfTests, attOfTests, number, seconds)
}

// readWorld reads a world that is written in two pieces.
func readWorld(t *testing.T, text string) *world {
	t.Helper()
	w := &world{path: filepath.Join(t.TempDir(), "world")}
	half := len(text) / 2
	for _, part := range []string{text[:half], text} {
		if err := os.WriteFile(w.path, []byte(part), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.read(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func TestTheWorldIsReadWhileItIsWritten(t *testing.T) {
	w := readWorld(t, mark(t, "begin", 1, "1700000000.01")+mark(t, "act", 1, "1700000000.26")+"nonsense\n"+
		mark(t, "end", 1, "1700000001.00"))
	if len(w.marks) != 3 || len(w.bad) != 1 {
		t.Fatalf("%d marks, bad lines %q", len(w.marks), w.bad)
	}
	if m := w.marks[1]; m.Verb != "act" || time.Duration(m.At-w.marks[0].At) != 250*time.Millisecond || m.number() != 1 {
		t.Errorf("second mark is %+v", m)
	}
}

// Promises: [LEASE-4].
func TestTwoAttemptsThatActAtOnceAreFound(t *testing.T) {
	w := readWorld(t, mark(t, "begin", 1, "10.0")+mark(t, "begin", 2, "20.0")+mark(t, "act", 1, "20.5")+
		mark(t, "end", 2, "21.0"))
	found := overlaps(w.marks)
	if len(found) != 1 || found[0].mark.Verb != "act" || found[0].mark.number() != 1 {
		t.Fatalf("found %+v", found)
	}
	at := func(seconds float64) instant { return instant(seconds * float64(time.Second)) }
	sleep := frozen{runner: "r1", from: at(11), to: at(20.4)}
	found[0].mark.Seen = at(20.6)
	if !woken(found[0].mark, []frozen{sleep}, leaseTTL) {
		t.Error("a mark in the instant of waking is not seen as one")
	}
	for name, other := range map[string]frozen{
		"too short a sleep": {runner: "r1", from: at(18), to: sleep.to},
		"another machine":   {runner: "r2", from: sleep.from, to: sleep.to},
		"long ago":          {runner: "r1", from: at(1), to: at(9)},
	} {
		if woken(found[0].mark, []frozen{other}, leaseTTL) {
			t.Errorf("%s excuses a mark", name)
		}
	}
}

func TestAnAttemptThatBeginsTwiceIsFound(t *testing.T) {
	w := readWorld(t, mark(t, "begin", 1, "10.0")+mark(t, "begin", 1, "10.1"))
	for attempt, n := range begun(w.marks) {
		if n != 2 {
			t.Errorf("%s began %d times", attempt, n)
		}
	}
}

func TestTheSameSeedGivesTheSameSchedule(t *testing.T) {
	yard := Yard{Store: PostgreSQL, Servers: 2, Runners: 3, Lease: leaseTTL}
	text := func(seed uint64) (out []string) {
		for e := range Schedule(seed, yard) {
			out = append(out, fmt.Sprint(e))
			if len(out) == 300 {
				break
			}
		}
		return out
	}
	one := text(7)
	if !slices.Equal(one, text(7)) {
		t.Error("one seed gives two schedules")
	}
	if slices.Equal(one, text(8)) {
		t.Error("two seeds give one schedule")
	}
	all := strings.Join(one, "\n")
	for _, want := range []string{"kill server/0", "kill server/1", "kill runner", "kill machine", "kill process",
		"kill database", "kill backend", "stop server", "stop runner", "stop machine", "stop database", "part clients",
		"part runner", "part database", "part peers", "(hold)", "(swallow)", "(deafen)", "(cut)", "(half)"} {
		if !strings.Contains(all, want) {
			t.Errorf("300 episodes have no %s", want)
		}
	}
}

func TestAJournalCountsCleanSiegesAndResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []Entry{
		{Store: SQLite, Servers: 1, Seed: 1, Kills: map[Target]int{OfServer: 3, OfRunner: 4}},
		{Store: PostgreSQL, Servers: 1, Seed: 9, Kills: map[Target]int{OfServer: 30}},
		{Store: SQLite, Servers: 1, Seed: 2, Kills: map[Target]int{OfServer: 5}, Findings: []string{"a defect"}},
		{Store: SQLite, Servers: 1, Seed: 4, Kills: map[Target]int{OfMachine: 2}},
	} {
		if err := j.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.WriteString(`{"store":"sqlite","seed":5,"kil`) // the machine died
	_ = file.Close()
	j, err = OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.Kills(SQLite, 1); got != 9 {
		t.Errorf("%d kills on SQLite, want 9: unclean sieges do not count", got)
	}
	if got := j.NextSeed(SQLite, 1); got != 5 {
		t.Errorf("next seed is %d, want 5", got)
	}
	if err := j.Add(Entry{Store: SQLite, Servers: 1, Seed: 5, Kills: map[Target]int{OfServer: 1}}); err != nil {
		t.Fatal(err)
	}
	if j, err = OpenJournal(path); err != nil || j.Kills(SQLite, 1) != 10 {
		t.Errorf("after a line that was cut off the journal does not go on: %+v, %v", j, err)
	}
}
