package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// StormOptions are those of Storm.
type StormOptions struct {
	Runners, Slots int
	JobTime        time.Duration
	Before         time.Duration // the other repository alone
	Duration       time.Duration // both
	Rate           float64       // runs of the other repository asked for in a second

	FloodJobs int // the flood ends when so many of its jobs were admitted
	RunJobs   int // of a run of the flood
	Askers    int // requests of the flood that wait for their answers at once

	OpenJobsPerRepository int // of the server; 0: its default
}

const (
	floodJob = "flood.yml"            // of the repository that floods
	quietJob = "quiet.yml"            // a job of the other one that no runner takes, to be cancelled
	stormIn  = "storm"                // the other repository's folder
	absent   = "not-here"             // a label that no runner has
	floodGap = 100 * time.Millisecond // until who was refused asks again, whatever it was told
	lastLook = 10 * time.Second       // how long manifests of what was asked for at the end are waited for
)

// phase is what was measured of the other repository in one part of the time.
type phase struct {
	answered, got, cancelled, acknowledged *times
}

func newPhase() *phase { return &phase{newTimes(), newTimes(), newTimes(), newTimes()} }

// storm is a measurement with a flood.
type storm struct {
	*traffic
	of    StormOptions
	flood accepted
	other accepted
	rude  *client.Client // tries nothing again

	guard sync.Mutex // of what follows
	now   *phase
	due   map[string]time.Time // the other's runs that no runner has got yet
	// early are first manifests of runs that are not due: their request is not answered yet, or it is the flood's.
	early   map[string]time.Time
	failed  error
	counted map[string]int // answers of the flood, by code
	jobs    int            // of the flood, admitted
}

// Storm floods a server with requests for runs of one repository, as fast as they are answered,
// while another one asks by the clock for a run and cancels one: the first alone, then both.
func Storm(ctx context.Context, o Options, of StormOptions) (*Report, error) {
	settings := map[string]any{"runners": of.Runners, "slots": of.Slots, "job_time": of.JobTime.String(),
		"before": of.Before.String(), "duration": of.Duration.String(), "rate": of.Rate, "flood_jobs": of.FloodJobs,
		"jobs_of_a_run": of.RunJobs, "askers": of.Askers}
	if of.OpenJobsPerRepository > 0 {
		settings["open_jobs_per_repository"] = of.OpenJobsPerRepository
		o.Flags = append(o.Flags, "--open-jobs-per-repository", strconv.Itoa(of.OpenJobsPerRepository))
	}
	return measure(ctx, "storm", o, "server", settings, func(ctx context.Context, s *stage) (err error) {
		m := &storm{of: of, now: newPhase(), due: map[string]time.Time{}, early: map[string]time.Time{},
			counted: map[string]int{}}
		m.traffic = &traffic{stage: s, of: FleetOptions{Runners: of.Runners, Slots: of.Slots, Jobs: of.RunJobs,
			JobTime: of.JobTime, LogBytes: 200, Duration: of.Duration}, tracked: map[string]*tracked{},
			answered: newTimes(), acknowledged: newTimes(), onGot: m.got, onAck: m.acked}
		if m.book, err = os.Create(filepath.Join(s.folder, "book")); err != nil {
			return fmt.Errorf("make book: %w", err)
		}
		defer func() { err = errors.Join(err, m.book.Close()) }()
		waits := strings.ReplaceAll(workflowText(1, false), "ubuntu-latest", absent)
		if m.flood, err = s.introduceAs(ctx, "sample", map[string]string{
			floodJob: workflowText(of.RunJobs, false)}); err != nil {
			return err
		}
		m.first = m.flood
		if m.other, err = s.introduceAs(ctx, stormIn, map[string]string{quietJob: waits}); err != nil {
			return err
		}
		if m.other.Repository == m.flood.Repository {
			return fmt.Errorf("both repositories are %s: there is nobody beside the flood", m.other.Repository)
		}
		place, err := client.LocateIn(s.server.data)
		if err != nil {
			return err
		}
		m.rude, err = client.New(place.Server, place.Token,
			client.Options{Patience: -1, UserAgent: "fairlead-bench/" + o.Version,
				HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: of.Askers}}})
		if err != nil {
			return err
		}
		return m.run(ctx)
	})
}

