package run

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// TestCheckFinds breaks a good state in one place at a time; Check must name each.
func TestCheckFinds(t *testing.T) {
	active := []string{"request\njob test\njob next needs=test", "lease test",
		"progress test/a1 running steps=1:started"}
	retried := append(active[:len(active):len(active)], "report test/a1 failure class=platform_error", "lease test")
	uncertain := append(active[:len(active):len(active)], "lapse test/a1 at=00:01:00")
	stopping := append(active[:len(active):len(active)], "cancel")
	done := []string{"request\njob test", "lease test", "report test/a1 success"}
	deploys := []string{
		"request\njob deploy effectful", "lease deploy", "lapse deploy/a1 at=00:01:00", "wake at=00:01:40",
		"settle deploy/a1 effect=none then=retry", "lease deploy",
	}
	tests := []struct {
		name  string
		story []string
		spoil func(s *State)
		says  string
	}{
		{"events without a run", nil, func(s *State) { s.Version = 3 }, "no run"},
		{"a job too few", active, func(s *State) { s.Jobs = s.Jobs[:1] }, "jobs for"},
		{"an outcome with open jobs", active, func(s *State) { s.Outcome = domain.OutcomeSuccess }, "jobs open"},
		{"no outcome with none open", done, func(s *State) { s.Outcome = "" }, "0 jobs open"},
		{"another outcome than the jobs'", done, func(s *State) { s.Outcome = domain.OutcomeFailure }, "add up to"},
		{"no reason for the outcome", done, func(s *State) { s.Reason = Reason{} }, "without a reason"},
		{"ready too early", active, func(s *State) { s.Jobs[1].State = StateReady }, "(6)"},
		{"numbers with a gap", retried, func(s *State) { s.Jobs[0].Attempts[1].Number = 3 }, "has number"},
		{"an epoch that does not grow", retried, func(s *State) { s.Jobs[0].Attempts[1].Epoch = 1 }, "epoch"},
		{"two live attempts", retried, func(s *State) { s.Jobs[0].Attempts[0].Outcome = "" }, "(5)"},
		{"a live attempt of an idle job", active, func(s *State) { s.Jobs[0].State = StateHeld }, "and the job is"},
		{"a failure without a class", retried, func(s *State) { s.Jobs[0].Attempts[0].Class = "" }, "class"},
		{"a result without a reason", done, func(s *State) { s.Jobs[0].Attempts[0].Reason = Reason{} }, "(16)"},
		{"an uncertain result", done, func(s *State) { s.Jobs[0].Attempts[0].Uncertain = true }, "and uncertain"},
		{"lost with a report", done, func(s *State) {
			s.Jobs[0].Attempts[0].Outcome, s.Jobs[0].Attempts[0].Class = domain.OutcomeLost, domain.FailureRunnerLost
		}, "with a report"},
		{"settled too early", uncertain, func(s *State) { s.Jobs[0].Attempts[0].SettleAt = start }, "(10)"},
		{"held without effects", uncertain, func(s *State) { s.Jobs[0].Attempts[0].Held = true },
			"not uncertain and effectful"},
		{"stopping without a reason", stopping, func(s *State) { s.Jobs[0].Attempts[0].Stop = Reason{} }, "(15)"},
		{"abandoned before it runs out", active, func(s *State) { s.Jobs[0].Attempts[0].AbandonBy = start }, "(10)"},
		{"a second deployment beside a first", deploys, func(s *State) { s.Jobs[0].Attempts[1].LeasedAt = start }, "(10)"},
		{"concluded without an outcome", done, func(s *State) { s.Jobs[0].Outcome = "" }, "state concluded"},
		{"waiting for a reason to conclude", active, func(s *State) { s.Jobs[1].Reason.Code = ReasonSucceeded },
			"(14, 16)"},
		{"a reason without a cause", active, func(s *State) { s.Jobs[1].Cause.Version = 0 }, "(14)"},
		{"active without an attempt", active, func(s *State) { s.Jobs[0].Attempts = nil }, "live attempt"},
		{"open in an old round", active, func(s *State) { s.Jobs[1].Round = 0 }, "round"},
		{"decided by nobody", done, func(s *State) { s.Jobs[0].Decider = 9 }, "decided by"},
		{"waiting for nothing", active, func(s *State) { s.Request.Skeleton[1].Needs = nil }, "all committed"},
		{"waiting after cancel", stopping, func(s *State) {
			s.Jobs[1].State, s.Jobs[1].Outcome, s.Jobs[1].Reason.Code = StateWaiting, "", ReasonNeedsUnfinished
		}, "(15)"},
		{"running on after cancel", stopping, func(s *State) { s.Jobs[0].Attempts[0].Desired = domain.DesiredRun },
			"not asked to stop"},
	}
	for _, test := range tests {
		teller := (canonical{name: test.name, story: test.story}).arrive(t)
		s, err := teller.replayAll()
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(s); err != nil {
			t.Fatalf("%s: broken from the start: %v", test.name, err)
		}
		test.spoil(s)
		if err := Check(s); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: found %v", test.name, err)
		}
	}
}

// Promises: [HIST-12].
func TestTimeNeverGoesBack(t *testing.T) {
	w := newWorld()
	w.now = start.Add(time.Hour)
	if _, _, err := w.do(testRequest(JobSkeleton{Key: "test"})); err != nil {
		t.Fatal(err)
	}
	w.now = start // a clock that was set back
	d, _, err := w.do(RequestCancel{Cause: by("ben")})
	if err != nil || len(d.Events) == 0 || !d.Events[0].Time().Equal(start.Add(time.Hour)) {
		t.Errorf("decided %v at another time than the last event: %v", d.Events, err)
	}
}
