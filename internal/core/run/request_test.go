package run

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func TestRequestsAreChecked(t *testing.T) {
	bad := string([]byte{'a', 0xff})
	job := func(change func(k *JobSkeleton)) func(*Request) {
		return func(r *Request) { change(&r.Skeleton[1]) }
	}
	tests := map[string]struct {
		change func(*Request)
		code   domain.Code
	}{
		"run":       {func(r *Request) { r.Run = "run_1" }, domain.CodeInvalidArgument},
		"tenant":    {func(r *Request) { r.Tenant = "" }, domain.CodeInvalidArgument},
		"tier":      {func(r *Request) { r.Tier = "root" }, domain.CodeInvalidArgument},
		"class":     {func(r *Request) { r.Class = "now" }, domain.CodeInvalidArgument},
		"text":      {func(r *Request) { r.Source.Ref = bad }, domain.CodeInvalidArgument},
		"no job":    {func(r *Request) { r.Skeleton = nil }, domain.CodeInvalidArgument},
		"many jobs": {func(r *Request) { r.Skeleton = make([]JobSkeleton, jobsMax+1) }, domain.CodeTooLarge},
		"index":     {job(func(k *JobSkeleton) { k.Index = 0 }), domain.CodeInvalidArgument},
		"key":       {job(func(k *JobSkeleton) { k.Key = "" }), domain.CodeInvalidArgument},
		"timeout":   {job(func(k *JobSkeleton) { k.TimeoutSeconds = 0 }), domain.CodeInvalidArgument},
		"retries":   {job(func(k *JobSkeleton) { k.Retry.Max = -1 }), domain.CodeInvalidArgument},
		"steps":     {job(func(k *JobSkeleton) { k.Steps = make([]string, stepsMax+1) }), domain.CodeTooLarge},
		"condition": {job(func(k *JobSkeleton) { k.If = strings.Repeat("x", expressionBytesMax+1) }),
			domain.CodeTooLarge},
		"job text":     {job(func(k *JobSkeleton) { k.RunsOn = []string{bad} }), domain.CodeInvalidArgument},
		"unknown need": {job(func(k *JobSkeleton) { k.Needs = []int{7} }), domain.CodeInvalidArgument},
		"need twice":   {job(func(k *JobSkeleton) { k.Needs = []int{0, 0} }), domain.CodeInvalidArgument},
		"needs itself": {job(func(k *JobSkeleton) { k.Needs = []int{1} }), domain.CodeInvalidArgument},
		"cycle": {func(r *Request) { r.Skeleton[0].Needs, r.Skeleton[1].Needs = []int{1}, []int{0} },
			domain.CodeInvalidArgument},
	}
	for name, test := range tests {
		c := testRequest(JobSkeleton{Key: "a"}, JobSkeleton{Key: "b"})
		test.change(&c.Request)
		if _, r := Decide(New(), c, start); r == nil || r.Code != test.code {
			t.Errorf("bad %s: %v", name, r)
		}
	}
}

func TestManyDiagnosticsAreCut(t *testing.T) {
	c := testRequest()
	for i := range diagnosticsKept + 5 {
		c.Request.Invalid = append(c.Request.Invalid, fmt.Sprintf("line %d: %s", i, strings.Repeat("x", 2*textBytesMax)))
	}
	w := newWorld()
	if _, rejection, err := w.do(c); err != nil || rejection != nil {
		t.Fatal(rejection, err)
	}
	kept := w.live.Request.Invalid
	if len(kept) != diagnosticsKept+1 || kept[diagnosticsKept] != "… and 5 more" || len(kept[0]) > textBytesMax {
		t.Errorf("kept %d, the last is %q", len(kept), kept[len(kept)-1])
	}
}

func TestSkeletonOf(t *testing.T) {
	p := &plan.Plan{Jobs: []plan.Job{
		{Index: 0, Key: "test", Name: strings.Repeat("long ", 100), TimeoutSeconds: 60,
			Steps: []plan.Step{{Name: "go test"}, {Name: "lint"}}},
		{
			Index: 1, Key: "ship", Name: "Ship it", Needs: []int{0}, If: "always()", RunsOn: []string{"linux"},
			SoftFail: true, Effectful: true,
			Retry: plan.Retry{Max: 3, On: []domain.FailureClass{domain.FailureUserCode}, BackoffSeconds: 5},
		},
	}}
	got := SkeletonOf(p)
	if len(got[0].Name) > nameBytesMax || !slices.Equal(got[0].Steps, []string{"go test", "lint"}) ||
		got[0].QueueTimeoutSeconds != 86400 ||
		!slices.Equal(got[0].Retry.On, []domain.FailureClass{domain.FailureRunnerLost, domain.FailurePlatform}) {
		t.Errorf("first job %+v", got[0])
	}
	want := JobSkeleton{
		Index: 1, Key: "ship", Name: "Ship it", Needs: []int{0}, If: "always()", RunsOn: []string{"linux"},
		TimeoutSeconds:      6 * 3600,
		QueueTimeoutSeconds: 86400, Retry: Retry{3, []domain.FailureClass{domain.FailureUserCode}, 5}, Effectful: true,
		SoftFail: true,
	}
	if !reflect.DeepEqual(got[1], want) {
		t.Errorf("second job %+v", got[1])
	}
	got[1].Needs[0] = 9
	if p.Jobs[1].Needs[0] == 9 {
		t.Error("the skeleton shares memory with the plan")
	}
	c := testRequest()
	c.Request.Skeleton = SkeletonOf(p)
	if _, r := Decide(New(), c, start); r != nil {
		t.Errorf("a plan's skeleton is rejected: %v", r)
	}
}

