package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"github.com/google/go-cmp/cmp"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0.0s", 3249 * time.Millisecond: "3.2s", 42 * time.Second: "42s",
		83 * time.Second: "1m 23s", 125 * time.Minute: "2h 05m", 76 * time.Hour: "3d 4h",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		time.Second: "just now", 40 * time.Second: "40s ago", -40 * time.Second: "in 40s", 3 * time.Hour: "3h ago",
		50 * time.Hour: "2d ago", 60 * 24 * time.Hour: "13 Jan 2026",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("ago(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestFilter(t *testing.T) {
	f := parseFilter("  branch:main  outcome:failure workflow:ci repo:x state:attention colour:red loose: word ")
	got := f.request
	if got.GetRef() != "refs/heads/main" || got.GetOutcome() != "failure" || got.GetWorkflow() != "ci" ||
		got.GetRepository() != "x" || got.GetState() != "attention" {
		t.Errorf("the filter asks for %v", got)
	}
	if diff := cmp.Diff([]string{"colour:red", "loose:", "word"}, f.Unknown); diff != "" {
		t.Error(diff)
	}
	if got := parseFilter("branch:main state:running").with("branch", "next").Text; got != "state:running branch:next" {
		t.Errorf("with gives %q", got)
	}
	if got := parseFilter("branch:a&b").address("run_1"); got != "/?before=run_1&q=branch%3Aa%26b" {
		t.Errorf("address is %q", got)
	}
	if got := parseFilter(strings.Repeat("branch:é", 500)).Text; len(got) > filterBytesMax {
		t.Errorf("a filter of %d bytes was taken", len(got))
	}
}

// Every outcome and every observed state has a look of its own with a word.
func TestEveryStateHasALook(t *testing.T) {
	for _, key := range []string{
		string(domain.OutcomeSuccess), string(domain.OutcomeFailure), string(domain.OutcomeTimedOut),
		string(domain.OutcomeCancelled), string(domain.OutcomeLost), string(domain.OutcomeSoftFailure),
		string(domain.OutcomeSkipped), string(domain.OutcomeSuperseded), string(domain.OutcomeInvalid),
		string(domain.ObservedLeased), string(domain.ObservedPreparing), string(domain.ObservedRunning),
		string(domain.ObservedFinishing), string(domain.ObservedExited), string(domain.ObservedUnreachable),
		"waiting", "held", "ready", "queued", "attention",
	} {
		if s, ok := statuses[key]; !ok || s.Word == "" || s.Key == "" || s.Tone == "" {
			t.Errorf("%s has no look", key)
		}
	}
}

// A cancel request is not a cancellation, and a lost contact is not a failure.
// Promises: [RUN-12].
func TestFactsStayApart(t *testing.T) {
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	a := &fairleadv1.Attempt{Number: 2, Requested: &fairleadv1.Requested{Desired: "cancel", By: "ana"},
		Observed: &fairleadv1.Observation{State: "running"}}
	f := attemptFacts(a, now)
	if f.Requested.Word != "cancel" || f.Observed.Word != "running" || f.Committed.Word != "nothing yet" {
		t.Errorf("facts are %+v", f)
	}
	if got := statusOfAttempt(a).Word; got != "cancel requested" {
		t.Errorf("the attempt looks %q", got)
	}
	a.Observed.State, a.Uncertain, a.SideEffect = "unreachable", true, "unknown"
	f = attemptFacts(a, now)
	if f.Committed.Word != "no result came" || f.Committed.Note != "side effect unknown" {
		t.Errorf("facts are %+v", f)
	}
	if got := statusOfAttempt(a).Word; got != "uncertain" {
		t.Errorf("the attempt looks %q", got)
	}
}

