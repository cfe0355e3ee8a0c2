package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// taken is a job that a runner has the verified manifest of.
type taken struct {
	run string
	job string
	at  time.Time
}

// floor is runners that wait for work.
type floor struct {
	agents []*agent
	orders chan taken // one for every job that was reported

	mu   sync.Mutex
	told *times // a result: sent, committed, acknowledged
}

// Dispatch measures the way of jobs to runners over the real protocol: first one job at a
// time, for the time from ready to a verified manifest; then as many as there are runners,
// for the rate.
func Dispatch(ctx context.Context, o Options, of DispatchOptions) (*Report, error) {
	settings := map[string]any{"runners": of.Runners, "jobs": of.Jobs}
	return measure(ctx, "dispatch", o, "server", settings, func(ctx context.Context, s *stage) error {
		first, err := s.introduce(ctx, nil)
		if err != nil {
			return err
		}
		work, stop := context.WithCancel(ctx)
		defer stop()
		group, work := errgroup.WithContext(work)
		f, err := s.floor(ctx, work, group, of.Runners)
		if err != nil {
			return err
		}
		err = s.dispatches(work, f, first, of)
		stop()
		if broken := group.Wait(); broken != nil && ctx.Err() == nil {
			return broken
		}
		return err
	})
}

// floor enlists runners and lets them wait for work until work ends.
func (s *stage) floor(ctx, work context.Context, group *errgroup.Group, runners int) (*floor, error) {
	f := &floor{orders: make(chan taken, 1024), told: newTimes()}
	for i := range runners {
		a, err := s.enlist(ctx, fmt.Sprint("agent-", i), 1)
		if err != nil {
			return nil, err
		}
		f.agents = append(f.agents, a)
		group.Go(func() error { return f.serve(work, a) })
	}
	return f, nil
}

// serve takes one order after the other and reports success at once.
func (f *floor) serve(ctx context.Context, a *agent) error {
	content := []byte("nothing to do\n")
	for {
		o, err := a.wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := a.conclude(ctx, o, 1, o.chunk(1, content, domain.Checksum(content))); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		f.mu.Lock()
		err = f.told.add(time.Since(begun))
		f.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case f.orders <- taken{string(o.manifest.Run), string(o.manifest.Job), o.at}:
		case <-ctx.Done():
			return nil
		}
	}
}

// next waits for a job to be reported.
func (f *floor) next(ctx context.Context) (taken, error) {
	select {
	case t := <-f.orders:
		return t, nil
	case <-ctx.Done():
		return taken{}, ctx.Err()
	}
}

func (s *stage) dispatches(ctx context.Context, f *floor, first accepted, of DispatchOptions) error {
	if _, err := f.next(ctx); err != nil { // the run that introduced the repository
		return err
	}
	s.progress("%d jobs, one at a time", of.Jobs)
	ready, asked, answered := newTimes(), newTimes(), newTimes()
	for range of.Jobs {
		begun := time.Now()
		run, err := s.ask(ctx, first, oneJob)
		if err != nil {
			return err
		}
		if err := answered.add(time.Since(begun)); err != nil {
			return err
		}
		got, err := f.next(ctx)
		if err != nil {
			return err
		}
		if err := asked.add(got.at.Sub(begun)); err != nil {
			return err
		}
		if got.run != run.GetRun() {
			return fmt.Errorf("a runner got a job of %s, asked for was %s", got.run, run.GetRun())
		}
		at, err := s.readyAt(ctx, got)
		if err != nil {
			return err
		}
		if err := ready.add(gap(at, got.at)); err != nil {
			return err
		}
	}
	r := s.report
	r.spread("ready until manifest", "the runner has verified it", ready)
	r.spread("request until manifest", "API call to verified manifest", asked)
	r.spread("request until answer", "the API call alone", answered)
	f.mu.Lock()
	r.spread("result until acknowledged", "with one chunk of log", f.told)
	f.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	if err := s.throughput(ctx, f, first, of); err != nil {
		return err
	}
	return s.end()
}

// readyAt is when the server recorded that a job became ready: before that was committed.
func (s *stage) readyAt(ctx context.Context, of taken) (time.Time, error) {
	answer, err := s.server.client.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: of.run})
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", of.run, err)
	}
	for _, job := range answer.GetRun().GetJobs() {
		if job.GetId() == of.job {
			return time.Parse(time.RFC3339Nano, job.GetReady())
		}
	}
	return time.Time{}, fmt.Errorf("read %s: no job %s", of.run, of.job)
}

// throughput asks for runs of ten jobs, so many that every runner is busy, and counts.
func (s *stage) throughput(ctx context.Context, f *floor, first accepted, of DispatchOptions) error {
	runs := (of.Jobs + jobsMany - 1) / jobsMany
	s.progress("%d runs of %d jobs", runs, jobsMany)
	ahead := make(chan struct{}, max(2*of.Runners/jobsMany, 2)) // runs asked for and not finished
	asks, asking := errgroup.WithContext(ctx)
	begun := time.Now()
	asks.Go(func() error {
		for range runs {
			select {
			case ahead <- struct{}{}:
			case <-asking.Done():
				return asking.Err()
			}
			if _, err := s.ask(asking, first, wideJob); err != nil {
				return err
			}
		}
		return nil
	})
	asks.Go(func() error {
		for n := range runs * jobsMany {
			if _, err := f.next(asking); err != nil {
				return err
			}
			if n%jobsMany == jobsMany-1 {
				<-ahead
			}
		}
		return nil
	})
	if err := asks.Wait(); err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	s.report.value(
		"jobs",
		"asked for, leased, reported and committed, all runners busy",
		float64(runs*jobsMany)/took,
		"jobs/s",
	)
	return nil
}