func TestLimits(t *testing.T) {
	l := DefaultLimits()
	if l.QueueTimeoutSeconds != 86400 || l.CancelGraceSeconds != 10 ||
		(Limits{CancelGraceSeconds: 3}).withDefaults().CancelGraceSeconds != 3 {
		t.Errorf("limits %+v", l)
	}
	if seconds(-1) != 0 || seconds(1<<60) != 365*24*time.Hour {
		t.Error("seconds are not bounded")
	}
	if got := backoff(10, 3, 3600); got != 80*time.Second {
		t.Errorf("fourth wait %s", got)
	}
	if got := backoff(10, 500, 3600); got != time.Hour {
		t.Errorf("longest wait %s", got)
	}
	if c := testRequest().WithNumber(42).(RequestRun); c.Request.Number != 42 {
		t.Error("the number is not taken")
	}
}

func TestReportsAreChecked(t *testing.T) {
	good := func() (ReportResult, *teller) {
		teller := (canonical{story: []string{oneTest, "lease test"}}).arrive(t)
		return ReportResult{
			Attempt: teller.live.AttemptID(0, 1), Epoch: 1, Digest: domain.DigestOf([]byte("r")),
			Outcome: domain.OutcomeSuccess,
		}, teller
	}
	tests := map[string]struct {
		change func(*ReportResult)
		code   domain.Code
	}{
		"digest":       {func(c *ReportResult) { c.Digest = "" }, domain.CodeInvalidArgument},
		"outcome":      {func(c *ReportResult) { c.Outcome = domain.OutcomeLost }, domain.CodeInvalidArgument},
		"class":        {func(c *ReportResult) { c.Outcome = domain.OutcomeFailure }, domain.CodeInvalidArgument},
		"step":         {func(c *ReportResult) { c.Steps = []Step{{Index: 3}} }, domain.CodeInvalidArgument},
		"step outcome": {func(c *ReportResult) { c.Steps = []Step{{Outcome: "fine"}} }, domain.CodeInvalidArgument},
		"many steps":   {func(c *ReportResult) { c.Steps = make([]Step, stepsMax+1) }, domain.CodeTooLarge},
		"many outputs": {func(c *ReportResult) { c.Outputs = make([]Output, outputsMax+1) }, domain.CodeTooLarge},
		"big output": {func(c *ReportResult) { c.Outputs = []Output{{Name: "x", Value: strings.Repeat("x", 4097)}} },
			domain.CodeTooLarge},
		"output name": {func(c *ReportResult) { c.Outputs = []Output{{Value: "x"}} }, domain.CodeInvalidArgument},
		"output text": {func(c *ReportResult) { c.Outputs = []Output{{Name: "x", Value: "\xff"}} },
			domain.CodeInvalidArgument},
		"output object": {func(c *ReportResult) { c.Outputs = []Output{{Name: "x", Digest: "?"}} },
			domain.CodeInvalidArgument},
	}
	for name, test := range tests {
		c, teller := good()
		test.change(&c)
		if _, r, err := teller.do(c); err != nil || r == nil || r.Code != test.code {
			t.Errorf("bad %s: %v, %v", name, r, err)
		}
	}
	c, teller := good()
	c.Message = strings.Repeat("x", 5000) + "\xff"
	c.Steps = []Step{{Outcome: domain.OutcomeSuccess, Started: time.Unix(1<<60, 0), Message: "\xff\xfe"}}
	if _, r, err := teller.do(c); err != nil || r != nil {
		t.Fatalf("odd text and times are cut, not rejected: %v, %v", r, err)
	}
	a := teller.live.Jobs[0].Attempts[0]
	if len(a.Message) > textBytesMax || !a.Steps[0].Started.IsZero() {
		t.Errorf("kept %d bytes, started %s", len(a.Message), a.Steps[0].Started)
	}
}

