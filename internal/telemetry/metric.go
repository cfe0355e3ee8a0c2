package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/cicdconv"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// namesMax bounds the distinct values of a label that users choose.
const namesMax = 200

// otherName stands for every name beyond namesMax.
const otherName = "_other"

// Buckets in seconds: an append takes milliseconds, a run minutes.
var (
	shortBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	runBuckets   = []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600}
	sizeBuckets  = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// Metrics holds every instrument. Its methods are cheap, safe for concurrent use, and do
// nothing on a nil receiver, so that code under test needs no meter.
type Metrics struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry
	meter    metric.Meter

	runDuration  cicdconv.PipelineRunDuration
	runErrors    cicdconv.PipelineRunErrors
	systemErrors cicdconv.SystemErrors

	appendDuration   metric.Float64Histogram
	appendCommands   metric.Int64Histogram
	appendEvents     metric.Int64Counter
	dispatchDuration metric.Float64Histogram
	logBytes         metric.Int64Counter
	removedObjects   metric.Int64Counter
	removedBytes     metric.Int64Counter
	logChunks        metric.Int64Counter
	logDuration      metric.Float64Histogram
	refusedReports   metric.Int64Counter
	refusedTokens    metric.Int64Counter
	archivedRows     metric.Int64Counter
	archivedBytes    metric.Int64Counter
	httpDuration     metric.Float64Histogram
	served           sync.Map // labels of httpDuration, by served

	workflows names
}

// NewMetrics makes the instruments.
func NewMetrics() (*Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("make prometheus exporter: %w", err)
	}
	m := &Metrics{provider: sdk.NewMeterProvider(sdk.WithReader(reader)), registry: registry}
	m.meter = m.provider.Meter("github.com/fairlead-ci/fairlead")
	return m, errors.Join(m.makeConventional(), m.makeOwn())
}

func (m *Metrics) makeConventional() error {
	var err1, err2, err3 error
	m.runDuration, err1 = cicdconv.NewPipelineRunDuration(m.meter,
		metric.WithExplicitBucketBoundaries(runBuckets...))
	m.runErrors, err2 = cicdconv.NewPipelineRunErrors(m.meter)
	m.systemErrors, err3 = cicdconv.NewSystemErrors(m.meter)
	return errors.Join(err1, err2, err3)
}

func (m *Metrics) makeOwn() error {
	var problems []error
	seconds := func(name, means string) metric.Float64Histogram {
		h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(means),
			metric.WithExplicitBucketBoundaries(shortBuckets...))
		problems = append(problems, err)
		return h
	}
	count := func(name, unit, means string) metric.Int64Counter {
		c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(means))
		problems = append(problems, err)
		return c
	}
	m.appendDuration = seconds("fairlead.append.duration", "How long a durable append of one batch took.")
	m.dispatchDuration = seconds("fairlead.dispatch.duration",
		"From a job being ready to its runner having the manifest.")
	m.logDuration = seconds("fairlead.log.ingest.duration", "From log chunks arriving to their being durable.")
	m.httpDuration = seconds("http.server.request.duration", "Duration of HTTP server requests.")
	m.appendEvents = count("fairlead.append.events", "{event}", "Events committed.")
	m.logBytes = count("fairlead.log.ingest.bytes", "By", "Bytes of log made durable.")
	m.logChunks = count("fairlead.log.ingest.chunks", "{chunk}", "Log chunks made durable.")
	m.removedObjects = count("fairlead.log.removed.objects", "{object}",
		"Objects of sealed logs removed because logs of their class are not kept so long.")
	m.removedBytes = count("fairlead.log.removed.bytes", "By", "Bytes of those objects.")
	m.refusedReports = count("fairlead.reports.refused", "{report}",
		"Reports of runners that were refused, by code.")
	m.refusedTokens = count("fairlead.tokens.refused", "{token}",
		"Acknowledgement tokens that were refused because nothing proves them, by what their proof was.")
	m.archivedRows = count("fairlead.archive.rows", "{row}", "Rows of history moved into objects of the archive.")
	m.archivedBytes = count("fairlead.archive.bytes", "By", "Bytes of the objects that they became.")
	var err error
	m.appendCommands, err = m.meter.Int64Histogram("fairlead.append.commands", metric.WithUnit("{command}"),
		metric.WithDescription("Commands that shared one durable append."),
		metric.WithExplicitBucketBoundaries(sizeBuckets...))
	return errors.Join(append(problems, err)...)
}

// Handler serves the metrics in Prometheus' text form.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Shutdown ends the meters.
func (m *Metrics) Shutdown(ctx context.Context) error { return m.provider.Shutdown(ctx) }

