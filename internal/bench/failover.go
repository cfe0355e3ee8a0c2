package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// FailoverOptions are those of Failover.
type FailoverOptions struct {
	Servers   int           // of the fleet
	Kills     int           // of one server at a time, round about
	Runners   int           // of long and short jobs, with a slot for each; one more is for jobs that wait
	MemberTTL time.Duration // how long a server that says nothing is a member; 0: memberTTL
}

// Limits of the measurement.
const (
	failoverPartitions = 8
	repositoriesMax    = 200              // registered until every partition has one
	failoverPatience   = 90 * time.Second // for one thing to happen
	failoverLook       = 20 * time.Millisecond
	failoverAim        = 3000 // ms from a kill to the first job that the new owner gives out
)

// memberTTL is what a server takes by itself; a report says what was measured.
const memberTTL = 2 * time.Second

// restBetween is between one kill and the next, with the fleet whole and jobs waiting.
const restBetween = 2 * time.Second

// failover is one measurement under way.
type failover struct {
	*fleetStage
	repositories map[domain.PartitionID]string // one in each
	partitions   []domain.PartitionID          // of them, in the order of their discovery
	spare        int                           // slots for jobs that wait for a kill
	asked        atomic.Int64
	busy         []float64 // share of the processors in use before each kill, in percent
	others       []string  // runs that are neither long nor short

	mu     sync.Mutex
	shorts map[domain.PartitionID][]string // short runs, oldest first
}

// Failover kills the servers of a fleet one after another, with jobs running and jobs
// waiting in every partition, and measures how long it takes until the next owner of a
// partition has given a job to a runner. Jobs that run must go on, every job must be done
// once, and what a job prints must be followed and kept in whole.
//
// What is measured needs a job that was ready when its owner died, and an open slot for it:
// where there is both before the kill, the job is not ready any more. So the slots that such
// jobs may have are held by others, plugs, which end at the kill.
func Failover(ctx context.Context, o Options, of FailoverOptions) (*Report, error) {
	of.MemberTTL = cmp.Or(of.MemberTTL, memberTTL)
	settings := map[string]any{"servers": of.Servers, "kills": of.Kills, "member-ttl": of.MemberTTL.String(),
		"partitions": failoverPartitions, "runners": of.Runners}
	return measureFleet(ctx, "failover", o, of, settings, func(ctx context.Context, s *fleetStage) error {
		f := &failover{fleetStage: s, repositories: map[domain.PartitionID]string{},
			shorts: map[domain.PartitionID][]string{}, spare: spareSlots(of.Servers)}
		return f.run(ctx, of)
	})
}

func (f *failover) run(ctx context.Context, of FailoverOptions) error {
	long, err := f.populate(ctx)
	if err != nil {
		return err
	}
	f.progress("a long job and a chain of short ones in each of %d partitions", len(long))
	enough := make(chan struct{})
	begun := time.Now()
	var asking, following sync.WaitGroup
	faults := make(chan error, 2*len(long))
	for i, l := range long {
		asking.Go(func() {
			if err := f.keepAsking(ctx, enough, i, l.partition); err != nil {
				faults <- err
			}
		})
		following.Go(func() { faults <- l.follow(ctx, f, i) })
	}
	err = f.kills(ctx, of)
	close(enough)
	asking.Wait()
	loaded := time.Since(begun)
	err = errors.Join(err, f.open(stopAll))
	following.Wait()
	close(faults)
	for fault := range faults {
		err = errors.Join(err, fault)
	}
	if err != nil {
		return err
	}
	return f.audit(ctx, long, begun, loaded)
}

func (f *failover) read(ctx context.Context, from int, run string) (out *fairleadv1.Run, err error) {
	err = f.ask(ctx, from, func(c *client.Client) error {
		res, err := c.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: run})
		out = res.GetRun()
		return err
	})
	return out, err
}

