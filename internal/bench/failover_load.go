package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Workflows of failover.
const (
	longJob  = "long.yml"  // prints until it is told to end
	shortJob = "short.yml" // a chain of short jobs
	plugJob  = "plug.yml"  // jobs that hold the spare slots until they are told to end
	waitJob  = "wait.yml"  // waits for a spare slot, and ends at once
	probeJob = "probe.yml" // ends at once: its run tells in which partition a repository is
)

// What a job costs, three processes started, is dear beside everything else here. So the load
// is a few jobs that go on, one after another, and the machine is idle enough that a change of
// owner is what is measured. A run holds many of them, since asking for one costs a fetch.
const (
	chained    = 6           // short jobs of a run: one after the other, each 7 to 9 s
	lookAtRuns = time.Second // whether a run has ended
)

// Labels of runners: those for long and short jobs, and the one for jobs that wait.
const (
	throughLabel = "through"
	spareLabel   = "spare"
)

// stopAll is the file that ends all jobs that wait for something.
const stopAll = "stop"

// slotsOf is how many slots each of n runners has: together one for every long job and every
// chain.
func slotsOf(n int) int { return (2*failoverPartitions + n - 1) / n }

// spareSlots is how many partitions one of n servers has at most, those of the pool included.
func spareSlots(n int) int { return failoverPartitions/n + 1 }

// failoverWorkflows are the files of the sample repository by name. Scripts start no process
// but one: they wait by a read of a pipe that has no other end. Each job notes its attempt in a
// book outside of everything that is killed, and ends when that is gone.
func failoverWorkflows(folder string, spare int) map[string]string {
	book := filepath.Join(folder, bookFile)
	note := []string{"exec 3<> <(:)", `echo "$FAIRLEAD_ATTEMPT" >> ` + book}
	wait := "while [ -e " + book + " ] && [ ! -e " + filepath.Join(folder, stopAll) + " ]"
	job := func(key, label, needs string, script ...string) string {
		lines := "  " + key + ":\n"
		if needs != "" {
			lines += "    needs: " + needs + "\n"
		}
		return lines + "    runs-on: " + label + "\n    steps:\n      - shell: bash\n        run: |\n          " +
			strings.Join(append(slices.Clone(note), script...), "\n          ") + "\n"
	}
	const head = "on: workflow_dispatch\njobs:\n"
	short, plug := head, head
	for i := range chained {
		needs := ""
		if i > 0 {
			needs = fmt.Sprintf("short-%d", i-1)
		}
		short += job(fmt.Sprintf("short-%d", i), throughLabel, needs,
			"n=$((70 + RANDOM % 21)); "+wait+" && [ $n -gt 0 ]; do n=$((n-5)); read -t 0.5 -u 3 || :; done")
	}
	for i := range spare {
		plug += job(fmt.Sprintf("plug-%d", i), spareLabel, "", "echo plugged",
			wait+" && [ ! -e "+filepath.Join(folder, openFile)+"$FAIRLEAD_RUN ]; do read -t 0.05 -u 3 || :; done")
	}
	return map[string]string{
		shortJob: short,
		plugJob:  plug,
		waitJob:  head + job("wait", spareLabel, "", "echo here"),
		probeJob: head + job("probe", throughLabel, "", "echo here"),
		longJob: head + job("long", throughLabel, "", "i=1",
			wait+"; do echo $i; i=$((i+1)); read -t 0.5 -u 3 || :; done", "echo end"),
	}
}

// Files beside the repository.
const (
	bookFile = "book"  // a line for every attempt that was executed
	openFile = "open-" // and the run of a plug that is to end
)

// open makes a file that jobs wait for.
func (f *failover) open(name string) error {
	if err := os.WriteFile(filepath.Join(f.folder, name), nil, 0o600); err != nil {
		return fmt.Errorf("tell jobs to end: %w", err)
	}
	return nil
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
		run, partition, err := f.request(ctx, i, name, probeJob)
		if err != nil {
			return nil, err
		}
		f.others = append(f.others, run)
		if f.repositories[partition] != "" {
			continue
		}
		f.repositories[partition] = name
		f.partitions = append(f.partitions, partition)
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
		if err := f.await(ctx, i, l.run, printing); err != nil {
			return nil, fmt.Errorf("wait for a long job: %w", err)
		}
	}
	return long, nil
}

