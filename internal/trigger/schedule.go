package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/cron"
)

// Scheduler starts what is due by the clock. A repository's history has its schedules and what
// came of each occurrence, so that whoever owns it goes on where another stopped: the run of
// an occurrence is asked for under a key of its own, and settled after that.
//
// It is an engine.Observer: that is how it knows repositories. Run drives it.
type Scheduler struct {
	triggers *Triggers
	zone     func(name string) (*time.Location, error)

	mu     sync.Mutex
	tables map[domain.RepositoryID]*timetable
	nudge  chan struct{}
}

// timetable is what is known of a repository that this server owns.
type timetable struct {
	partition domain.PartitionID
	tenant    domain.TenantID
	tip, of   string // of the default branch; where its schedules are from
	branch    string
	schedules []repository.Schedule
	// texts names the texts that workflows are restored to, and read those that the schedules were
	// read with. Both differ when a workflow was restored while its schedules were being read.
	texts, read string

	failures  int
	notBefore time.Time // after a failure
}

// NewScheduler makes a scheduler. zone loads a time zone by its IANA name.
func (t *Triggers) NewScheduler(zone func(name string) (*time.Location, error)) *Scheduler {
	return &Scheduler{triggers: t, zone: zone, tables: make(map[domain.RepositoryID]*timetable),
		nudge: make(chan struct{}, 1)}
}

// Loaded implements engine.Observer.
func (s *Scheduler) Loaded(live engine.Live) {
	if state, ok := live.State.(*repository.State); ok && live.Owned {
		s.put(live.Partition, live.Tenant, state)
	}
}

// Committed implements engine.Observer.
func (s *Scheduler) Committed(rows []engine.Committed) {
	for i := range rows {
		if state, ok := rows[i].State.(*repository.State); ok && rows[i].Owned {
			s.put(rows[i].Partition, rows[i].Tenant, state)
		}
	}
}

// Ready implements engine.Observer.
func (s *Scheduler) Ready(domain.PartitionID, bool) { s.wake() }

// Lost implements engine.Observer.
func (s *Scheduler) Lost(p domain.PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tables, func(_ domain.RepositoryID, t *timetable) bool { return t.partition == p })
}

func (s *Scheduler) put(p domain.PartitionID, tenant domain.TenantID, state *repository.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !state.Exists() {
		delete(s.tables, state.Repository)
		return
	}
	t := s.tables[state.Repository]
	if t == nil {
		t = new(timetable)
		s.tables[state.Repository] = t
	}
	tip := state.Tip("refs/heads/" + state.DefaultBranch)
	if tip != t.tip {
		t.failures, t.notBefore = 0, time.Time{}
	}
	t.partition, t.tenant, t.branch = p, tenant, state.DefaultBranch
	t.tip, t.of, t.schedules = tip, state.SchedulesOf, slices.Clone(state.Schedules)
	t.texts = textsOf(state)
	s.wake()
}

func (s *Scheduler) wake() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Run does what is due until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.nudge:
		case <-timer.C:
		}
		timer.Reset(s.Step(ctx))
	}
}

