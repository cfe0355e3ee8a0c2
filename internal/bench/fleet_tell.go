package bench

import (
	"context"
	"fmt"
)

// tell writes the report. Without a clean count there is no figure.
func (l *traffic) tell(ctx context.Context) error {
	t, err := l.tally(ctx)
	if err != nil {
		return err
	}
	if t.Lost > 0 || t.Duplicated > 0 {
		return fmt.Errorf("%d runs or results were lost, %d executions were one too many: %v",
			t.Lost, t.Duplicated, t.Names)
	}
	if err := l.checkDrained(&t); err != nil {
		return err
	}
	if t.InWindow < fleetLeast {
		return fmt.Errorf("only %d jobs were committed in %s: the window is too short for a figure",
			t.InWindow, l.of.Duration)
	}
	r := l.report
	jobs := float64(t.InWindow)
	rate := jobs / l.to.Sub(l.from).Seconds()
	r.Dispatch, r.Lost, r.Duplicated, r.Seconds = &t.Got, &t.Lost, &t.Duplicated, l.samples
	r.Server.CPUPerJob = 1e6 * r.Server.Usage.CPU / jobs
	r.Server.BytesPerJob = float64(t.Bytes) / float64(max(t.Jobs, 1))
	r.Server.RSS = r.Server.Usage.RSS
	r.Generator.CPUPerJob = 1e6 * r.Generator.CPU / jobs

	if l.of.Drain > 0 {
		r.DrainJobsPerSecond = rate
		r.value("jobs drained", "from the first runner to the last result, by history", rate, "jobs/s")
	} else {
		r.JobsPerSecond = rate
		r.value("jobs", "committed in the window, by history", rate, "jobs/s")
	}
	r.wait("ready until manifest", "the runner has verified it", &t.Got)
	r.wait("ready until leased", "by history", &t.Leased)
	l.mu.Lock()
	r.spread("request until answer", "from when it was due", l.answered)
	r.spread("result until acknowledged", "with progress and log", l.acknowledged)
	l.mu.Unlock()
	r.value("server's processor time", "for each job", r.Server.CPUPerJob, "µs/job")
	r.value("generator's processor time", "for each job", r.Generator.CPUPerJob, "µs/job")
	r.value("server's resident memory", "at the end of the window", float64(r.Server.RSS)/mebi, "MiB")
	r.value("written by the server", "bytes handed to the disk", float64(r.Server.Usage.Written)/jobs/1024, "KiB/job")
	r.value("stored", "by tables and indexes, for every job of the history", r.Server.BytesPerJob/1024, "KiB/job")
	r.value("events", "for every job of the history", float64(t.Events)/float64(max(t.Jobs, 1)), "")
	r.value("exchanges", "calls of runners for each job", float64(l.exchanges.Load())/jobs, "")
	if l.unasked > 0 {
		r.note("%d requests for runs were due in the window and never asked: the server could not keep up with the rate, "+
			"and times of requests are lower bounds", l.unasked)
	}
	r.note("history holds every request that was answered and every result that was acknowledged; of %d jobs none was "+
		"executed twice", t.Jobs)
	return nil
}
