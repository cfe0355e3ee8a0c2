package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// HistoryOptions are those of History.
type HistoryOptions struct {
	Jobs  int // of finished history
	Looks int // at runs and lists
	Load  FleetOptions
	// Live leaves the history in the database: the archive is not measured.
	Live bool
}

const (
	// historyAim is what we want throughput with history to be, of that without.
	historyAim = 0.9
	// showAim is what we want showing a run with its timeline to take at the 99th percentile, in ms.
	showAim = 20
	// seedPatience bounds the wait for the pattern's run.
	seedPatience = time.Minute
)

// seeded is what `fairlead admin seed --json` says.
type seeded struct {
	Runs  int64    `json:"runs"`
	Jobs  int64    `json:"jobs"`
	Rows  int64    `json:"rows"`
	Bytes int64    `json:"event_bytes"`
	Names []string `json:"names"`
}

// archived is what `fairlead admin archive --json` says.
type archived struct {
	Partitions []struct {
		Rows        int64 `json:"rows"`
		EventBytes  int64 `json:"event_bytes"`
		ObjectBytes int64 `json:"object_bytes"`
	} `json:"partitions"`
	Bytes int64 `json:"store_bytes"`
	Free  int64 `json:"store_free_bytes"`
}

// History measures whether a server stays as it is when its history grows: the load of many
// runners on an empty store, then finished jobs by the million, then looks at random runs and
// the same load again; then all history is archived, and looked at once more.
func History(ctx context.Context, o Options, of HistoryOptions) (*Report, error) {
	of.Load.Ahead = max(2*of.Load.Runners*of.Load.Slots/of.Load.Jobs, 2)
	settings := map[string]any{"jobs_of_history": of.Jobs, "archive": !of.Live, "looks": of.Looks,
		"runners": of.Load.Runners, "slots": of.Load.Slots, "warm": of.Load.Warm.String(),
		"duration": of.Load.Duration.String(), "shape": of.Load.Shape, "jobs_of_a_run": of.Load.Jobs}
	return measure(ctx, "history", o, "server", settings, func(ctx context.Context, s *stage) error {
		return (&past{stage: s, of: of}).run(ctx)
	})
}

// past is a measurement of history under way.
type past struct {
	*stage
	of    HistoryOptions
	first accepted
	seed  seeded
	told  int // figures that were said
}

func (p *past) run(ctx context.Context) (err error) {
	p.first, err = p.introduce(ctx, map[string]string{fleetJob: shapeText(p.of.Load.Shape, p.of.Load.Jobs)})
	if err != nil {
		return err
	}
	empty, err := p.load(ctx, "empty")
	if err != nil {
		return err
	}
	p.tell()
	if err := p.grow(ctx); err != nil {
		return err
	}
	p.tell()
	if err := p.look(ctx, "", true); err != nil {
		return err
	}
	p.tell()
	full, err := p.load(ctx, "full")
	if err != nil {
		return err
	}
	p.report.value("throughput, empty store", "jobs acknowledged in the window", empty, "jobs/s")
	p.report.value("throughput, full store", "the same load", full, "jobs/s")
	p.report.value("full to empty", "of throughput", full/empty, "")
	p.report.aim(historyAim)
	p.tell()
	if p.of.Live {
		return nil
	}
	if err := p.store(ctx); err != nil {
		return err
	}
	p.tell()
	return p.look(ctx, ", archived", false)
}

// tell says the figures that are known by now: with millions of jobs the last ones come hours later, and
// whoever stops then has the others.
func (p *past) tell() {
	for _, f := range p.report.Figures[p.told:] {
		p.progress("  %s", f.line())
	}
	p.told = len(p.report.Figures)
}

// load puts the load of many runners on the server and gives the jobs in a second.
func (p *past) load(ctx context.Context, what string) (rate float64, err error) {
	p.progress("load on the %s store", what)
	l := &traffic{stage: p.stage, of: p.of.Load, first: p.first, tracked: map[string]*tracked{},
		answered: newTimes(), acknowledged: newTimes(), name: what}
	if l.book, err = os.Create(filepath.Join(p.folder, "book-"+what)); err != nil {
		return 0, fmt.Errorf("make book: %w", err)
	}
	defer func() { err = errors.Join(err, l.book.Close()) }()
	if err := l.serve(ctx); err != nil {
		return 0, err
	}
	done := l.acknowledged.spread()
	if done.Count < fleetLeast {
		return 0, fmt.Errorf("only %d jobs were done in %s: the window is too short for a figure", done.Count,
			p.of.Load.Duration)
	}
	jobs := float64(done.Count)
	p.report.spread("result until acknowledged, "+what+" store", "with progress and log", l.acknowledged)
	p.report.value("server's processor time, "+what+" store", "for each job", 1e6*p.report.Server.Usage.CPU/jobs, "µs/job")
	p.report.value("written by the server, "+what+" store", "bytes handed to the disk",
		float64(p.report.Server.Usage.Written)/jobs/1024, "KiB/job")
	p.report.value("read by the server, "+what+" store", "from files and sockets",
		float64(p.report.Server.Usage.Read)/jobs/1024, "KiB/job")
	return jobs / l.to.Sub(l.from).Seconds(), nil
}

