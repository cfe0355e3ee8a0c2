package tally

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/testkit/yard"
)

func counted(t *testing.T, w *yard.World, lines string, change func(*Config)) *Report {
	t.Helper()
	cfg := Config{Archive: w.Store, Blobs: w.Blobs, Book: strings.NewReader(lines)}
	if change != nil {
		change(&cfg)
	}
	r, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A book that tells the truth finds nothing; jobs count once, in the window in which they ended.
func TestWhatHappenedIsCounted(t *testing.T) {
	yard.OnBoth(t, func(t *testing.T, w *yard.World) {
		var book []byte
		began := w.Engine.Now()
		for range 5 {
			id, _ := w.Whole()
			att := string(id.Job(0).Attempt(1))
			book = entry(book, BookRun, string(id), time.Time{})
			book = entry(book, BookGot, att, w.Engine.Now())
			book = entry(book, BookGot, att, w.Engine.Now()) // the same manifest once more
			book = entry(book, BookAcked, att, w.Engine.Now())
		}
		w.Lease(w.Request(), 1)
		r := counted(t, w, string(book), nil)
		if r.Wrong() || r.Runs != 6 || r.Open != 1 || r.Attempts != 6 || r.Jobs != 5 || r.Concluded != 5 ||
			r.Outcomes[domain.OutcomeSuccess] != 5 || r.Leased.Count != 6 || r.Got.Count != 5 || r.Bytes < 4096 ||
			r.Rows == 0 || r.Events < r.Rows || len(r.Names) != 0 {
			t.Errorf("counted %+v", r)
		}
		ranges := w.Archive()
		archived := counted(t, w, string(book), nil)
		archived.Bytes = r.Bytes
		if diff := cmp.Diff(r, archived); diff != "" || len(ranges) == 0 {
			t.Errorf("archived history counts otherwise:\n%s", diff)
		}
		if r.Got.P50 < r.Leased.P50 || r.Got.Max == 0 {
			t.Errorf("waits %+v and %+v", r.Leased, r.Got)
		}
		past := counted(t, w, "", func(c *Config) { c.To = began })
		later := counted(t, w, "", func(c *Config) { c.From = time.Now().Add(time.Hour) })
		if past.Jobs+later.Jobs != 0 || past.Runs != 6 || later.Got.Count != 0 {
			t.Errorf("outside the window: %+v and %+v", past, later)
		}
	})
}

// What a book remembers and history does not hold is lost; a second execution that history
// does not explain is a duplicate.
func TestWhatIsMissingIsTold(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		whole, _ := w.Whole()
		open := w.Request()
		first, second := string(whole.Job(0).Attempt(1)), string(whole.Job(0).Attempt(2))
		waits := string(open.Job(0).Attempt(1))
		never := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{9}))
		for name, c := range map[string]struct {
			book             string
			lost, duplicated int64
			names            []string
		}{
			"a run that is not there":        {fmt.Sprintf("run %s\n", never), 1, 0, []string{string(never)}},
			"a run without an outcome":       {fmt.Sprintf("run %s\n", open), 1, 0, []string{string(open)}},
			"a request that is not there":    {fmt.Sprintf("asked %s\n", never), 1, 0, []string{string(never)}},
			"a request whose run is open":    {fmt.Sprintf("asked %s\n", open), 0, 0, nil},
			"a result that is not there":     {fmt.Sprintf("ack %s 1\n", waits), 1, 0, []string{waits}},
			"a result of another attempt":    {fmt.Sprintf("ack %s 1\n", second), 1, 0, []string{second}},
			"an execution without a lease":   {fmt.Sprintf("got %s 1\ngot %s 2\n", first, second), 1, 0, []string{second}},
			"the same manifest, heard twice": {fmt.Sprintf("got %[1]s 1\ngot %[1]s 2\n", first), 0, 0, nil},
		} {
			t.Run(name, func(t *testing.T) {
				r := counted(t, w, c.book, nil)
				if r.Lost != c.lost || r.Duplicated != c.duplicated || !slices.Equal(r.Names, c.names) ||
					r.Wrong() != (c.lost+c.duplicated > 0) {
					t.Errorf("counted %+v", r)
				}
			})
		}
	})
}

// What history allows is no duplicate: an attempt that was lost or failed and is tried again, a
// second round. What a runner executed although it had declined it, is; and a result that was
// acknowledged and that history has not committed is lost, whatever became of its attempt.
func TestExecutionsThatHistoryExplains(t *testing.T) {
	yard.OnSQLite(t, func(t *testing.T, w *yard.World) {
		id := w.Request()
		slot := 0
		lease := func() domain.AttemptID {
			slot++
			now := w.Engine.Now()
			ack := w.Submit(yard.Home, id.Stream(), run.GrantLease{Cause: w.Cause(), Job: id.Job(0), Runner: "rnr_1",
				RunnerName: "r", Pool: "default", Tiers: []domain.Tier{domain.TierTrusted},
				Slot: domain.SlotToken(fmt.Sprintf("rnr_1/0/%d", slot)), Until: now.Add(time.Hour),
				AbandonBy: now.Add(2 * time.Hour)})
			return ack.Reply.(run.LeaseReply).Attempt
		}
		first := lease()
		w.Submit(yard.Home, id.Stream(), run.DeclineLease{Cause: w.Cause(), Attempt: first, Epoch: 1, Reason: "full"})
		second := lease()
		w.Submit(yard.Home, id.Stream(), run.ReportResult{Cause: domain.Cause{Actor: domain.Actor{Kind: "runner",
			ID: "rnr_1", Via: "test"}}, Attempt: second, Epoch: 2, Outcome: domain.OutcomeFailure, Effect: domain.EffectNone,
			Class: domain.FailureUserCode, Digest: "sha256:" + domain.Digest(strings.Repeat("2", 64))})
		w.Submit(yard.Home, id.Stream(), run.Rerun{Cause: w.Cause(), Mode: run.RerunAll})
		third := lease()
		for name, c := range map[string]struct {
			book             string
			lost, duplicated int64
		}{
			"as it was":                       {fmt.Sprintf("got %s 1\ngot %s 2\nack %s 3\n", second, third, second), 0, 0},
			"executed and declined":           {fmt.Sprintf("got %s 1\ngot %s 2\n", first, second), 0, 1},
			"acknowledged without its result": {fmt.Sprintf("ack %s 1\n", first), 1, 0},
		} {
			t.Run(name, func(t *testing.T) {
				if r := counted(t, w, c.book, nil); r.Lost != c.lost || r.Duplicated != c.duplicated {
					t.Errorf("counted %+v", r)
				}
			})
		}
		if r := counted(t, w, "", nil); r.Wrong() {
			t.Errorf("without a book: %+v", r)
		}
	})
}

// A book that can't be read is an error that names the line.
func TestAMalformedBookIsRefused(t *testing.T) {
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1}))
	for _, text := range []string{"run", "run nobody", "got x 1", "ack " + string(id.Job(0).Attempt(1)), "sold " +
		string(id.Job(0).Attempt(1)) + " 1", "run " + string(id) + " 5", strings.Repeat("x", 600)} {
		in := bytes.NewReader(append(entry(nil, BookRun, string(id), time.Time{}), text...))
		if _, err := readBook(in); err == nil || !strings.Contains(err.Error(), "read book") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// entry writes one line of a book.
func entry(to []byte, word, name string, at time.Time) []byte {
	to = append(append(append(to, word...), ' '), name...)
	if !at.IsZero() {
		to = strconv.AppendInt(append(to, ' '), at.UnixMicro(), 10)
	}
	return append(to, '\n')
}
