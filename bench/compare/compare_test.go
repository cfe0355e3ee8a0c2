package main

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// Both sides in small, on a server that is there already: what is made on it is removed.
func TestBothSides(t *testing.T) {
	admin := pg.StartDurable(t)
	folder := t.TempDir()
	r, err := Compare(t.Context(), Options{Store: admin, Folder: folder, Runners: 2, Slots: 4,
		Duration: 2 * time.Second, Drain: 60, Conns: 4, Tuned: tuned, Progress: t.Output(),
		Only: []string{riverClosed, fairleadClosed, riverClosedTen, riverDrain, fairleadDrain}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 5 || r.River == "unknown" || r.Fairlead == "" || r.PostgreSQL["fsync"] != "on" ||
		r.Disk.After == nil {
		t.Errorf("report %+v", r)
	}
	for _, row := range r.Rows {
		if row.JobsPerSecond <= 0 || row.Jobs < 10 || row.Wait.P99 < row.Wait.P50 || row.Wait.P50 <= 0 ||
			len(row.Settings) == 0 {
			t.Errorf("row %+v", row)
		}
	}
	if len(r.Ratios) != 3 {
		t.Errorf("ratios %+v", r.Ratios)
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"beside River v", "fsync on", "synchronous_commit on", "write+fsync 4 KiB, after",
		"closed loop: ten jobs in a request by ten", "drain_river: drain 60", "fetch_cooldown 2ms"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if names := databases(t, admin); names != 0 {
		t.Errorf("%d databases are left behind", names)
	}
}

// databases counts those that a comparison made.
func databases(t *testing.T, admin string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	err = conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname LIKE 'fairlead_compare_%'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestADatabaseThatSyncsNothingIsRefused(t *testing.T) {
	at, err := url.Parse(pg.StartDurable(t))
	if err != nil {
		t.Fatal(err)
	}
	query := at.Query()
	query.Set("options", "-csynchronous_commit=off")
	at.RawQuery = query.Encode()
	for _, store := range []string{pg.Start(t), at.String()} {
		_, err := Compare(t.Context(), Options{Store: store, Folder: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), "commits would not be durable") {
			t.Errorf("%v", err)
		}
	}
}

// A job that was executed twice, not at all or without being in the table is no figure.
func TestTheBookFindsWhatIsWrong(t *testing.T) {
	kept := func() *book {
		b := newBook()
		b.openWindow()
		for id := range int64(3) {
			b.executed(id, time.Now().Add(-time.Millisecond).UnixMicro())
			b.completed(id)
		}
		b.closeDrain()
		return b
	}
	b := kept()
	if err := b.check(0, "completed", 1); err != nil {
		t.Error(err)
	}
	if err := b.checkCount(3); err != nil {
		t.Error(err)
	}
	if row := b.row(nil); row.Jobs != 3 || row.JobsPerSecond <= 0 || row.Wait.P50 <= 0 {
		t.Errorf("row %+v", row)
	}
	b.executed(1, 0)
	for name, err := range map[string]error{
		"executed twice": b.check(1, "completed", 1), "not completed": b.check(0, "running", 1),
		"attempted twice": b.check(0, "completed", 2), "never seen": kept().check(9, "completed", 1),
		"one more in the table": kept().checkCount(4), "none in the window": newBook().checkCount(0),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b = kept()
	b.completed(2)
	if err := b.checkCount(3); err == nil {
		t.Error("completed twice: no error")
	}
}

// A ratio with an aim is to the faster of River's two settings, and none is made of what was
// not measured.
func TestRatiosAreToTheFaster(t *testing.T) {
	r := &Report{Rows: []Row{{Key: riverDrainDefault, JobsPerSecond: 300}, {Key: riverDrain, JobsPerSecond: 200},
		{Key: fairleadDrain, JobsPerSecond: 150}, {Key: fairleadClosed, JobsPerSecond: 1}}}
	r.compare()
	if len(r.Ratios) != 2 || r.Ratios[0] != (Ratio{"drain", fairleadDrain, riverDrainDefault, 0.5, drainAim}) {
		t.Errorf("ratios %+v", r.Ratios)
	}
	if text, err := json.Marshal(r); err != nil || !strings.Contains(string(text), `"aim":0.5`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestMistakesOfTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"extra"}, {"-drain", "0"}, {"-conns", "-1"}, {"-nonsense"}, {"-only", "nothing"}} {
		if args[0] == "-only" {
			args = append(args, "-store", pg.StartDurable(t), "-program", "fairlead")
		}
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