// An attempt's id and epoch are known to many; its lease belongs to one.
// Promises: [LEASE-5].
func TestOnlyTheHolderOfALeaseMayReport(t *testing.T) {
	by := func(runner string) domain.Cause {
		return domain.Cause{Actor: domain.Actor{Kind: "runner", ID: runner, Via: "runner_session"}}
	}
	teller := (canonical{story: []string{oneTest, "lease test"}}).arrive(t)
	id := teller.live.AttemptID(0, 1)
	digest := domain.DigestOf([]byte("r"))
	for _, c := range []Command{
		ReportProgress{Cause: by("thief"), Attempt: id, Epoch: 1, Observed: domain.ObservedRunning},
		ReportResult{Cause: by("thief"), Attempt: id, Epoch: 1, Digest: digest, Outcome: domain.OutcomeSuccess},
		DeclineLease{Cause: by("thief"), Attempt: id, Epoch: 1, Reason: "no"},
	} {
		d, r, err := teller.do(c)
		if err != nil || r != nil || d.Refusal == nil || d.Refusal.Code != domain.CodeLeaseEpochStale {
			t.Errorf("%s of another runner: %+v, %v, %v", c.Name(), d.Refusal, r, err)
		}
	}
	a := teller.live.Jobs[0].Attempts[0]
	if a.Outcome != domain.OutcomeNone || a.Observed != domain.ObservedLeased || a.Refused != 3 {
		t.Errorf("after reports of another runner: %+v", a)
	}
	result := ReportResult{Cause: by("m1"), Attempt: id, Epoch: 1, Digest: digest, Outcome: domain.OutcomeSuccess}
	if d, r, err := teller.do(result); err != nil || r != nil || d.Refusal != nil {
		t.Errorf("report of the holder: %+v, %v, %v", d.Refusal, r, err)
	}
	if d, _, _ := teller.do(ReportResult{Cause: by("thief"), Attempt: id, Epoch: 1, Digest: digest}); d.Refusal == nil {
		t.Error("a repeat by another runner is acknowledged")
	}
}

func TestWhatIsObservedIsOneOfTheWords(t *testing.T) {
	for _, word := range []domain.Observed{"", "fine", domain.ObservedUnreachable} {
		teller := (canonical{story: []string{oneTest, "lease test"}}).arrive(t)
		c := ReportProgress{Attempt: teller.live.AttemptID(0, 1), Epoch: 1, Observed: word}
		if _, r, err := teller.do(c); err != nil || r == nil || r.Code != domain.CodeInvalidArgument {
			t.Errorf("observed %q: %v, %v", word, r, err)
		}
	}
}

func TestViews(t *testing.T) {
	teller := (canonical{story: []string{"request\njob test\njob ship", "lease test"}}).arrive(t)
	s := teller.live
	if got := ReadyJobs(s); !slices.Equal(got, []int{1}) {
		t.Errorf("ready: %v", got)
	}
	id := s.AttemptID(0, 1)
	leases := Leases(s)
	if len(leases) != 1 || leases[0].Attempt != id || leases[0].Epoch != 1 || leases[0].Desired != domain.DesiredRun {
		t.Errorf("leases: %+v", leases)
	}
	if r := MayAct(s, id, 1); r != nil {
		t.Errorf("the holder may not act: %v", r)
	}
	for _, other := range []struct {
		attempt domain.AttemptID
		epoch   uint64
	}{{id, 2}, {id, 0}, {s.AttemptID(1, 1), 1}, {"att_x", 1}} {
		if r := MayAct(s, other.attempt, other.epoch); r == nil || r.Code != domain.CodeLeaseEpochStale {
			t.Errorf("%s may act with epoch %d", other.attempt, other.epoch)
		}
	}
	if _, err := teller.tell([]string{"report test/a1 success"}); err != nil {
		t.Fatal(err)
	}
	if MayAct(teller.live, id, 1) == nil {
		t.Error("a committed attempt may still act")
	}
	if Live(New()) || Attention(New()) {
		t.Error("a run that does not exist is live")
	}
}

// TestEveryReasonHasASentence also keeps the list of codes complete.
// Promises: [RUN-5].
func TestEveryReasonHasASentence(t *testing.T) {
	teller := (canonical{story: []string{oneTest}}).arrive(t)
	for _, code := range ReasonCodes() {
		r := Reason{Code: code, Jobs: []int{0}, Attempt: 1, Until: start, Expression: "x", Message: "Because",
			Outcome: "failure"}
		sentence := teller.live.Sentence(r)
		if !strings.HasSuffix(sentence, ".") || strings.HasSuffix(sentence, "..") ||
			strings.Contains(sentence, string(code)+".") ||
			strings.Contains(sentence, "%!") {
			t.Errorf("%s: %q", code, sentence)
		}
	}
	if got := teller.live.Sentence(Reason{Code: ReasonCancelRequested}); got != "Cancelled on request of somebody." {
		t.Errorf("got %q", got)
	}
}