func (m *storm) run(ctx context.Context) error {
	group, work := errgroup.WithContext(ctx)
	work, stop := context.WithCancel(work)
	defer stop()
	if err := m.enlistAll(ctx, work, group); err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	group.Go(func() error {
		defer stop()
		return m.phases(work)
	})
	if err := group.Wait(); err != nil {
		return errors.Join(err, ctx.Err())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.failed
}

// phases measures the other repository alone, then with the flood, and tells.
func (m *storm) phases(ctx context.Context) error {
	alone := m.now
	m.progress("the other repository alone, for %s", m.of.Before)
	if err := m.ask(ctx, m.of.Before); err != nil {
		return err
	}
	beside := newPhase()
	m.guard.Lock()
	m.now = beside
	m.guard.Unlock()
	if err := m.begin(); err != nil {
		return err
	}
	m.progress("the storm, for %s", m.of.Duration)
	m.openWindow()
	profile := errgroup.Group{}
	if m.options.Profile != "" {
		profile.Go(func() error { return m.profile(ctx, m.of.Duration) })
	}
	flooding, calm := context.WithCancel(ctx)
	flood := errgroup.Group{}
	for range m.of.Askers {
		flood.Go(func() error { return m.pour(flooding) })
	}
	err := m.ask(ctx, m.of.Duration)
	m.closeWindow(time.Now())
	calm()
	err = errors.Join(err, flood.Wait(), profile.Wait(), m.end())
	if err != nil {
		return err
	}
	return m.tellStorm(ctx, alone, beside)
}

// ask asks by the clock for runs of the other repository, and waits for their manifests at the end.
// A request that is late because one before it took long counts from when it was due.
func (m *storm) ask(ctx context.Context, over time.Duration) error {
	every := time.Duration(float64(time.Second) / m.of.Rate)
	asks := errgroup.Group{}
	for due, end := time.Now(), time.Now().Add(over); due.Before(end) && ctx.Err() == nil; due = due.Add(every) {
		pause(ctx, time.Until(due))
		asks.Go(func() error { return m.askOther(ctx, due) })
		asks.Go(func() error { return m.cancelOther(ctx, due) })
	}
	if err := asks.Wait(); err != nil {
		return err
	}
	for until := time.Now().Add(lastLook + m.of.JobTime); ctx.Err() == nil && time.Now().Before(until); {
		m.guard.Lock()
		left := len(m.due)
		m.guard.Unlock()
		if left == 0 {
			return nil
		}
		pause(ctx, 20*time.Millisecond)
	}
	m.guard.Lock()
	defer m.guard.Unlock()
	late := fmt.Errorf("%d runs of the other repository got no runner within %s", len(m.due), lastLook)
	return errors.Join(late, ctx.Err())
}

func (m *storm) askOther(ctx context.Context, due time.Time) error {
	run, err := m.stage.ask(ctx, m.other, oneJob)
	if err != nil {
		return err
	}
	m.write(bookAsked, run.GetRun(), time.Time{})
	m.guard.Lock()
	defer m.guard.Unlock()
	err = m.now.answered.add(gap(due, time.Now()))
	if at, came := m.early[run.GetRun()]; came {
		delete(m.early, run.GetRun())
		return errors.Join(err, m.now.got.add(gap(due, at)))
	}
	m.due[run.GetRun()] = due
	return err
}

// cancelOther asks for a run that waits for a runner which is not there, and cancels it.
func (m *storm) cancelOther(ctx context.Context, due time.Time) error {
	run, err := m.stage.ask(ctx, m.other, quietJob)
	if err != nil {
		return err
	}
	m.write(bookAsked, run.GetRun(), time.Time{})
	begun := time.Now()
	answer, err := m.server.client.Runs.CancelRun(ctx, &fairleadv1.CancelRunRequest{Run: run.GetRun(), Reason: "measured"})
	if err != nil {
		return fmt.Errorf("cancel %s, due at %s: %w", run.GetRun(), due.Format(time.TimeOnly), err)
	}
	if got := answer.GetRun().GetOutcome(); got != string(domain.OutcomeCancelled) {
		return fmt.Errorf("cancel %s: its outcome is %q", run.GetRun(), got)
	}
	m.guard.Lock()
	defer m.guard.Unlock()
	return m.now.cancelled.add(time.Since(begun))
}

// got notes that a runner has verified a manifest of a run.
func (m *storm) got(run string, at time.Time) {
	m.guard.Lock()
	defer m.guard.Unlock()
	due, asked := m.due[run]
	if !asked {
		if m.early[run].IsZero() {
			m.early[run] = at
		}
		return
	}
	delete(m.due, run)
	m.failed = errors.Join(m.failed, m.now.got.add(gap(due, at)))
}

// acked notes how long a result took to be acknowledged, whoever's it is.
func (m *storm) acked(took time.Duration) {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.failed = errors.Join(m.failed, m.now.acknowledged.add(took))
}

// pour asks for runs as fast as they are answered. A refusal is heard and not obeyed: it asks
// again much sooner than it was told to.
func (m *storm) pour(ctx context.Context) error {
	for ctx.Err() == nil {
		m.guard.Lock()
		enough := m.jobs >= m.of.FloodJobs
		m.guard.Unlock()
		if enough {
			return nil
		}
		asked := context.WithoutCancel(ctx) // a run whose answer nobody heard would be in no book
		answer, err := m.rude.Runs.CreateRun(asked, &fairleadv1.CreateRunRequest{Repository: m.flood.Repository,
			Commit: m.flood.Commit, Ref: "refs/heads/main", Workflow: floodJob, Event: "workflow_dispatch"})
		refusal := client.Refusal(err)
		if err != nil && refusal.GetRetryAfterSeconds() == 0 {
			return fmt.Errorf("flood: %w", err)
		}
		m.guard.Lock()
		if err == nil {
			m.jobs += m.of.RunJobs
			m.counted["admitted"]++
		} else {
			m.counted[refusal.GetCode()]++
		}
		m.guard.Unlock()
		if err != nil {
			pause(ctx, floodGap)
			continue
		}
		m.write(bookAsked, answer.GetRun().GetRun(), time.Time{})
	}
	return nil
}

// tellStorm writes the report. Work that was lost or done twice is no figure.
func (m *storm) tellStorm(ctx context.Context, alone, beside *phase) error {
	t, err := m.tally(ctx)
	if err != nil {
		return err
	}
	if t.Lost > 0 || t.Duplicated > 0 {
		return fmt.Errorf("%d runs or results were lost, %d executions were one too many: %v",
			t.Lost, t.Duplicated, t.Names)
	}
	m.guard.Lock()
	defer m.guard.Unlock()
	r := m.report
	r.Lost, r.Duplicated = &t.Lost, &t.Duplicated
	for _, f := range []struct {
		name, about   string
		alone, beside *times
	}{
		{"request until answer", "of the other repository, from when it was due", alone.answered, beside.answered},
		{"request until manifest", "the same, until a runner has verified it", alone.got, beside.got},
		{"cancel until committed", "of a run of the other repository", alone.cancelled, beside.cancelled},
		{"result until acknowledged", "of all running work", alone.acknowledged, beside.acknowledged},
	} {
		r.spread(f.name+", before", f.about, f.alone)
		r.spread(f.name+", storm", f.about, f.beside)
		if before := f.alone.spread(); before.P50 > 0 && before.P99 > 0 {
			during := f.beside.spread()
			r.value("· times as long, p50", f.name, during.P50/before.P50, "")
			r.value("· times as long, p99", f.name, during.P99/before.P99, "")
		}
	}
	r.value("runs of the flood admitted", "each durable before it was answered", float64(m.counted["admitted"]), "runs")
	r.value("jobs of the flood admitted", "", float64(m.jobs), "jobs")
	for _, code := range []domain.Code{domain.CodeTooManyOpenJobs, domain.CodeOverloaded} {
		r.value("refused "+string(code), "with a time to come back", float64(m.counted[string(code)]), "requests")
	}
	r.value("jobs committed", "in the storm, by history", float64(t.InWindow)/m.to.Sub(m.from).Seconds(), "jobs/s")
	r.Server.RSS = r.Server.Usage.RSS
	r.value("server's resident memory", "at the end", float64(r.Server.RSS)/mebi, "MiB")
	r.note("history holds every request that was answered and every result that was acknowledged; of %d jobs none was "+
		"executed twice", t.Jobs)
	return nil
}