// grow stops the server, lets a process of its own write history, and starts the server again.
func (p *past) grow(ctx context.Context) error {
	like, err := p.pattern(ctx)
	if err != nil {
		return err
	}
	if err := p.server.stop(); err != nil {
		return err
	}
	before, err := p.archive(ctx, false)
	if err != nil {
		return err
	}
	p.progress("writing %d finished jobs", p.of.Jobs)
	begun := time.Now()
	if err := p.admin(ctx, &p.seed, "seed", "--jobs", strconv.Itoa(p.of.Jobs), "--like", like); err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	after, err := p.archive(ctx, false)
	if err != nil {
		return err
	}
	jobs := float64(p.seed.Jobs)
	p.report.value("history written", "by the store's own port", jobs/took, "jobs/s")
	p.report.value("stored", "by tables and indexes", float64(after.Bytes-before.Bytes)/jobs, "B/job")
	p.report.value("events", "of that, as they are stored", float64(p.seed.Bytes)/jobs, "B/job")
	p.report.value("rows", "", float64(p.seed.Rows)/jobs, "/job")
	begun = time.Now()
	flags := []string{"--listen", strings.TrimPrefix(p.server.url, "http://"), "--log-level", "warn"}
	if p.options.Store != "" {
		flags = append(flags, "--store", p.options.Store)
	}
	next, err := launch(ctx, p.options, "server", p.server.data, flags...)
	if err != nil {
		return err
	}
	p.server = next
	p.report.value("start of the server", "with all that history, until it is ready",
		float64(time.Since(begun).Microseconds())/1000, "ms")
	return p.begin()
}

// pattern finds a run that is over, and waits until its logs are sealed.
func (p *past) pattern(ctx context.Context) (string, error) {
	for deadline := time.Now().Add(seedPatience); time.Now().Before(deadline); pause(ctx, 200*time.Millisecond) {
		list, err := p.server.client.Runs.ListRuns(ctx, &fairleadv1.ListRunsRequest{Outcome: "success", Limit: 50})
		if err != nil {
			return "", fmt.Errorf("list runs: %w", err)
		}
		for _, row := range list.GetRuns() {
			answer, err := p.server.client.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: row.GetRun()})
			if err != nil {
				return "", fmt.Errorf("read %s: %w", row.GetRun(), err)
			}
			if over(answer.GetRun(), p.of.Load.Jobs) {
				return row.GetRun(), nil
			}
		}
	}
	return "", errors.New("no run of the load came to its end")
}

func over(run *fairleadv1.Run, jobs int) bool {
	if len(run.GetJobs()) != jobs {
		return false
	}
	for _, j := range run.GetJobs() {
		for _, a := range j.GetAttempts() {
			if !a.GetLog().GetSealed() {
				return false
			}
		}
	}
	return true
}

// admin runs an admin command on the server's belongings and reads its answer.
func (p *past) admin(ctx context.Context, into any, args ...string) error {
	args = append(append([]string{"admin"}, args...), "--json", "--data", p.server.data)
	if p.options.Store != "" {
		args = append(args, "--store", p.options.Store)
	}
	c, err := p.server.call(ctx, p.options, p.folder, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(c.out, into); err != nil {
		return fmt.Errorf("read the answer of fairlead %s: %q: %w", strings.Join(args, " "), c.out, err)
	}
	return nil
}

func (p *past) archive(ctx context.Context, move bool) (a archived, err error) {
	args := []string{"archive"}
	if move {
		args = append(args, "--older-than", "0s")
	}
	return a, p.admin(ctx, &a, args...)
}

// look shows random runs with their timelines, and the first page of lists.
func (p *past) look(ctx context.Context, which string, lists bool) error {
	p.progress("looking at %d runs%s", p.of.Looks, which)
	show, list, narrow := newTimes(), newTimes(), newTimes()
	runs := p.server.client.Runs
	timed := func(t *times, call func() error) error {
		begun := time.Now()
		if err := call(); err != nil {
			return err
		}
		return t.add(time.Since(begun))
	}
	for range p.of.Looks {
		id := p.seed.Names[rand.IntN(len(p.seed.Names))]
		err := timed(show, func() error {
			answer, err := runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: id, Timeline: true})
			if err == nil && (answer.GetRun().GetOutcome() == "" || len(answer.GetRun().GetTimeline()) == 0) {
				err = fmt.Errorf("run %s came without its outcome or its timeline", id)
			}
			return err
		})
		for _, q := range []struct {
			times *times
			query *fairleadv1.ListRunsRequest
		}{{list, &fairleadv1.ListRunsRequest{}}, {narrow, &fairleadv1.ListRunsRequest{Repository: p.first.Repository,
			State: "concluded"}}} {
			if lists && err == nil {
				err = timed(q.times, func() error { _, err := runs.ListRuns(ctx, q.query); return err })
			}
		}
		if err != nil {
			return err
		}
	}
	p.report.spread("show a run"+which, "with its timeline, over the API", show)
	p.report.aim(showAim)
	p.report.spread("list runs, first page", "", list)
	p.report.spread("list runs of a repository", "concluded ones, first page", narrow)
	return nil
}

// store archives everything while the server runs.
func (p *past) store(ctx context.Context) error {
	p.progress("archiving")
	begun := time.Now()
	a, err := p.archive(ctx, true)
	if err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	var rows, raw, objects int64
	for _, part := range a.Partitions {
		rows, raw, objects = rows+part.Rows, raw+part.EventBytes, objects+part.ObjectBytes
	}
	jobs := float64(rows) / float64(p.seed.Rows) * float64(p.seed.Jobs) // those of the load included
	p.report.value("archived", "beside the running server", float64(rows)/took, "rows/s")
	p.report.value("objects of the archive", "for every archived job", float64(objects)/jobs, "B/job")
	p.report.value("their events before", "for every archived job", float64(raw)/jobs, "B/job")
	if a.Free > 0 {
		p.report.value("left in the database", "in use, for every archived job", float64(a.Bytes-a.Free)/jobs, "B/job")
	}
	return nil
}
