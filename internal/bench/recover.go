package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// RecoverOptions are those of Recover.
type RecoverOptions struct {
	Jobs  int // that wait when the server is killed
	Kills int
}

const (
	// recoverAim is from kill -9 to the first dispatch with recoverAimJobs that wait.
	recoverAim     = 3 * time.Second
	recoverAimJobs = 100_000
	// fillers ask for runs beside each other while jobs pile up.
	fillers = 32
	// knock is the pause between two polls of a runner whose server does not answer.
	knock = 5 * time.Millisecond
)

// Recover measures how long a server that was killed needs to give out work again, with many
// jobs that wait: from the kill to its word that it is ready, and to a verified manifest at a
// runner that has asked all the time.
func Recover(ctx context.Context, o Options, of RecoverOptions) (*Report, error) {
	settings := map[string]any{"jobs": of.Jobs, "kills": of.Kills}
	o.Flags = append(o.Flags, unbounded...)
	return measure(ctx, "recover", o, "server", settings, func(ctx context.Context, s *stage) error {
		first, err := s.introduce(ctx, nil)
		if err != nil {
			return err
		}
		if err := s.pile(ctx, first, wideJob, of.Jobs); err != nil {
			return err
		}
		a, err := s.enlist(ctx, "agent", 1)
		if err != nil {
			return err
		}
		ready, dispatched := newTimes(), newTimes()
		for n := range of.Kills {
			s.progress("kill %d of %d", n+1, of.Kills)
			if err := s.rise(ctx, a, ready, dispatched); err != nil {
				return err
			}
		}
		if err := s.end(); err != nil {
			return err
		}
		r := s.report
		r.spread("kill until ready", "SIGKILL, a new process, its word that it is ready", ready)
		r.spread("kill until the first manifest", "at a runner that asks all the time; verified", dispatched)
		if of.Jobs == recoverAimJobs {
			r.aim(recoverAim.Seconds() * 1000)
		}
		u := s.report.Server.Usage
		r.value("resident memory", "of the last process, after it gave out a job", float64(u.RSS)/mebi, "MiB")
		r.value("processor time", "of the last process, until then", u.CPU, "s")
		return nil
	})
}

// unbounded lets a server take what is piled up.
var unbounded = []string{"--open-jobs", "0", "--open-jobs-per-repository", "0"}

// pile asks for runs of ten jobs until so many wait. Nobody takes any.
func (s *stage) pile(ctx context.Context, first accepted, workflow string, jobs int) error {
	if jobs == 0 {
		return nil
	}
	runs := (jobs + jobsMany - 1) / jobsMany
	s.progress("%d runs of %d jobs that wait", runs, jobsMany)
	begun := time.Now()
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(fillers)
	for range runs {
		group.Go(func() error {
			_, err := s.ask(asking, first, workflow)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.report.value("jobs asked for", "in runs of ten, each durable before it is answered",
		float64(runs*jobsMany)/time.Since(begun).Seconds(), "jobs/s")
	return nil
}

// rise kills the server, starts another in its place, and waits until it has given a job to a
// runner.
func (s *stage) rise(ctx context.Context, a *agent, ready, dispatched *times) error {
	flags := append([]string{"--listen", strings.TrimPrefix(s.server.url, "http://"), "--log-level", "warn"},
		s.options.Flags...)
	if s.options.Store != "" {
		flags = append(flags, "--store", s.options.Store)
	}
	killed := time.Now()
	if err := s.server.kill(); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	orders := make(chan order, 1)
	go func() {
		for work.Err() == nil {
			if o, err := a.wait(work); err == nil {
				orders <- o
				return
			}
			time.Sleep(knock) // nobody is there yet
		}
	}()
	next, err := launch(ctx, s.options, "server", s.server.data, flags...)
	if err != nil {
		return err
	}
	s.server = next
	s.before = Usage{} // all of the new process counts
	if err := ready.add(time.Since(killed)); err != nil {
		return err
	}
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	select {
	case o := <-orders:
		if err := dispatched.add(o.at.Sub(killed)); err != nil {
			return err
		}
		return a.conclude(ctx, o, 0)
	case <-timer.C:
		return fmt.Errorf("no runner got a job within %s of the start", startPatience)
	case <-ctx.Done():
		return ctx.Err()
	}
}