// Rounds start at the same edge, attempts have lanes, and a wait belongs to the attempt
// that it led to.
func TestWaterfallLanes(t *testing.T) {
	start := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	at := func(s int) string { return start.Add(time.Duration(s) * time.Second).Format(time.RFC3339) }
	run := &fairleadv1.Run{Run: "run_x", Summary: &fairleadv1.RunSummary{Created: at(0)},
		Rounds: []*fairleadv1.Round{{Number: 1, Opened: at(0)}, {Number: 2, Opened: at(86400)}},
		Jobs: []*fairleadv1.Job{{Key: "test", State: "active", Segments: []*fairleadv1.Segment{
			{Kind: "no_runner", From: at(0), To: at(10)},
			{Kind: "running", From: at(10), To: at(20), Attempt: 1},
			{Kind: "backoff", From: at(20), To: at(30)},
			{Kind: "running", From: at(30), To: at(40), Attempt: 2},
			{Kind: "no_runner", From: at(86400), To: at(86410)},
			{Kind: "running", From: at(86410), Attempt: 3},
		}}}}
	row := waterfallOf(run, start.Add(86440*time.Second)).Rows[0]
	var got []string
	for _, lane := range row.Lanes {
		text := fmt.Sprint(lane.Old)
		for _, bar := range lane.Bars {
			text += fmt.Sprintf(" %s@%s+%s", strings.TrimPrefix(bar.Kind, "seg-"), bar.X, bar.W)
		}
		got = append(got, text)
	}
	want := []string{
		"true no_runner@0.00%+25.00% running@25.00%+25.00%",
		"true backoff@50.00%+25.00% running@75.00%+25.00%",
		"false no_runner@0.00%+25.00% running@25.00%+75.00%",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTicksAreFewAndRound(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Second: "0s 1s", 90 * time.Second: "0s 30s 1m 1m 30s",
		47 * time.Minute: "0s 10m 20m 30m 40m"} {
		var texts []string
		for _, tick := range ticksOf(d) {
			texts = append(texts, tick.Text)
		}
		if got := strings.Join(texts, " "); got != want {
			t.Errorf("ticks of %v are %q, want %q", d, got, want)
		}
	}
	for _, d := range []time.Duration{time.Second, time.Hour, 1000 * time.Hour, 1e6 * time.Hour} {
		if n := len(ticksOf(d)); n < 2 || n > 8 {
			t.Errorf("%v has %d ticks", d, n)
		}
	}
}

// A refusal is shown in its own words; of a fault nothing leaves the server but its id.
func TestExplain(t *testing.T) {
	p := &Pages{cfg: Config{Log: slog.New(slog.DiscardHandler),
		RequestID: func(context.Context) string { return "req_1" }}}
	detail, err := connectproto.NewErrorDetail(&fairleadv1.ErrorInfo{Code: "workflow_ambiguous",
		Choices: []string{"ci.yaml", "nightly.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err    error
		status int
		code   string
		says   string
	}{
		{fmt.Errorf("cancel run: %w", domain.Reject(domain.CodeRunConcluded, "It is over.")),
			409, "run_concluded", "It is over."},
		{connect.NewError(connect.CodeNotFound, "No such run."), 404, "not_found", "No such run."},
		{connect.NewError(connect.CodeInvalidArgument, "Name one.").WithDetail(detail),
			422, "workflow_ambiguous", "Name one."},
		{connect.NewError(connect.CodeInternal, "password is hunter2"), 500, "internal", "request id"},
		{errors.New("dial 10.0.0.1: refused"), 500, "internal", "request id"},
		{fmt.Errorf("append: %w", domain.ErrRetry), 503, "unavailable", "try again"},
	} {
		got := p.explain(t.Context(), c.err)
		if got.Status != c.status || got.Code != c.code || !strings.Contains(got.Message, c.says) || got.Request != "req_1" {
			t.Errorf("%v is explained as %+v", c.err, got)
		}
		if strings.Contains(got.Message, "hunter2") || strings.Contains(got.Message, "10.0.0.1") {
			t.Errorf("%v leaks: %s", c.err, got.Message)
		}
	}
	if got := statusOfCode(domain.CodeStorageFull); got != http.StatusInsufficientStorage {
		t.Errorf("storage_full is %d", got)
	}
}
