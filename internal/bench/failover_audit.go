package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
func (f *failover) audit(ctx context.Context, long []*longRun, begun time.Time, loaded time.Duration) error {
	pauses := newTimes()
	var executed []string // attempts, by the record
	for i, l := range long {
		attempts, err := f.auditLong(ctx, i, l)
		if err != nil {
			return err
		}
		executed = append(executed, attempts...)
		pauses.merge(l.pauses)
	}
	for i, run := range f.others {
		_, attempts, err := f.finished(ctx, i, run)
		if err != nil {
			return err
		}
		executed = append(executed, attempts...)
	}
	short, meanwhile := 0, 0
	for i, p := range f.partitions {
		for _, run := range f.shorts[p] {
			r, attempts, err := f.finished(ctx, i, run)
			if err != nil {
				return err
			}
			executed = append(executed, attempts...)
			short += len(attempts)
			for _, j := range r.GetJobs() {
				done, err := time.Parse(time.RFC3339Nano, j.GetConcluded())
				if err != nil {
					return fmt.Errorf("read when job %s was done: %w", j.GetId(), err)
				}
				if done.Before(begun.Add(loaded)) {
					meanwhile++
				}
			}
		}
	}
	book, err := os.ReadFile(filepath.Join(f.folder, bookFile))
	if err != nil {
		return fmt.Errorf("read what jobs noted: %w", err)
	}
	if err := sameAttempts(executed, strings.Fields(string(book))); err != nil {
		return err
	}
	r := f.report
	r.spread("pieces of a followed log", "between two of them, over all kills: a line each 0.5 s; the longest is the "+
		"pause of a kill", pauses)
	r.value("long jobs that ran through", "one in each partition, in one attempt, with every line",
		float64(len(long)), "jobs")
	r.value("short jobs done", "each once, in its first attempt, by the record and by what it noted itself",
		float64(short), "jobs")
	r.value("load: short jobs", "done from the first kill's preparation to the last server's return, in a second",
		float64(meanwhile)/loaded.Seconds(), "jobs/s")
	r.value("load: processors busy before a kill", "mean of all kills, of everything on this machine",
		mean(f.busy), "%")
	if busy := mean(f.busy); busy > busyMost {
		r.note("the processors were %.0f %% busy before the kills, with this load and whatever else ran here: times are "+
			"upper bounds", busy)
	}
	return nil
}

// busyMost is up to where the processors count as idle enough, in percent.
const busyMost = 40

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// sameAttempts compares the attempts that are recorded with those that were executed: each must
// be in both, once.
func sameAttempts(recorded, executed []string) error {
	count := map[string]int{}
	for _, a := range executed {
		count[a]++
	}
	for _, a := range recorded {
		if count[a] != 1 {
			return fmt.Errorf("attempt %s was executed %d times", a, count[a])
		}
		delete(count, a)
	}
	if len(count) > 0 {
		return fmt.Errorf("executed and not recorded: %v", count)
	}
	return nil
}

// auditLong compares what was followed with what was printed and with what is kept.
func (f *failover) auditLong(ctx context.Context, from int, l *longRun) (attempts []string, err error) {
	_, attempts, err = f.finished(ctx, from, l.run)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
	for n, line := range lines {
		if want := strconv.Itoa(n + 1); line != want && (n != len(lines)-1 || line != "end") {
			return nil, fmt.Errorf("the log of %s has %q where %s belongs", l.partition, line, want)
		}
	}
	if lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("the log of %s ends at %q", l.partition, lines[len(lines)-1])
	}
	var kept bytes.Buffer
	return attempts, f.ask(ctx, from, func(c *client.Client) error {
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

// finished waits for a run's end and tells the attempts of its jobs: each must have succeeded in
// its first.
func (f *failover) finished(ctx context.Context, from int, run string) (r *fairleadv1.Run, attempts []string,
	err error) {
	if err := f.await(ctx, from, run, func(seen *fairleadv1.Run) bool {
		r = seen
		return seen.GetOutcome() != ""
	}); err != nil {
		return nil, nil, err
	}
	if r.GetOutcome() != string(domain.OutcomeSuccess) {
		return nil, nil, fmt.Errorf("run %s ended with %s: %s", run, r.GetOutcome(), r.GetReason())
	}
	for _, j := range r.GetJobs() {
		if n := len(j.GetAttempts()); n != 1 || j.GetOutcome() != string(domain.OutcomeSuccess) {
			return nil, nil, fmt.Errorf("job %s of run %s ended with %s after %d attempts", j.GetId(), run, j.GetOutcome(), n)
		}
		attempts = append(attempts, j.GetAttempts()[0].GetId())
	}
	return r, attempts, nil
}
