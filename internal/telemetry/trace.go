package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Bounds of what a span carries: titles and names are written by users.
const (
	valueBytesMax  = 256
	attributesMax  = 32
	spansPerRunMax = 10000
)

// RunTrace is a concluded round of a run, as its events tell it.
type RunTrace struct {
	Run        domain.RunID
	Tenant     domain.TenantID
	Repository string // name
	Workflow   string // path
	Event      string
	Ref        string
	Commit     string
	URL        string
	Round      int
	Outcome    domain.Outcome
	Created    time.Time
	Concluded  time.Time
	Jobs       []JobTrace
}

// JobTrace is one job of the round.
type JobTrace struct {
	ID        domain.JobID
	Name      string
	Outcome   domain.Outcome
	Ready     time.Time // zero: it never was
	Concluded time.Time
	Attempts  []AttemptTrace
}

// AttemptTrace is one attempt.
type AttemptTrace struct {
	ID           domain.AttemptID
	Number       int
	Runner       domain.RunnerID
	RunnerName   string
	Outcome      domain.Outcome
	FailureClass domain.FailureClass
	Started      time.Time
	Concluded    time.Time
	Steps        []StepTrace
}

// StepTrace is one step.
type StepTrace struct {
	Index    int
	Name     string
	Outcome  domain.Outcome
	ExitCode int
	Started  time.Time // zero: it never started
	Finished time.Time
}

// Traces sends traces of runs to a collector, after the fact: spans are made from events
// with their own times, so a restart in the middle of a run loses nothing.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// NewTraces sends to the collector that the environment names in the conventional way
// (OTEL_EXPORTER_OTLP_ENDPOINT or …_TRACES_ENDPOINT). Without one it is nil, which is
// valid: everything on it does nothing.
func NewTraces(ctx context.Context, getenv func(string) string, version string) (*Traces, error) {
	if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	out, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make trace exporter: %w", err)
	}
	return newTraces(sdk.NewBatchSpanProcessor(out), version), nil
}

func newTraces(processor sdk.SpanProcessor, version string) *Traces {
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = valueBytesMax
	limits.AttributeCountLimit = attributesMax
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(processor), sdk.WithIDGenerator(givenIDs{}), sdk.WithRawSpanLimits(limits),
		sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithResource(resource.NewSchemaless(semconv.ServiceName("fairlead"), semconv.ServiceVersion(version))),
	)
	return &Traces{provider: provider, tracer: provider.Tracer("github.com/fairlead-ci/fairlead")}
}

// Shutdown sends what waits.
func (t *Traces) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Export queues the spans of a concluded round. Exporting the same round again makes the
// same ids, so a repeat is not a second trace.
func (t *Traces) Export(run RunTrace) {
	if t == nil {
		return
	}
	attributes := []attribute.KeyValue{
		semconv.CICDPipelineName(cut(run.Workflow)), semconv.CICDPipelineRunID(string(run.Run)),
		semconv.CICDPipelineResultKey.String(string(resultOf(run.Outcome))),
		attribute.String("fairlead.outcome", string(run.Outcome)), attribute.Int("fairlead.round", run.Round),
		attribute.String("fairlead.tenant", string(run.Tenant)), attribute.String("fairlead.event", run.Event),
		semconv.VCSRepositoryName(cut(run.Repository)), semconv.VCSRefHeadName(cut(run.Ref)),
		semconv.VCSRefHeadRevision(run.Commit),
	}
	if run.URL != "" {
		attributes = append(attributes, semconv.CICDPipelineRunURLFull(run.URL))
	}
	budget := spansPerRunMax
	root := t.span(context.Background(), run.Run, roundSpan(run.Run, run.Round), "run "+cut(run.Workflow),
		run.Created, run.Concluded, run.Outcome, attributes)
	for _, job := range run.Jobs {
		if job.Ready.IsZero() || budget <= 0 {
			continue
		}
		budget--
		under := t.span(root, run.Run, "job "+string(job.ID)+" "+strconv.Itoa(run.Round), "job "+cut(job.Name),
			job.Ready, job.Concluded, job.Outcome, []attribute.KeyValue{
				semconv.CICDPipelineTaskName(cut(job.Name)), semconv.CICDPipelineTaskRunID(string(job.ID)),
				semconv.CICDPipelineTaskRunResultKey.String(string(resultOf(job.Outcome))),
			})
		for _, attempt := range job.Attempts {
			budget -= 1 + len(attempt.Steps)
			if budget > 0 {
				t.exportAttempt(under, run.Run, attempt)
			}
		}
	}
}

