package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	Runners   int           // together with slots for a long job in each partition and a few more
	MemberTTL time.Duration // how long a server that says nothing is a member; 0: memberTTL
}

// Limits of the measurement.
const (
	failoverPartitions = 8
	repositoriesMax    = 200              // registered until every partition has one
	failoverPatience   = 90 * time.Second // for one thing to happen
	failoverLook       = 20 * time.Millisecond
	outstanding        = 2    // short jobs that are asked for and not done, in each partition
	slotsSpare         = 8    // beyond those of the long jobs: half as many as there are short jobs
	failoverAim        = 3000 // ms from a kill to the first job that the new owner gives out
)

// memberTTL is what a server takes by itself; a report says what was measured.
const memberTTL = 2 * time.Second

// restBetween is between one kill and the next, with the fleet whole.
const restBetween = 2 * time.Second

// Workflows of failover: one that prints until it is told to end, and a short one.
const (
	longJob  = "long.yml"
	shortJob = "short.yml"
)

// failover is one measurement under way.
type failover struct {
	*fleetStage
	repositories map[domain.PartitionID]string // one in each
	stopFile     string
	asked        atomic.Int64

	mu     sync.Mutex
	shorts map[domain.PartitionID][]string // short runs, oldest first
	open   map[domain.PartitionID]int      // of them, from this one on not known to be done
}

// Failover kills the servers of a fleet one after another, with jobs running and jobs
// waiting in every partition, and measures how long it takes until the next owner of a
// partition has given a job to a runner. Jobs that run must go on, every job must be done
// once, and what a job prints must be followed and kept in whole.
func Failover(ctx context.Context, o Options, of FailoverOptions) (*Report, error) {
	of.MemberTTL = cmp.Or(of.MemberTTL, memberTTL)
	settings := map[string]any{"servers": of.Servers, "kills": of.Kills, "member-ttl": of.MemberTTL.String(),
		"partitions": failoverPartitions, "runners": of.Runners}
	return measureFleet(ctx, "failover", o, of, settings, func(ctx context.Context, s *fleetStage) error {
		f := &failover{fleetStage: s, repositories: map[domain.PartitionID]string{},
			shorts: map[domain.PartitionID][]string{}, open: map[domain.PartitionID]int{},
			stopFile: filepath.Join(s.folder, "stop")}
		return f.run(ctx, of)
	})
}

func (f *failover) run(ctx context.Context, of FailoverOptions) error {
	long, err := f.populate(ctx)
	if err != nil {
		return err
	}
	f.progress("a long job in each of %d partitions, and short ones that wait for a slot", len(long))
	load, stop := context.WithCancel(ctx)
	defer stop()
	var asking, following sync.WaitGroup
	faults := make(chan error, 2*len(long))
	for i, l := range long {
		asking.Go(func() {
			if err := f.keepAsking(load, i, l.partition); err != nil && load.Err() == nil {
				faults <- err
			}
		})
		following.Go(func() { faults <- l.follow(ctx, f, i) })
	}
	err = f.kills(ctx, of)
	stop()
	asking.Wait()
	err = errors.Join(err, os.WriteFile(f.stopFile, nil, 0o600))
	following.Wait()
	close(faults)
	for fault := range faults {
		err = errors.Join(err, fault)
	}
	if err != nil {
		return err
	}
	return f.audit(ctx, long)
}

// populate registers repositories until every partition has one, with a long job in each.
func (f *failover) populate(ctx context.Context) (long []*longRun, err error) {
	root, err := f.sample(ctx)
	if err != nil {
		return nil, err
	}
	for i := 0; i < repositoriesMax && len(f.repositories) < failoverPartitions; i++ {
		name := fmt.Sprintf("sample-%d", i)
		err := f.ask(ctx, i, func(c *client.Client) error {
			_, err := c.Repositories.AddRepository(ctx, &fairleadv1.AddRepositoryRequest{Name: name, Url: root,
				DefaultBranch: "main"})
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("register %s: %w", name, err)
		}
		run, partition, err := f.request(ctx, i, name, shortJob)
		if err != nil {
			return nil, err
		}
		if f.repositories[partition] != "" {
			continue
		}
		f.repositories[partition] = name
		f.shorts[partition] = append(f.shorts[partition], run)
		if run, _, err = f.request(ctx, i, name, longJob); err != nil {
			return nil, err
		}
		long = append(long, &longRun{run: run, partition: partition, pauses: newTimes()})
	}
	if len(f.repositories) < failoverPartitions {
		return nil, fmt.Errorf("%d repositories reach %d of %d partitions", repositoriesMax, len(f.repositories),
			failoverPartitions)
	}
	for i, l := range long {
		if err := f.await(ctx, i, l.run, func(r *fairleadv1.Run) bool {
			attempts := r.GetJobs()[0].GetAttempts()
			return len(attempts) > 0 && attempts[0].GetLog().GetBytes() > 0
		}); err != nil {
			return nil, fmt.Errorf("wait for a long job: %w", err)
		}
	}
	return long, nil
}

// sample makes the repository.
func (f *failover) sample(ctx context.Context) (string, error) {
	root := filepath.Join(f.folder, "sample")
	job := "on: workflow_dispatch\njobs:\n  one:\n    runs-on: ubuntu-latest\n    steps:\n      - run: |\n"
	for name, script := range map[string]string{
		shortJob: "          sleep 2\n",
		longJob: "          i=1; while [ ! -e " + f.stopFile + " ]; do echo $i; i=$((i+1)); sleep 0.25; done\n" +
			"          echo end\n",
	} {
		path := filepath.Join(root, ".github/workflows", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", fmt.Errorf("make repository: %w", err)
		}
		if err := os.WriteFile(path, []byte(job+script), 0o644); err != nil {
			return "", fmt.Errorf("make repository: %w", err)
		}
	}
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "--all"},
		{"-c", "user.name=bench", "-c", "user.email=bench@fairlead.invalid", "commit", "--quiet", "--message=Sample"}} {
		if err := git(ctx, root, args...); err != nil {
			return "", fmt.Errorf("make repository: %w", err)
		}
	}
	return root, nil
}

