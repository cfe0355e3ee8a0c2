package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

var (
	testRun = domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{9, 8, 7}))
	began   = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	out := httptest.NewRecorder()
	m.Handler().ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if out.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", out.Code, out.Body)
	}
	return out.Body.String()
}

func TestMetricsHaveTheConventionalNames(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	m.RunConcluded("ci.yml", domain.OutcomeSuccess, 3*time.Second)
	m.RunConcluded("ci.yml", domain.OutcomeFailure, time.Second)
	m.SystemError("engine", "append")
	m.Appended(7, 9, 2*time.Millisecond)
	m.Dispatched("default", 4*time.Millisecond)
	m.LogIngested(3, 4096, time.Millisecond)
	m.ReportRefused(domain.CodeLeaseEpochStale)
	m.Served("GET /api/v1/runs", 200, time.Millisecond)
	if err := m.Watch(func() Reading {
		return Reading{RunsPending: 1, RunsExecuting: 2, WorkersBusy: 3, LiveStreams: 4,
			Queues: []Queue{{Pool: "default", Class: "interactive", Jobs: 5}}, Lags: []Lag{{Reactor: "trigger",
				Events: 6}}}
	}); err != nil {
		t.Fatal(err)
	}
	page := scrape(t, m)
	for _, want := range []string{
		`cicd_pipeline_run_duration_seconds_count{cicd_pipeline_name="ci.yml",` +
			`cicd_pipeline_result="success",cicd_pipeline_run_state="executing"} 1`,
		`cicd_pipeline_run_errors_total{cicd_pipeline_name="ci.yml",error_type="failure"} 1`,
		`cicd_system_errors_total{cicd_system_component="engine",error_type="append"} 1`,
		`cicd_pipeline_run_active{cicd_pipeline_run_state="executing"} 2`,
		`cicd_worker_count{cicd_worker_state="busy"} 3`,
		`fairlead_queue_jobs{fairlead_class="interactive",fairlead_pool="default"} 5`,
		`fairlead_append_events_total 9`, `fairlead_append_commands_sum 7`,
		`fairlead_append_duration_seconds_count 1`,
		`fairlead_dispatch_duration_seconds_count{fairlead_pool="default"} 1`,
		`fairlead_log_ingest_bytes_total 4096`, `fairlead_reactor_lag{fairlead_reactor="trigger"} 6`,
		`fairlead_reports_refused_total{fairlead_code="lease_epoch_stale"} 1`,
		`http_server_request_duration_seconds_count{http_response_status_code="200",http_route="GET /api/v1/runs"} 1`,
		`go_goroutines`, `process_resident_memory_bytes`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, grep(page, strings.SplitN(want, "{", 2)[0]))
		}
	}
	if err := m.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func grep(page, word string) string {
	var out []string
	for line := range strings.Lines(page) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func TestUserNamesAreFewLabels(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * namesMax {
		m.RunConcluded(fmt.Sprintf("w%d.yml", i), domain.OutcomeSuccess, time.Second)
	}
	m.RunConcluded(strings.Repeat("x", 10000), domain.OutcomeSuccess, time.Second)
	page := scrape(t, m)
	if n := strings.Count(page, "cicd_pipeline_run_duration_seconds_count{"); n > namesMax+1 {
		t.Errorf("%d series for %d names", n, namesMax)
	}
	if !strings.Contains(page, `cicd_pipeline_name="_other"`) {
		t.Error("names beyond the bound are lost")
	}
}

func TestNothingToMeasureWithIsFine(t *testing.T) {
	var m *Metrics
	m.RunConcluded("w", domain.OutcomeSuccess, 1)
	m.SystemError("x", "y")
	m.Appended(1, 1, 1)
	m.Dispatched("p", 1)
	m.LogIngested(1, 1, 1)
	m.ReportRefused("c")
	m.Served("r", 200, 1)
	traces, err := NewTraces(t.Context(), func(string) string { return "" }, "test")
	if traces != nil || err != nil {
		t.Errorf("traces without a collector: %v %v", traces, err)
	}
	traces.Export(RunTrace{})
	if err := traces.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func exampleRun() RunTrace {
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	job := testRun.Job(0)
	return RunTrace{
		Run: testRun, Tenant: "tnt_default", Repository: "app", Workflow: "ci.yml", Round: 1,
		Outcome: domain.OutcomeFailure, Created: at(0), Concluded: at(30),
		Jobs: []JobTrace{
			{ID: job, Name: strings.Repeat("é", 1000), Outcome: domain.OutcomeFailure, Ready: at(1), Concluded: at(29),
				Attempts: []AttemptTrace{
					{ID: job.Attempt(1), Number: 1, Outcome: domain.OutcomeLost, FailureClass: domain.FailureRunnerLost,
						Started: at(2), Concluded: at(10)},
					{ID: job.Attempt(2), Number: 2, Outcome: domain.OutcomeFailure, FailureClass: domain.FailureUserCode,
						Started: at(12), Concluded: at(28), Steps: []StepTrace{
							{Index: 0, Name: "test", Outcome: domain.OutcomeFailure, ExitCode: 2, Started: at(20),
								Finished: at(19)},
							{Index: 1, Name: "never"},
						}},
				}},
			{ID: testRun.Job(1), Name: "skipped", Outcome: domain.OutcomeSkipped, Concluded: at(29)},
		},
	}
}

func TestATraceIsMadeFromEventsAndIsTheSameEveryTime(t *testing.T) {
	var first tracetest.SpanStubs
	for i := range 2 {
		memory := tracetest.NewInMemoryExporter()
		traces := newTraces(sdk.NewSimpleSpanProcessor(memory), "test")
		traces.Export(exampleRun())
		spans := memory.GetSpans()
		if len(spans) != 5 { // run, job, two attempts, one step; nothing for what never started
			t.Fatalf("%d spans", len(spans))
		}
		if i == 0 {
			first = spans
			continue
		}
		for j := range spans {
			if spans[j].SpanContext.SpanID() != first[j].SpanContext.SpanID() ||
				spans[j].Parent.SpanID() != first[j].Parent.SpanID() {
				t.Errorf("span %s has another id the second time", spans[j].Name)
			}
		}
	}
	byName := map[string]tracetest.SpanStub{}
	for _, span := range first {
		byName[strings.Fields(span.Name)[0]+" "+strings.Fields(span.Name)[1]] = span
		if span.SpanContext.TraceID() != traceID(testRun) {
			t.Errorf("%s is in another trace", span.Name)
		}
		if span.EndTime.Before(span.StartTime) {
			t.Errorf("%s runs backwards", span.Name)
		}
		for _, attr := range span.Attributes {
			if len(attr.Value.String()) > valueBytesMax {
				t.Errorf("%s: %s is %d bytes", span.Name, attr.Key, len(attr.Value.String()))
			}
		}
	}
	step, attempt := byName["step test"], byName["attempt 2"]
	if step.Parent.SpanID() != attempt.SpanContext.SpanID() || !attempt.StartTime.Equal(began.Add(12*time.Second)) {
		t.Errorf("step under %v, attempt %v from %v", step.Parent.SpanID(), attempt.SpanContext.SpanID(),
			attempt.StartTime)
	}
	want := "00-" + attempt.SpanContext.TraceID().String() + "-" + attempt.SpanContext.SpanID().String() + "-01"
	if got := Traceparent(testRun.Job(0).Attempt(2)); got != want {
		t.Errorf("traceparent %s, want %s", got, want)
	}
	if Traceparent("att_x") != "" {
		t.Error("a malformed attempt has a traceparent")
	}
}

func TestTracesReachACollector(t *testing.T) {
	var bytesSeen atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/traces" {
			bytesSeen.Add(n)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	traces, err := NewTraces(t.Context(), func(name string) string {
		if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			return collector.URL
		}
		return ""
	}, "test")
	if err != nil {
		t.Fatal(err)
	}
	traces.Export(exampleRun())
	if err := traces.Shutdown(context.WithoutCancel(t.Context())); err != nil || bytesSeen.Load() == 0 {
		t.Errorf("%v, the collector saw %d bytes", err, bytesSeen.Load())
	}
}

// held hides a secret in a struct, as a careless line would.
type held struct {
	Name  string
	Token domain.Secret
}

func TestLogLinesHoldNoSecret(t *testing.T) {
	const canary = "canary-5f3a"
	const token = "fla_canary5f3aAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	secret := domain.NewSecret(canary)
	address, err := url.Parse("https://user:" + canary + "@example.org/path?code=" + canary)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"json", "text"} {
		var out bytes.Buffer
		log, err := NewLogger(&out, form, "debug")
		if err != nil {
			t.Fatal(err)
		}
		log.With("secret", secret).WithGroup("g").Info("line",
			"secret", secret, "pointer", &secret, "struct", held{"n", secret}, "list", []domain.Secret{secret},
			"map", map[string]any{"k": secret}, "url", address, "url value", *address,
			"header", http.Header{"Authorization": {canary}}, "bytes", []byte(canary),
			"error", fmt.Errorf("sign in with %s: %w", token, errors.New("no "+secret.String())),
			"text", "token "+token, slog.Group("inner", "secret", secret, "token", token))
		line := out.String()
		if strings.Contains(line, "canary") {
			t.Errorf("%s: %s", form, line)
		}
		if !strings.Contains(line, "example.org/path") || !strings.Contains(line, "[secret]") {
			t.Errorf("%s: more is gone than had to: %s", form, line)
		}
	}
	if _, err := NewLogger(io.Discard, "xml", "info"); err == nil {
		t.Error("accepted the form xml")
	}
	if _, err := NewLogger(io.Discard, "json", "loud"); err == nil {
		t.Error("accepted the level loud")
	}
}

func TestLogLinesAreBounded(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("line", "text", strings.Repeat("é", 1<<20))
	if out.Len() > 2*lineValueBytesMax {
		t.Errorf("a line of %d bytes", out.Len())
	}
}
