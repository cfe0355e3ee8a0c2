package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// runAim is what we want the whole of `fairlead run` to take for an empty step, in ms.
const runAim = 90

// stages are the parts of a whole `fairlead run`, in their order. Their times come from
// the run's own record, read after the run, and all from one machine's clock.
var stages = []struct {
	name, about string
	from, to    func(*landmarks) time.Time
}{
	{"· client until accepted", "process start, git, request", begun, created},
	{"· until ready", "plan stored, request committed", created, ready},
	{"· until leased", "placement, lease committed", ready, leased},
	{"· until the step begins", "manifest, workspace, supervisor, isolation", leased, stepBegun},
	{"· the step", "a shell that does nothing", stepBegun, stepEnded},
	{"· until committed", "everything gone, report, result committed", stepEnded, concluded},
	{"· until the client ends", "news of it, rest of the log, exit", concluded, ended},
}

// landmarks are the moments of one run of one job.
type landmarks struct {
	client                                                called
	created, ready, leased, stepBegun, stepEnded, settled time.Time
}

func begun(l *landmarks) time.Time     { return l.client.begun }
func created(l *landmarks) time.Time   { return l.created }
func ready(l *landmarks) time.Time     { return l.ready }
func leased(l *landmarks) time.Time    { return l.leased }
func stepBegun(l *landmarks) time.Time { return l.stepBegun }
func stepEnded(l *landmarks) time.Time { return l.stepEnded }
func concluded(l *landmarks) time.Time { return l.settled }
func ended(l *landmarks) time.Time     { return l.client.ended }

// Run measures whole processes of `fairlead run` against a warm `fairlead up`: from the
// start of the process to its exit, for one empty step and for a chain of ten jobs.
func Run(ctx context.Context, o Options, of RunOptions) (*Report, error) {
	settings := map[string]any{"runs": of.Runs, "chains": of.Chains, "warm": of.Warm}
	return measure(ctx, "run", o, "up", settings, func(ctx context.Context, s *stage) error {
		root, err := s.repository(ctx, "sample", nil)
		if err != nil {
			return err
		}
		s.progress("%d runs to warm up", of.Warm)
		for range of.Warm {
			if _, err := s.whole(ctx, root, oneJob); err != nil {
				return err
			}
		}
		if err := s.begin(); err != nil {
			return err
		}
		s.progress("%d runs of one job", of.Runs)
		if err := s.runs(ctx, root, of.Runs); err != nil {
			return err
		}
		s.progress("%d runs of ten jobs in a chain", of.Chains)
		chain := newTimes()
		for range of.Chains {
			l, err := s.whole(ctx, root, chainJob)
			if err != nil {
				return err
			}
			if err := chain.add(l.client.ended.Sub(l.client.begun)); err != nil {
				return err
			}
		}
		s.report.spread("run, chain of ten jobs", "the same for ten jobs, each needing the one before", chain)
		if err := s.end(); err != nil {
			return err
		}
		return s.starts(ctx, root)
	})
}

// runs measures runs of one job, in whole and in stages.
func (s *stage) runs(ctx context.Context, root string, n int) error {
	whole, cpu, parts := newTimes(), newTimes(), make([]*times, len(stages))
	for i := range parts {
		parts[i] = newTimes()
	}
	rss := int64(0)
	for range n {
		l, err := s.whole(ctx, root, oneJob)
		if err != nil {
			return err
		}
		rss = max(rss, l.client.rss)
		if err := whole.add(l.client.ended.Sub(l.client.begun)); err != nil {
			return err
		}
		if err := cpu.add(l.client.cpu); err != nil {
			return err
		}
		for i, part := range stages {
			if err := parts[i].add(gap(part.from(l), part.to(l))); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	r := s.report
	r.spread("run, one empty step", "fairlead run, whole process", whole)
	r.aim(runAim)
	for i, part := range stages {
		r.spread(part.name, part.about, parts[i])
	}
	r.spread("client's processor time", "of one fairlead run, its git processes included", cpu)
	r.value("client's memory", "most of any", float64(rss)/mebi, "MiB")
	return nil
}

// gap is the time between two moments. Times of a record have microseconds, and the
// engine's clock never steps back, so a hair below nothing is nothing.
func gap(from, to time.Time) time.Duration {
	const hair = 2 * time.Millisecond
	if d := to.Sub(from); d >= 0 || d < -hair {
		return d
	}
	return 0
}

// whole runs `fairlead run` once and reads what the server has recorded of it.
func (s *stage) whole(ctx context.Context, root, workflow string) (*landmarks, error) {
	c, err := s.server.call(ctx, s.options, root, "run", "--workflow", workflow, "--json")
	if err != nil {
		return nil, err
	}
	var first accepted
	if err := json.Unmarshal(firstLine(c.out), &first); err != nil || first.Run == "" {
		return nil, fmt.Errorf("read the answer of run --json: %q: %w", c.out, err)
	}
	answer, err := s.server.client.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: first.Run})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", first.Run, err)
	}
	run := answer.GetRun()
	if run.GetOutcome() != string(domain.OutcomeSuccess) {
		return nil, fmt.Errorf("%s: outcome %q", first.Run, run.GetOutcome())
	}
	l := &landmarks{client: c}
	job := run.GetJobs()[0]
	if len(job.GetAttempts()) != 1 || len(job.GetAttempts()[0].GetSteps()) == 0 {
		return nil, fmt.Errorf("%s: the job took %d attempts", first.Run, len(job.GetAttempts()))
	}
	attempt := job.GetAttempts()[0]
	steps := attempt.GetSteps()
	for _, read := range []struct {
		into *time.Time
		text string
	}{
		{&l.created, run.GetSummary().GetCreated()}, {&l.ready, job.GetReady()}, {&l.leased, attempt.GetStarted()},
		{&l.stepBegun, steps[0].GetStarted()}, {&l.stepEnded, steps[len(steps)-1].GetFinished()},
		{&l.settled, run.GetSummary().GetConcluded()},
	} {
		if *read.into, err = time.Parse(time.RFC3339Nano, read.text); err != nil {
			return nil, fmt.Errorf("read times of %s: %w", first.Run, err)
		}
	}
	return l, nil
}

func firstLine(text []byte) []byte {
	for i, c := range text {
		if c == '\n' {
			return text[:i]
		}
	}
	return text
}

// starts measures what the bare start of the program takes, as a part of every client.
func (s *stage) starts(ctx context.Context, root string) error {
	const starts = 20
	bare := newTimes()
	for range starts {
		c, err := s.server.call(ctx, s.options, root, "version")
		if err != nil {
			return err
		}
		if err := bare.add(c.ended.Sub(c.begun)); err != nil {
			return err
		}
	}
	s.report.spread("bare start of the program", "fairlead version, whole process", bare)
	return nil
}
