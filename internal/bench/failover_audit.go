package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// longRun is a job that runs through all kills, and what was followed of its log.
type longRun struct {
	run       string
	partition domain.PartitionID
	text      bytes.Buffer
	pauses    *times // between two pieces of what was followed
}

func (l *longRun) attempt() string { return string(domain.RunID(l.run).Job(0).Attempt(1)) }

// follow reads the log from beginning to end, at one server after another as they die. Every
// byte must come once and in its place.
func (l *longRun) follow(ctx context.Context, f *failover, from int) error {
	last := time.Now()
	var fault error
	for i := from; ; i++ {
		next, err := f.members[i%len(f.members)].client.FollowLog(ctx,
			&fairleadv1.FollowLogRequest{Attempt: l.attempt(), Offset: int64(l.text.Len())},
			func(content []byte, offset int64) error {
				if offset != int64(l.text.Len()) {
					return fmt.Errorf("log of %s goes on at %d, not at %d", l.run, offset, l.text.Len())
				}
				l.text.Write(content)
				now := time.Now()
				fault = l.pauses.add(now.Sub(last))
				last = now
				return fault
			})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, fault != nil, !client.Retryable(err) && next != int64(l.text.Len()):
			return fmt.Errorf("follow the log of %s: %w", l.run, err)
		case time.Since(last) > failoverPatience:
			return fmt.Errorf("follow the log of %s: nothing for %s: %w", l.run, failoverPatience, err)
		}
		pause(ctx, failoverLook)
	}
}

// audit looks at everything that was asked for.
func (f *failover) audit(ctx context.Context, long []*longRun) error {
	pauses := newTimes()
	for i, l := range long {
		if err := f.auditLong(ctx, i, l); err != nil {
			return err
		}
		pauses.merge(l.pauses)
	}
	done, again := 0, 0
	for i, l := range long {
		for _, run := range f.shorts[l.partition] {
			attempts, err := f.finished(ctx, i, run)
			if err != nil {
				return err
			}
			done++
			again += attempts - 1
		}
	}
	r := f.report
	r.spread("pieces of a followed log", "between two of them, over all kills; the longest is the pause of a kill", pauses)
	r.value("long jobs that ran through", "one in each partition, in one attempt, with every line",
		float64(len(long)), "jobs")
	r.value("short jobs done", "asked for meanwhile, each with one result", float64(done), "jobs")
	r.value("short jobs that took another attempt", "a runner lost their lease", float64(again), "jobs")
	return nil
}

// auditLong compares what was followed with what was printed and with what is kept.
func (f *failover) auditLong(ctx context.Context, from int, l *longRun) error {
	attempts, err := f.finished(ctx, from, l.run)
	if err != nil {
		return err
	}
	if attempts != 1 {
		return fmt.Errorf("the long job of %s took %d attempts", l.partition, attempts)
	}
	lines := strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
	for n, line := range lines {
		if want := strconv.Itoa(n + 1); line != want && (n != len(lines)-1 || line != "end") {
			return fmt.Errorf("the log of %s has %q where %s belongs", l.partition, line, want)
		}
	}
	if lines[len(lines)-1] != "end" {
		return fmt.Errorf("the log of %s ends at %q", l.partition, lines[len(lines)-1])
	}
	var kept bytes.Buffer
	return f.ask(ctx, from, func(c *client.Client) error {
		kept.Reset()
		_, err := c.FollowLog(ctx, &fairleadv1.FollowLogRequest{Attempt: l.attempt()}, func(content []byte, _ int64) error {
			kept.Write(content)
			return nil
		})
		if err == nil && !bytes.Equal(kept.Bytes(), l.text.Bytes()) {
			err = fmt.Errorf("the log of %s as it is kept differs from what was followed", l.partition)
		}
		return err
	})
}

// finished waits for a run's end and tells in how many attempts its job was done.
func (f *failover) finished(ctx context.Context, from int, run string) (attempts int, err error) {
	err = f.await(ctx, from, run, func(r *fairleadv1.Run) bool {
		attempts = len(r.GetJobs()[0].GetAttempts())
		return r.GetOutcome() != ""
	})
	if err != nil {
		return 0, err
	}
	r, err := f.read(ctx, from, run)
	if err == nil && r.GetOutcome() != string(domain.OutcomeSuccess) {
		err = fmt.Errorf("run %s ended with %s: %s", run, r.GetOutcome(), r.GetReason())
	}
	return attempts, err
}