// RunConcluded records a run's outcome. Precondition: outcome is committed.
func (m *Metrics) RunConcluded(workflow string, outcome domain.Outcome, took time.Duration) {
	if m == nil {
		return
	}
	ctx, name := context.Background(), m.workflows.bound(workflow)
	result := resultOf(outcome)
	m.runDuration.Record(ctx, took.Seconds(), name, cicdconv.PipelineRunStateExecuting,
		m.runDuration.AttrPipelineResult(result))
	if result != cicdconv.PipelineResultSuccess && result != cicdconv.PipelineResultSkip {
		m.runErrors.Add(ctx, 1, name, cicdconv.ErrorTypeAttr(outcome))
	}
}

// resultOf translates to the words of the conventions.
func resultOf(outcome domain.Outcome) cicdconv.PipelineResultAttr {
	switch outcome {
	case domain.OutcomeSuccess:
		return cicdconv.PipelineResultSuccess
	case domain.OutcomeFailure, domain.OutcomeSoftFailure:
		return cicdconv.PipelineResultFailure
	case domain.OutcomeTimedOut:
		return cicdconv.PipelineResultTimeout
	case domain.OutcomeCancelled, domain.OutcomeSuperseded:
		return cicdconv.PipelineResultCancellation
	case domain.OutcomeSkipped:
		return cicdconv.PipelineResultSkip
	}
	return cicdconv.PipelineResultError
}

// SystemError counts a fault of a room ("engine", "dispatch", "logs"), not of a workflow.
func (m *Metrics) SystemError(component, kind string) {
	if m != nil {
		m.systemErrors.Add(context.Background(), 1, component, cicdconv.ErrorTypeAttr(kind))
	}
}

// Appended records one durable batch.
func (m *Metrics) Appended(commands, events int, took time.Duration) {
	if m == nil {
		return
	}
	ctx := context.Background()
	m.appendDuration.Record(ctx, took.Seconds())
	m.appendCommands.Record(ctx, int64(commands))
	m.appendEvents.Add(ctx, int64(events))
}

// Dispatched records that a runner of pool has the manifest of a job that was ready.
func (m *Metrics) Dispatched(pool string, waited time.Duration) {
	if m != nil {
		m.dispatchDuration.Record(context.Background(), waited.Seconds(),
			metric.WithAttributes(attribute.String("fairlead.pool", pool)))
	}
}

// LogIngested records log chunks that became durable together.
func (m *Metrics) LogIngested(chunks int, bytes int64, took time.Duration) {
	if m == nil {
		return
	}
	ctx := context.Background()
	m.logBytes.Add(ctx, bytes)
	m.logChunks.Add(ctx, int64(chunks))
	m.logDuration.Record(ctx, took.Seconds())
}

// LogsRemoved records objects of sealed logs that retention removed.
func (m *Metrics) LogsRemoved(objects int, bytes int64) {
	if m == nil {
		return
	}
	ctx := context.Background()
	m.removedObjects.Add(ctx, int64(objects))
	m.removedBytes.Add(ctx, bytes)
}

// ReportRefused counts a runner's report that was refused with that code.
func (m *Metrics) ReportRefused(code domain.Code) {
	if m != nil {
		m.refusedReports.Add(context.Background(), 1,
			metric.WithAttributes(attribute.String("fairlead.code", string(code))))
	}
}

// TokenRefused counts an acknowledgement token that is not held and that nothing proves; it
// fits engine.Config.Doubted.
func (m *Metrics) TokenRefused(standing domain.Standing) {
	if m != nil {
		m.refusedTokens.Add(context.Background(), 1,
			metric.WithAttributes(attribute.String("fairlead.proof", string(standing))))
	}
}

// Archived records a range of history that became objects.
func (m *Metrics) Archived(rows, bytes int64) {
	if m != nil {
		m.archivedRows.Add(context.Background(), rows)
		m.archivedBytes.Add(context.Background(), bytes)
	}
}

// Served records an HTTP answer; it fits httpapi.Config.Observe. route is a pattern, so
// its values are few.
func (m *Metrics) Served(route string, status int, took time.Duration) {
	if m == nil {
		return
	}
	key := served{route, status}
	labels, known := m.served.Load(key)
	if !known { // made once: it costs more than all the rest of a record
		labels, _ = m.served.LoadOrStore(key, metric.WithAttributeSet(attribute.NewSet(
			attribute.String("http.route", route), attribute.String("http.response.status_code", strconv.Itoa(status)))))
	}
	m.httpDuration.Record(context.Background(), took.Seconds(), labels.(metric.MeasurementOption))
}

// served is what answers are told apart by.
type served struct {
	route  string
	status int
}

// names keeps the first namesMax values of a label and folds the rest into one.
type names struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (n *names) bound(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.seen[name]; ok {
		return name
	}
	if len(n.seen) >= namesMax || len(name) > valueBytesMax {
		return otherName
	}
	if n.seen == nil {
		n.seen = map[string]struct{}{}
	}
	n.seen[name] = struct{}{}
	return name
}