// await reads a run until it is as wanted.
func (f *failover) await(ctx context.Context, from int, run string, wanted func(*fairleadv1.Run) bool) error {
	for deadline := time.Now().Add(failoverPatience); ; {
		r, err := f.read(ctx, from, run)
		if err != nil || wanted(r) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("run %s is not as it should be within %s: %v", run, failoverPatience, r.GetJobs())
		}
		pause(ctx, 5*failoverLook)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// kills kills one server after another and measures what comes after.
func (f *failover) kills(ctx context.Context, of FailoverOptions) error {
	first, each, leader := newTimes(), newTimes(), newTimes()
	for i := range of.Kills {
		victim := f.members[i%len(f.members)]
		e, err := f.prepare(ctx, i+1, victim.name)
		if err != nil {
			return fmt.Errorf("before %s is killed: %w", victim.name, err)
		}
		at := time.Now()
		if err := victim.server.kill(); err != nil {
			return err
		}
		gone := time.Now() // whatever is committed from here on, another server committed
		victim.server = nil
		if err := f.open(e.plug); err != nil {
			return err
		}
		soonest := time.Duration(0)
		for _, run := range e.waiting {
			when, err := f.dispatched(ctx, i+1, run, at, gone)
			if err != nil {
				return fmt.Errorf("after %s was killed: %w", victim.name, err)
			}
			took := when.Sub(at)
			if err := each.add(took); err != nil {
				return err
			}
			if soonest == 0 || took < soonest {
				soonest = took
			}
		}
		if soonest > 0 {
			if err := first.add(soonest); err != nil {
				return err
			}
			if e.led {
				if err := leader.add(soonest); err != nil {
					return err
				}
			}
		}
		f.progress("kill %d of %d, %s: first job of the next owner after %s; processors %.0f %% busy before", i+1,
			of.Kills, victim.name, soonest.Round(time.Millisecond), f.busy[i])
		if err := f.start(ctx, victim); err != nil {
			return err
		}
	}
	r := f.report
	r.spread("kill until the next owner's first job",
		"SIGKILL of a server until a job of its partitions that was ready before is leased", first)
	r.aim(failoverAim)
	r.spread("· in each of its partitions", "the same for every partition that it owned", each)
	r.spread("· when it led the pool",
		"the same for kills of the server that also led the pool and held the logs", leader)
	_, _, err := f.whole(ctx, 0, "")
	return err
}

// eve is how things are before a kill.
type eve struct {
	lost    []domain.PartitionID // owned by who will die
	led     bool                 // it leads the pool, too
	plug    string               // the file that opens slots
	waiting []string             // runs of one ready job, one in each lost partition
}

// prepare waits until the fleet is whole and has rested, and a job waits for a slot in every
// partition of the named server.
func (f *failover) prepare(ctx context.Context, from int, name string) (e eve, err error) {
	for deadline := time.Now().Add(failoverPatience); ; {
		if e.lost, e.led, err = f.whole(ctx, from, name); err != nil {
			return e, err
		}
		if err := f.plug(ctx, from, &e); err != nil {
			return e, err
		}
		busy, err := f.rest(ctx)
		if err != nil {
			return e, err
		}
		again, led, err := f.whole(ctx, from, name)
		if err != nil {
			return e, err
		}
		if slices.Equal(e.lost, again) && e.led == led {
			f.busy = append(f.busy, busy)
			return e, nil
		}
		if err := f.open(e.plug); err != nil { // partitions moved: the plug may be in one that dies
			return e, err
		}
		if time.Now().After(deadline) {
			return e, fmt.Errorf("partitions moved for %s: %v, then %v", failoverPatience, e.lost, again)
		}
	}
}

// whole waits until all servers are members and share the partitions, and tells which
// partitions of runs the named one has, and whether it leads the pool.
func (f *failover) whole(ctx context.Context, from int, name string) (owns []domain.PartitionID, leads bool,
	err error) {
	for deadline := time.Now().Add(failoverPatience); ; {
		var res *fairleadv1.GetServerResponse
		err := f.ask(ctx, from, func(c *client.Client) (err error) {
			res, err = c.Server.GetServer(ctx, &fairleadv1.GetServerRequest{})
			return err
		})
		if err != nil {
			return nil, false, err
		}
		if shared(res, len(f.members)) {
			for _, p := range res.GetPartitions() {
				id := domain.PartitionID(p.GetPartition())
				_, run := f.repositories[id]
				switch {
				case p.GetOwner() != name:
				case run:
					owns = append(owns, id)
				default:
					leads = true
				}
			}
			return owns, leads, nil
		}
		if time.Now().After(deadline) {
			return nil, false, fmt.Errorf("the fleet is not whole within %s: %v", failoverPatience, res)
		}
		pause(ctx, 5*failoverLook)
	}
}

// shared reports whether n members live and own as much as each other.
func shared(res *fairleadv1.GetServerResponse, n int) bool {
	owned := map[string]int{}
	for _, m := range res.GetMembers() {
		if m.GetState() == "live" {
			owned[m.GetName()] = 0
		}
	}
	for _, p := range res.GetPartitions() {
		if _, live := owned[p.GetOwner()]; !live || p.GetState() != "owned" {
			return false
		}
		owned[p.GetOwner()]++
	}
	counts := slices.Collect(maps.Values(owned))
	return len(counts) == n && slices.Max(counts)-slices.Min(counts) <= 1
}

// dispatched is when the one job of a run was leased, by the run's own record: that is one of
// times, so that it need not be read often. The job must have been ready before the kill, and
// leased when its owner was gone.
func (f *failover) dispatched(ctx context.Context, from int, run string, kill, gone time.Time) (at time.Time,
	err error) {
	var job *fairleadv1.Job
	if err := f.await(ctx, from, run, func(r *fairleadv1.Run) bool {
		job = r.GetJobs()[0]
		return len(job.GetAttempts()) > 0
	}); err != nil {
		return at, fmt.Errorf("wait until job %s is given out: %w", job.GetId(), err)
	}
	ready, err := time.Parse(time.RFC3339Nano, job.GetReady())
	if err == nil {
		at, err = time.Parse(time.RFC3339Nano, job.GetAttempts()[0].GetStarted())
	}
	switch {
	case err != nil:
		return at, fmt.Errorf("read the times of job %s: %w", job.GetId(), err)
	case !ready.Before(kill) || !at.After(gone):
		return at, fmt.Errorf("job %s was ready at %s and given out at %s: not before and after the kill at %s",
			job.GetId(), ready, at, kill)
	}
	return at, nil
}