// printing reports whether every job of a run has begun: each prints a line at once.
func printing(r *fairleadv1.Run) bool {
	for _, j := range r.GetJobs() {
		if a := j.GetAttempts(); len(a) == 0 || a[0].GetLog().GetBytes() == 0 {
			return false
		}
	}
	return len(r.GetJobs()) > 0
}

// sample makes the repository.
func (f *failover) sample(ctx context.Context) (string, error) {
	root := filepath.Join(f.folder, "sample")
	files := map[string]string{}
	for name, text := range failoverWorkflows(f.folder, f.spare) {
		files[filepath.Join(".github/workflows", name)] = text
	}
	return root, commit(ctx, root, files)
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

// keepAsking sees to it that short jobs go on in a partition: when a run has ended, the next
// one is asked for, until there were enough. What is asked for then is still waited for: each
// run must be known.
func (f *failover) keepAsking(ctx context.Context, enough <-chan struct{}, from int, p domain.PartitionID) error {
	look := time.NewTicker(lookAtRuns)
	defer look.Stop()
	for run := ""; ; {
		if run != "" {
			r, err := f.read(ctx, from, run)
			if err != nil {
				return err
			}
			if r.GetOutcome() == "" {
				select {
				case <-enough:
					return nil
				case <-look.C:
				}
				continue
			}
		}
		next, _, err := f.request(ctx, from, f.repositories[p], shortJob)
		if err != nil {
			return err
		}
		run = next
		f.mu.Lock()
		f.shorts[p] = append(f.shorts[p], run)
		f.mu.Unlock()
	}
}

// plug fills the spare slots with jobs of a partition that is not among the lost, and then lets
// a job in each of the lost ones wait for a slot.
func (f *failover) plug(ctx context.Context, from int, e *eve) error {
	if len(e.lost) > f.spare {
		return fmt.Errorf("%d slots for jobs of %v", f.spare, e.lost)
	}
	at := slices.IndexFunc(f.partitions, func(p domain.PartitionID) bool { return !slices.Contains(e.lost, p) })
	if at < 0 {
		return fmt.Errorf("one server owns all of %v", e.lost)
	}
	run, _, err := f.request(ctx, from, f.repositories[f.partitions[at]], plugJob)
	if err != nil {
		return err
	}
	f.others, e.plug, e.waiting = append(f.others, run), openFile+run, nil
	if err := f.await(ctx, from, run, printing); err != nil {
		return fmt.Errorf("wait for jobs that hold slots: %w", err)
	}
	for _, p := range e.lost {
		run, _, err := f.request(ctx, from, f.repositories[p], waitJob)
		if err != nil {
			return err
		}
		f.others, e.waiting = append(f.others, run), append(e.waiting, run)
		if err := f.await(ctx, from, run, func(r *fairleadv1.Run) bool {
			return len(r.GetJobs()) == 1 && r.GetJobs()[0].GetState() == "ready"
		}); err != nil {
			return fmt.Errorf("wait for a job that waits for a slot: %w", err)
		}
	}
	return nil
}

// rest pauses, and tells how busy the machine was meanwhile, in percent of all processors.
func (f *failover) rest(ctx context.Context) (float64, error) {
	busyBefore, allBefore, err := processors()
	if err != nil {
		return 0, err
	}
	pause(ctx, restBetween)
	busy, all, err := processors()
	if err != nil || all == allBefore {
		return 0, errors.Join(err, ctx.Err())
	}
	return 100 * float64(busy-busyBefore) / float64(all-allBefore), nil
}

// processors reads how many ticks all processors were busy since the machine's start, of how
// many.
func processors() (busy, all int64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("read what processors did: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal; what follows is part of user and nice
	const idle, iowait, last = 3, 4, 7
	fields := strings.Fields(line)
	if len(fields) <= last+1 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("read what processors did: %q", line)
	}
	for i, text := range fields[1 : last+2] {
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read what processors did: %w", err)
		}
		all += ticks
		if i != idle && i != iowait {
			busy += ticks
		}
	}
	return busy, all, nil
}