func (t *Traces) exportAttempt(ctx context.Context, run domain.RunID, attempt AttemptTrace) {
	under := t.span(ctx, run, attemptSpan(attempt.ID), "attempt "+strconv.Itoa(attempt.Number),
		attempt.Started, attempt.Concluded, attempt.Outcome, []attribute.KeyValue{
			attribute.String("fairlead.attempt", string(attempt.ID)),
			attribute.String("fairlead.failure_class", string(attempt.FailureClass)),
			semconv.CICDWorkerID(string(attempt.Runner)), semconv.CICDWorkerName(cut(attempt.RunnerName)),
		})
	for _, step := range attempt.Steps {
		if step.Started.IsZero() {
			continue
		}
		name := step.Name
		if name == "" {
			name = strconv.Itoa(step.Index)
		}
		t.span(under, run, fmt.Sprintf("step %s %d", attempt.ID, step.Index), "step "+cut(name),
			step.Started, step.Finished, step.Outcome, []attribute.KeyValue{
				attribute.Int("fairlead.step", step.Index), attribute.Int("process.exit.code", step.ExitCode),
			})
	}
}

// span makes one finished span and returns the context for its children.
//
// tidy:long a span is finished when it is made, so everything about it comes at once
func (t *Traces) span(ctx context.Context, run domain.RunID, id, name string, from, to time.Time,
	outcome domain.Outcome, attributes []attribute.KeyValue) context.Context {
	if to.Before(from) {
		to = from // clocks of two machines may disagree; a span may not run backwards
	}
	ctx = context.WithValue(ctx, idsKey{}, ids{traceID(run), spanID(id)})
	ctx, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	switch outcome {
	case domain.OutcomeSuccess, domain.OutcomeSkipped, domain.OutcomeNone:
	default:
		span.SetStatus(codes.Error, string(outcome))
	}
	span.End(trace.WithTimestamp(to))
	return ctx
}

// Traceparent is the W3C header value that makes what a step traces a part of its
// attempt's trace. Empty when the identifier is malformed.
func Traceparent(attempt domain.AttemptID) string {
	run, _, _, ok := attempt.Split()
	if !ok {
		return ""
	}
	return "00-" + traceID(run).String() + "-" + spanID(attemptSpan(attempt)).String() + "-01"
}

func roundSpan(run domain.RunID, round int) string { return fmt.Sprintf("run %s %d", run, round) }

func attemptSpan(attempt domain.AttemptID) string { return "attempt " + string(attempt) }

func traceID(run domain.RunID) (id trace.TraceID) {
	sum, _ := hex.DecodeString(domain.DigestOf([]byte("trace " + string(run))).Hex())
	copy(id[:], sum)
	return id
}

func spanID(name string) (id trace.SpanID) {
	sum, _ := hex.DecodeString(domain.DigestOf([]byte("span " + name)).Hex())
	copy(id[:], sum)
	return id
}

// givenIDs makes the tracer use the ids that span put into the context.
type givenIDs struct{}

type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs implements sdk.IDGenerator.
func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	given, _ := ctx.Value(idsKey{}).(ids)
	return given.trace, given.span
}

// NewSpanID implements sdk.IDGenerator.
func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	given, _ := ctx.Value(idsKey{}).(ids)
	return given.span
}

// cut bounds a text that a user wrote, at a boundary of a character.
func cut(text string) string {
	if len(text) <= valueBytesMax {
		return text
	}
	end := valueBytesMax
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end]
}