// request asks for a run at some server, under one key however often it has to be said, and
// tells where it lives.
func (f *failover) request(ctx context.Context, from int, repository, workflow string) (run string,
	partition domain.PartitionID, err error) {
	ctx = client.WithKey(ctx, fmt.Sprintf("failover-%d", f.asked.Add(1)))
	var res *fairleadv1.CreateRunResponse
	err = f.ask(ctx, from, func(c *client.Client) (err error) {
		res, err = c.Runs.CreateRun(ctx, &fairleadv1.CreateRunRequest{Repository: repository, Ref: "main",
			Workflow: workflow, Event: "workflow_dispatch"})
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("ask for a run of %s: %w", workflow, err)
	}
	token, _ := domain.ParseToken(res.GetToken()) // a repeat has none: then nobody asks for the partition
	return res.GetRun().GetRun(), token.Partition, nil
}

// keepAsking sees to it that short jobs wait in a partition at any time.
func (f *failover) keepAsking(ctx context.Context, from int, p domain.PartitionID) error {
	for ctx.Err() == nil {
		f.mu.Lock()
		runs, first := slices.Clone(f.shorts[p]), f.open[p]
		f.mu.Unlock()
		for first < len(runs) && f.concluded(ctx, from, runs[first]) {
			first++
		}
		f.mu.Lock()
		f.open[p] = first
		f.mu.Unlock()
		if len(runs)-first >= outstanding {
			pause(ctx, 5*failoverLook)
			continue
		}
		run, _, err := f.request(ctx, from, f.repositories[p], shortJob)
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.shorts[p] = append(f.shorts[p], run)
		f.mu.Unlock()
	}
	return nil
}

func (f *failover) concluded(ctx context.Context, from int, run string) bool {
	r, err := f.read(ctx, from, run)
	return err == nil && r.GetOutcome() != ""
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
		lost, led, err := f.whole(ctx, i+1, victim.name)
		if err != nil {
			return err
		}
		pause(ctx, restBetween)
		at := time.Now()
		if err := victim.server.kill(); err != nil {
			return err
		}
		gone := time.Now() // whatever is committed from here on, another server committed
		victim.server = nil
		soonest := time.Duration(0)
		for _, p := range lost {
			when, err := f.dispatched(ctx, i+1, p, gone)
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
			if led {
				if err := leader.add(soonest); err != nil {
					return err
				}
			}
		}
		f.progress("kill %d of %d, %s: first job of the next owner after %s", i+1, of.Kills, victim.name,
			soonest.Round(time.Millisecond))
		if err := f.start(ctx, victim); err != nil {
			return err
		}
	}
	r := f.report
	r.spread("kill until the next owner's first job", "SIGKILL of a server until a job of its partitions is leased", first)
	r.aim(failoverAim)
	r.spread("· in each of its partitions", "the same for every partition that it owned", each)
	r.spread("· when it led the pool", "the same for kills of the server that also led the pool and held the logs", leader)
	_, _, err := f.whole(ctx, 0, "")
	return err
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

// dispatched is when the first job of a partition was leased after a moment, by the record
// of the run itself.
func (f *failover) dispatched(ctx context.Context, from int, p domain.PartitionID, after time.Time) (time.Time,
	error) {
	for deadline := time.Now().Add(failoverPatience); ; {
		f.mu.Lock()
		runs := slices.Clone(f.shorts[p][f.open[p]:])
		f.mu.Unlock()
		var found time.Time
		for _, run := range runs {
			r, err := f.read(ctx, from, run)
			if err != nil {
				return found, err
			}
			for _, a := range r.GetJobs()[0].GetAttempts() {
				leased, err := time.Parse(time.RFC3339Nano, a.GetStarted())
				if err == nil && leased.After(after) && (found.IsZero() || leased.Before(found)) {
					found = leased
				}
			}
		}
		if !found.IsZero() {
			return found, nil
		}
		if time.Now().After(deadline) {
			return found, fmt.Errorf("no job of %s was given out within %s", p, failoverPatience)
		}
		pause(ctx, 10*failoverLook)
	}
}
