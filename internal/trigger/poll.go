package trigger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/repository"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// schedule is the poller's step function: it says who is due, and learns from results.
// It reads no clock and starts nothing.
type schedule struct {
	every time.Duration
	// random gives a number below n; it spreads polls, so that a thousand repositories do
	// not knock at the same second.
	random func(n int64) int64
	known  map[domain.RepositoryID]*watch
}

type watch struct {
	next     time.Time
	failures int
	busy     bool
}

// due lists the repositories to look at now, and when to ask again.
func (s *schedule) due(now time.Time, rows []store.RepositoryRow) (look []store.RepositoryRow, again time.Time) {
	again = now.Add(s.every)
	present := make(map[domain.RepositoryID]bool, len(rows))
	for _, row := range rows {
		if !row.Poll || row.URL == "" {
			continue
		}
		present[row.Repository] = true
		w := s.known[row.Repository]
		if w == nil {
			w = &watch{next: now.Add(s.jitter(s.every))}
			s.known[row.Repository] = w
		}
		switch {
		case w.busy:
		case !w.next.After(now):
			w.busy = true
			look = append(look, row)
		case w.next.Before(again):
			again = w.next
		}
	}
	for id, w := range s.known {
		if !present[id] && !w.busy {
			delete(s.known, id)
		}
	}
	slices.SortFunc(look, func(a, b store.RepositoryRow) int { return cmp.Compare(a.Repository, b.Repository) })
	return look, again
}

// done records how a look ended. After failures the wait doubles up to a bound.
func (s *schedule) done(id domain.RepositoryID, now time.Time, err error) {
	w := s.known[id]
	if w == nil {
		return
	}
	w.busy = false
	if err == nil {
		w.failures = 0
		w.next = now.Add(s.every - s.every/8 + s.jitter(s.every/4))
		return
	}
	w.failures++
	wait := min(s.every<<min(w.failures, 16), pollBackoffMax)
	wait = max(wait, s.every)
	w.next = now.Add(wait - wait/4 + s.jitter(wait/4))
}

func (s *schedule) jitter(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(s.random(int64(most)))
}

// PollerConfig is what a Poller needs beside its Triggers.
type PollerConfig struct {
	// Tenants lists whose repositories are polled.
	Tenants func(ctx context.Context) ([]domain.TenantID, error)
	Every   time.Duration // 0: PollEvery
	Random  func(n int64) int64
	// Owns reports whether this server looks after the repositories of a partition; nil: all.
	Owns func(domain.PartitionID) bool
	// Maintain tidies a mirror now and then; nil: nothing does.
	Maintain func(ctx context.Context, repo scm.Repo) error
}

// Poller looks at the remotes of repositories that say so.
type Poller struct {
	triggers *Triggers
	cfg      PollerConfig

	mu       sync.Mutex
	schedule schedule
	seen     map[domain.RepositoryID]domain.Digest // of the last advertisement that was observed
	brought  map[domain.RepositoryID]int           // looks that found something
}

// NewPoller makes a poller. Run drives it.
func (t *Triggers) NewPoller(cfg PollerConfig) *Poller {
	if cfg.Every <= 0 {
		cfg.Every = PollEvery
	}
	return &Poller{triggers: t, cfg: cfg, seen: make(map[domain.RepositoryID]domain.Digest),
		brought:  make(map[domain.RepositoryID]int),
		schedule: schedule{every: cfg.Every, random: cfg.Random, known: make(map[domain.RepositoryID]*watch)}}
}

// Run polls until ctx ends, then waits for looks under way.
func (p *Poller) Run(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	places := make(chan struct{}, pollsMax)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		look, again := p.step(ctx)
		for _, row := range look {
			looks.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				err := p.Look(ctx, row)
				p.mu.Lock()
				p.schedule.done(row.Repository, p.triggers.cfg.Now(), err)
				p.mu.Unlock()
				if err != nil && ctx.Err() == nil {
					p.triggers.cfg.Log.Warn("poll", "repository", row.Repository, "name", row.Name, "error", err)
				}
			})
		}
		timer.Reset(max(again.Sub(p.triggers.cfg.Now()), 50*time.Millisecond))
	}
}

// step asks the schedule about what is registered now.
func (p *Poller) step(ctx context.Context) ([]store.RepositoryRow, time.Time) {
	now := p.triggers.cfg.Now()
	rows, err := p.rows(ctx)
	if err != nil {
		if ctx.Err() == nil {
			p.triggers.cfg.Log.Error("list repositories to poll", "error", err)
		}
		return nil, now.Add(p.cfg.Every)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.schedule.due(now, rows)
}

func (p *Poller) rows(ctx context.Context) ([]store.RepositoryRow, error) {
	tenants, err := p.cfg.Tenants(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	var all []store.RepositoryRow
	for _, tenant := range tenants {
		rows, err := p.triggers.cfg.Views.Repositories(ctx, tenant)
		if err != nil {
			return nil, fmt.Errorf("list repositories of %s: %w", tenant, err)
		}
		all = append(all, rows...)
	}
	if p.cfg.Owns != nil {
		all = slices.DeleteFunc(all, func(r store.RepositoryRow) bool { return !p.cfg.Owns(r.Partition) })
	}
	return all, nil
}

// Look looks at one repository now: it asks what the remote has, fetches if that is new,
// and records it. The reactor starts what follows.
func (p *Poller) Look(ctx context.Context, row store.RepositoryRow) error {
	source, remote := p.triggers.cfg.Source, scm.Remote{URL: row.URL}
	seen, err := source.Advertised(ctx, remote)
	if err != nil {
		return fmt.Errorf("poll %s: %w", row.Repository, err)
	}
	digest := digestOf(seen)
	p.mu.Lock()
	same := p.seen[row.Repository] == digest
	p.mu.Unlock()
	if same {
		return nil
	}
	refs, err := source.Fetch(ctx, mirrorOf(row), remote)
	if err != nil {
		return fmt.Errorf("poll %s: %w", row.Repository, err)
	}
	cause := domain.Cause{Actor: domain.Actor{Kind: "timer", ID: "poll", Via: "internal"}, Policy: p.triggers.cfg.Policy}
	err = p.triggers.observe(ctx, row, cause, repository.SourcePoll, true, observed(refs))
	if err != nil {
		return fmt.Errorf("poll %s: %w", row.Repository, err)
	}
	p.mu.Lock()
	// What was advertised, not what was fetched a moment later: if they differ, the next
	// look finds a difference and fetches again.
	p.seen[row.Repository] = digest
	p.brought[row.Repository]++
	tidy := p.brought[row.Repository]%maintainEvery == 0
	p.mu.Unlock()
	if tidy && p.cfg.Maintain != nil {
		if err := p.cfg.Maintain(ctx, mirrorOf(row)); err != nil {
			return fmt.Errorf("poll %s: %w", row.Repository, err)
		}
	}
	return nil
}

func digestOf(seen scm.Advertisement) domain.Digest {
	var text []byte
	for _, ref := range seen.Refs {
		text = fmt.Appendf(text, "%s %s\n", ref.Commit, ref.Name)
	}
	return domain.DigestOf(text)
}