// Step does what is due now, and says how long nothing else will be.
func (s *Scheduler) Step(ctx context.Context) time.Duration {
	if s.triggers.cfg.Engine.Format() < repository.FormatSchedules {
		return schedulerEvery // servers that know no schedules are still there
	}
	now := s.triggers.cfg.Now()
	for _, job := range s.due(now) {
		if ctx.Err() != nil {
			break
		}
		s.done(job, s.work(ctx, job))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := schedulerEvery
	for _, t := range s.tables {
		if at, ok := t.next(); ok {
			wait = min(wait, max(at.Sub(now), schedulerPause))
		}
	}
	return wait
}

// chore is one thing to do for a repository, with what was known when it was found.
type chore struct {
	repository domain.RepositoryID
	timetable
	schedule *repository.Schedule // nil: define them
}

// next is when something of the repository is due; ok is false when nothing is awaited.
func (t *timetable) next() (at time.Time, ok bool) {
	if t.stale() {
		return t.notBefore, true
	}
	for _, one := range t.schedules {
		if !ok || one.NextAt.Before(at) {
			at, ok = one.NextAt, true
		}
	}
	if at.Before(t.notBefore) {
		at = t.notBefore
	}
	return at, ok
}

// stale reports whether the schedules were read at another commit, or from other texts.
func (t *timetable) stale() bool { return t.of != t.tip || t.texts != t.read }

// textsOf names the texts that workflows of a repository are restored to.
func textsOf(s *repository.State) string {
	var out strings.Builder
	for i := range s.Withdrawals {
		if w := &s.Withdrawals[i]; w.Restored() {
			out.WriteString(w.Workflow + " " + string(w.Text) + "\n")
		}
	}
	return out.String()
}

// due lists what there is to do now, by repository: a new definition first, because it may end
// what is due.
func (s *Scheduler) due(now time.Time) []chore {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []chore
	for _, id := range slices.Sorted(maps.Keys(s.tables)) {
		t := s.tables[id]
		switch {
		case now.Before(t.notBefore):
		case t.stale():
			out = append(out, chore{id, *t, nil})
		default:
			for i := range t.schedules {
				if !now.Before(t.schedules[i].NextAt) {
					out = append(out, chore{id, *t, &t.schedules[i]})
				}
			}
		}
	}
	return out
}

// done notes how a chore ended. What failed is tried again, ever less often.
func (s *Scheduler) done(job chore, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[job.repository]
	switch {
	case t == nil:
	case err == nil:
		t.failures = 0
		if job.schedule == nil {
			t.read = job.texts
		}
	default:
		t.failures++
		t.notBefore = s.triggers.cfg.Now().Add(min(time.Second<<min(t.failures, 16), schedulerBackoffMax))
		s.triggers.cfg.Log.Warn("schedules", "repository", job.repository, "error", err)
	}
}

func (s *Scheduler) work(ctx context.Context, job chore) error {
	row, err := s.triggers.repository(ctx, job.tenant, string(job.repository))
	if err != nil {
		return err
	}
	if job.schedule == nil {
		return s.define(ctx, row, job)
	}
	return s.settle(ctx, row, job, *job.schedule)
}

func (s *Scheduler) cause(job chore, what string) domain.Cause {
	return domain.Cause{Actor: domain.Actor{Kind: "timer", ID: "schedule", Via: "internal"},
		Request: fmt.Sprintf("schedule/%s/%s", job.repository, what), Policy: s.triggers.cfg.Policy}
}

// define reads the schedules at the tip of the default branch.
func (s *Scheduler) define(ctx context.Context, row store.RepositoryRow, job chore) error {
	var all []repository.Schedule
	if job.tip != "" {
		c, err := s.read(ctx, row, job)
		switch no := unreadable(err); {
		case no != nil:
			// It will be the same each time. The schedules that there are stay, and say so when they are due.
			s.triggers.cfg.Log.Warn("the workflows can't be read; the schedules from before stay", "repository",
				row.Repository, "commit", job.tip, "problem", no.Message)
			all = job.schedules
		case err != nil:
			return err
		default:
			all = s.list(c)
		}
	}
	why := s.cause(job, cmp.Or(job.tip, "none"))
	return s.submit(ctx, row, repository.DefineSchedules{Cause: why, Commit: job.tip, Schedules: all}, why)
}

// unreadable is why a commit can never be read; nil when another try may succeed. A commit that the
// mirror lacks is on its way: whoever looks after mirrors fetches it.
func unreadable(err error) *domain.Rejection {
	no, ok := domain.AsRejection(err)
	if !ok || errors.Is(err, domain.ErrRetry) || no.Code == domain.CodeCommitNotFound || !lasting(no) {
		return nil
	}
	return no
}

// read reads the workflows at the tip that the job has seen, from the mirror as it is: a remote
// that is slow would keep all others waiting.
func (s *Scheduler) read(ctx context.Context, row store.RepositoryRow, job chore) (*cause, error) {
	c := &cause{triggers: s.triggers, row: row, mirrored: true, request: Request{Tenant: row.Tenant,
		Repository: string(row.Repository), Event: workflow.EventSchedule, Ref: "refs/heads/" + job.branch, Commit: job.tip}}
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	return c, c.read(ctx)
}

// list gives the schedules of all files, in order and each once, with their first occurrence
// from now on. A file that can't be read has none; the run of its push says what is wrong.
func (s *Scheduler) list(c *cause) []repository.Schedule {
	var all []repository.Schedule
	now := s.triggers.cfg.Now()
	for _, file := range c.files {
		for _, one := range c.inspect(file).triggers.Schedules {
			next, err := s.after(one.Cron, one.Zone, now)
			found := repository.Schedule{Workflow: file.Path, Cron: one.Cron, Zone: one.Zone, CatchUp: one.CatchUp,
				NextID: next.ID, NextAt: next.At}
			// One that can't be kept must not keep the repository's others from being due.
			if why := found.Wrong(); err != nil || why != "" {
				s.triggers.cfg.Log.Warn("a schedule is left out", "repository", c.row.Repository, "workflow", file.Path,
					"cron", one.Cron, "error", err, "problem", why)
				continue
			}
			all = append(all, found)
		}
	}
	slices.SortStableFunc(all, repository.Schedule.Order)
	all = slices.CompactFunc(all, func(a, b repository.Schedule) bool { return a.Order(b) == 0 })
	if len(all) > repository.SchedulesMax {
		s.triggers.cfg.Log.Warn("the repository has too many schedules; the first ones count", "repository", c.row.Repository,
			"schedules", len(all), "limit", repository.SchedulesMax)
		all = all[:repository.SchedulesMax]
	}
	return all
}

// errNever: a schedule has no further occurrence.
var errNever = errors.New("it is never due")

func (s *Scheduler) after(text, zone string, at time.Time) (cron.Occurrence, error) {
	t, err := s.times(text, zone)
	if err != nil {
		return cron.Occurrence{}, err
	}
	return t.after(at)
}

// times are those of one schedule. They are read once for all that it missed: a zone is a file.
type times struct {
	spec cron.Spec
	zone *time.Location
}

func (s *Scheduler) times(text, zone string) (times, error) {
	spec, err := cron.Parse(text)
	if err != nil {
		return times{}, err
	}
	location := time.UTC
	if zone != "" {
		if location, err = s.zone(zone); err != nil {
			return times{}, fmt.Errorf("load time zone %s: %w", zone, err)
		}
	}
	return times{spec, location}, nil
}

func (t times) after(at time.Time) (cron.Occurrence, error) {
	next, ok := t.spec.Next(at, t.zone)
	if !ok {
		return cron.Occurrence{}, errNever
	}
	return next, nil
}

// following is what comes after an occurrence. When the rules of a zone have changed since that
// was worked out, clocks may show its wall time once more: that is the same occurrence.
func (t times) following(last cron.Occurrence) (cron.Occurrence, error) {
	next, err := t.after(last.At)
	if err == nil && next.ID == last.ID {
		next, err = t.after(next.At)
	}
	return next, err
}

// settle starts the occurrence that is due, or says why not, and finds the next one.
func (s *Scheduler) settle(ctx context.Context, row store.RepositoryRow, job chore, one repository.Schedule) error {
	c, err := s.begun(ctx, row, one)
	if err == nil && c.Settled.Outcome == "" {
		c, err = s.catchUp(one)
	}
	if err != nil {
		return err
	}
	c.Cause = s.cause(job, one.Workflow+"/"+c.Settled.ID)
	if c.Settled.Outcome == "" {
		if c.Settled, err = s.start(ctx, row, job, c); err != nil {
			return err
		}
	}
	return s.submit(ctx, row, c, c.Cause)
}

// begun settles the occurrence that is due as started if it was: whoever did so did not live
// to say it.
func (s *Scheduler) begun(ctx context.Context, row store.RepositoryRow, one repository.Schedule) (
	c repository.SettleOccurrence, err error) {
	found, done, err := s.triggers.earlier(ctx, row.Tenant, *occurrenceKey(row.Repository, one, one.NextID))
	if err != nil || !done {
		return c, err
	}
	t, err := s.times(one.Cron, one.Zone)
	if err != nil {
		return c, err
	}
	next, err := t.following(cron.Occurrence{At: one.NextAt, ID: one.NextID})
	if err != nil {
		return c, fmt.Errorf("find what follows %s of %s: %w", one.NextID, one.Workflow, err)
	}
	return repository.SettleOccurrence{Schedule: one, NextID: next.ID, NextAt: next.At, Settled: repository.Settled{
		ID: one.NextID, Outcome: repository.OccurrenceStarted, Run: found.Run}}, nil
}

// catchUp chooses which of the occurrences until now counts: the one that is due, the last, or
// none when nobody looked for a while. An outcome that it leaves empty is to be found by starting it.
func (s *Scheduler) catchUp(one repository.Schedule) (repository.SettleOccurrence, error) {
	now := s.triggers.cfg.Now()
	c := repository.SettleOccurrence{Schedule: one, Settled: repository.Settled{ID: one.NextID}}
	t, err := s.times(one.Cron, one.Zone)
	if err != nil {
		return c, err
	}
	last := cron.Occurrence{At: one.NextAt, ID: one.NextID}
	for passed := 0; ; passed++ {
		next, err := t.following(last)
		if err != nil {
			return c, fmt.Errorf("find what follows %s of %s: %w", last.ID, one.Workflow, err)
		}
		c.NextID, c.NextAt = next.ID, next.At
		if one.CatchUp == repository.CatchUpAll || next.At.After(now) || passed == catchUpMax {
			break
		}
		last = next
		c.Settled.ID, c.Settled.Missed = last.ID, c.Settled.Missed+1
	}
	if one.CatchUp != repository.CatchUpAll && !c.NextAt.After(now) { // the bound was hit: the last one is further on
		c.Settled.Outcome = repository.OccurrenceMissed
		c.Settled.Message = fmt.Sprintf("It was due at %s, and a later one is overdue, too.", last.At.Format(time.RFC3339))
		return c, nil
	}
	if one.CatchUp == repository.CatchUpNone && now.Sub(last.At) > lateMax {
		c.Settled.Outcome = repository.OccurrenceMissed
		c.Settled.Message = fmt.Sprintf("It was due at %s, and nobody looked before %s.", last.At.Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	}
	return c, nil
}

// start asks for the run of an occurrence under a key of its own.
func (s *Scheduler) start(ctx context.Context, row store.RepositoryRow, job chore, settle repository.SettleOccurrence,
) (repository.Settled, error) {
	one, settled := settle.Schedule, settle.Settled
	refused := func(message string) (repository.Settled, error) {
		settled.Outcome, settled.Message = repository.OccurrenceRefused, message
		return settled, nil
	}
	c, err := s.read(ctx, row, job)
	if no := unreadable(err); no != nil {
		return refused(no.Message)
	}
	if err != nil {
		return settled, err
	}
	at := slices.IndexFunc(c.files, func(f scm.File) bool { return f.Path == one.Workflow })
	if at < 0 {
		return refused(fmt.Sprintf("Commit %.12s has no workflow %s.", job.tip, one.Workflow))
	}
	if why := c.stopped[one.Workflow]; why != "" {
		return refused(why + ".")
	}
	in := c.inspect(c.files[at])
	if matches, reason := in.triggers.Match(workflow.Event{Name: workflow.EventSchedule, Cron: one.Cron}); !matches {
		return refused(fmt.Sprintf("Commit %.12s: %s.", job.tip, reason))
	}
	c.cron, c.request.Cause = one.Cron, settle.Cause
	c.request.Key = occurrenceKey(row.Repository, one, settled.ID)
	accepted, _, err := c.begin(ctx, c.files[at])
	if no, ok := domain.AsRejection(err); ok && lasting(no) {
		return refused(no.Message)
	} else if err != nil {
		return settled, err
	}
	settled.Outcome, settled.Run = repository.OccurrenceStarted, accepted.Run
	return settled, nil
}

// occurrenceKey is the dedupe key of an occurrence, the same on every server.
func occurrenceKey(repo domain.RepositoryID, one repository.Schedule, id string) *engine.Key {
	text := strings.Join([]string{"schedule", one.Workflow, one.Cron, one.Zone, id}, ":")
	body := domain.DigestOf([]byte(text))
	if len(text) > keyBytesMax {
		text = "schedule:" + body.Hex()
	}
	return &engine.Key{Scope: engine.TriggerScope(repo), Key: text, Body: body}
}

func (s *Scheduler) submit(ctx context.Context, row store.RepositoryRow, c repository.Command, why domain.Cause) error {
	_, err := s.triggers.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: row.Tenant, Partition: row.Partition,
		Stream: row.Repository.Stream(), Cause: why, Command: c})
	if err != nil {
		return fmt.Errorf("%s of %s: %w", c.Name(), row.Repository, err)
	}
	return nil
}
