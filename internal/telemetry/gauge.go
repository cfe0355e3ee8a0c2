package telemetry

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/cicdconv"
)

// Reading is what a gauge shows at one moment. Gauges are read from the state that the
// rooms hold, not counted up and down: a count that missed one change is wrong for ever.
type Reading struct {
	// RunsPending and RunsExecuting are runs that have not concluded.
	RunsPending, RunsExecuting int64
	// Workers by state.
	WorkersAvailable, WorkersBusy, WorkersOffline int64
	// Queues are jobs that wait for a runner.
	Queues []Queue
	// LiveStreams are streams held in memory.
	LiveStreams int64
	// OpenJobs are jobs without an outcome, as the bounds on new work count them.
	OpenJobs int64
	// PartitionsStopped are partitions that lost acknowledged history or their owner.
	PartitionsStopped int64
	// Quarantined are streams with a broken invariant.
	Quarantined int64
	// Lags are how many events each reactor has not handled yet.
	Lags []Lag
	// SpoolBytes are log bytes that wait to become durable.
	SpoolBytes int64
}

// Queue is how many jobs of a class wait for a pool.
type Queue struct {
	Pool, Class string
	Jobs        int64
}

// Lag is how far a reactor is behind.
type Lag struct {
	Reactor string
	Events  int64
}

// Watch reads gauges through read whenever metrics are scraped. read must be quick and
// must not wait for a store.
func (m *Metrics) Watch(read func() Reading) error {
	active, err1 := cicdconv.NewPipelineRunActiveObservable(m.meter)
	workers, err2 := cicdconv.NewWorkerCountObservable(m.meter)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("make gauges: %w", err)
	}
	var problems []error
	gauge := func(name, unit, means string) metric.Int64ObservableGauge {
		g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(means))
		problems = append(problems, err)
		return g
	}
	queue := gauge("fairlead.queue.jobs", "{job}", "Jobs that wait for a runner.")
	live := gauge("fairlead.streams.live", "{stream}", "Streams held in memory.")
	open := gauge("fairlead.jobs.open", "{job}", "Jobs without an outcome, as the bounds on new work count them.")
	stopped := gauge("fairlead.partitions.stopped", "{partition}", "Partitions that stopped and need an operator.")
	quarantined := gauge("fairlead.streams.quarantined", "{stream}", "Streams with a broken invariant.")
	lag := gauge("fairlead.reactor.lag", "{event}", "Events that a reactor has not handled yet.")
	spool := gauge("fairlead.log.spool", "By", "Log bytes that wait to become durable.")
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("make gauges: %w", err)
	}
	_, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := read()
		state := func(value cicdconv.PipelineRunStateAttr) metric.ObserveOption {
			return metric.WithAttributes(attribute.String("cicd.pipeline.run.state", string(value)))
		}
		worker := func(value cicdconv.WorkerStateAttr) metric.ObserveOption {
			return metric.WithAttributes(attribute.String("cicd.worker.state", string(value)))
		}
		o.ObserveInt64(active.Inst(), now.RunsPending, state(cicdconv.PipelineRunStatePending))
		o.ObserveInt64(active.Inst(), now.RunsExecuting, state(cicdconv.PipelineRunStateExecuting))
		o.ObserveInt64(workers.Inst(), now.WorkersAvailable, worker(cicdconv.WorkerStateAvailable))
		o.ObserveInt64(workers.Inst(), now.WorkersBusy, worker(cicdconv.WorkerStateBusy))
		o.ObserveInt64(workers.Inst(), now.WorkersOffline, worker(cicdconv.WorkerStateOffline))
		for _, q := range now.Queues {
			o.ObserveInt64(queue, q.Jobs, metric.WithAttributes(
				attribute.String("fairlead.pool", q.Pool), attribute.String("fairlead.class", q.Class)))
		}
		for _, l := range now.Lags {
			o.ObserveInt64(lag, l.Events, metric.WithAttributes(attribute.String("fairlead.reactor", l.Reactor)))
		}
		o.ObserveInt64(live, now.LiveStreams)
		o.ObserveInt64(open, now.OpenJobs)
		o.ObserveInt64(stopped, now.PartitionsStopped)
		o.ObserveInt64(quarantined, now.Quarantined)
		o.ObserveInt64(spool, now.SpoolBytes)
		return nil
	}, active.Inst(), workers.Inst(), queue, live, open, stopped, quarantined, lag, spool)
	if err != nil {
		return fmt.Errorf("register gauges: %w", err)
	}
	return nil
}
