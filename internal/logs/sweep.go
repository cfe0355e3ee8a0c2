package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/host"
)

// SweepConfig is what a Sweeper works by.
type SweepConfig struct {
	Keep Keep
	// Now is the clock that logs are sealed by.
	Now  func() time.Time
	Host host.Host // nil is the machine
	Log  *slog.Logger
	// Removed, if set, hears how many objects were removed, and their bytes.
	Removed func(objects int, bytes int64)
}

// Sweeper removes sealed logs that are older than they are kept. It works where the logs are
// held, lot by lot: it writes down that a lot is removed, then removes its objects. What a
// crash leaves of a lot is removed by the next sweep.
type Sweeper struct {
	store  blob.Store
	holder *Holder
	cfg    SweepConfig
}

// NewSweeper makes a sweeper that does nothing by itself.
func NewSweeper(store blob.Store, holder *Holder, cfg SweepConfig) *Sweeper {
	cfg.Host = host.Or(cfg.Host)
	return &Sweeper{store, holder, cfg}
}

// Run sweeps every hour that the logs are held here, until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	if !s.cfg.Keep.Ends() {
		return
	}
	for pause := sweepFirst; host.Pause(ctx, s.cfg.Host, pause); {
		pause = sweepLook
		if !s.holder.valid() {
			continue
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("old logs were not removed; it is tried again", "error", err)
			continue
		}
		pause = sweepEvery
	}
}

// Sweep removes what is due now, a few days of each class at most.
func (s *Sweeper) Sweep(ctx context.Context) error {
	now := s.cfg.Now()
	trusted, err := s.clock(ctx, now)
	if err != nil {
		return err
	}
	if !trusted {
		s.cfg.Log.Info("no log is removed until the clock has been seen going on for a day", "now", now.UTC())
		return nil
	}
	for tenant := domain.TenantID(""); ; {
		if tenant, err = s.nextTenant(ctx, tenant); err != nil || tenant == "" {
			return err
		}
		for _, class := range classes {
			days := s.cfg.Keep.days(class)
			if days == 0 {
				continue
			}
			if err := s.class(ctx, tenant, class, days, now); err != nil {
				return err
			}
		}
	}
}

// clock notes that the clock was seen at this hour, and says whether it can be trusted with
// removing: it must have been seen again and again for the last day. So a clock that is set
// forward removes nothing for a day, in which somebody can notice, and nor does a policy that
// is set for the first time. Notes are objects: they outlive restarts and changes of the holder.
func (s *Sweeper) clock(ctx context.Context, now time.Time) (trusted bool, err error) {
	seen, err := s.store.List(ctx, clockPrefix, "", clockNotesMax)
	if err != nil {
		return false, fmt.Errorf("find when the clock was seen: %w", err)
	}
	begin := now // of the time up to now in which it was seen all the time
	for i := len(seen) - 1; i >= 0; i-- {
		at, err := time.Parse(hourForm, strings.TrimPrefix(seen[i].Key, clockPrefix))
		if err != nil || at.After(now) || now.Sub(at) > clockNotesKept {
			if err := s.store.Delete(ctx, seen[i].Key); err != nil {
				return false, fmt.Errorf("forget when the clock was seen: %w", err)
			}
			continue
		}
		if begin.Sub(at) <= clockGap {
			begin = at
		}
	}
	key := clockPrefix + now.UTC().Format(hourForm)
	if err := s.store.Put(ctx, key, strings.NewReader(""), 0); err != nil && !errors.Is(err, blob.ErrExists) {
		return false, fmt.Errorf("note that the clock was seen: %w", err)
	}
	return now.Sub(begin) >= clockTrial, nil
}

const (
	clockPrefix = "log-clock/"
	hourForm    = "2006010215"
)

// nextTenant is the first tenant with objects behind another one; "" when there is none. The
// few names that are no tenant's have no lots.
func (s *Sweeper) nextTenant(ctx context.Context, before domain.TenantID) (domain.TenantID, error) {
	after := ""
	if before != "" {
		after = string(before) + behind
	}
	found, err := s.store.List(ctx, "", after, 1)
	if err != nil {
		return "", fmt.Errorf("find tenants with logs: %w", err)
	}
	if len(found) == 0 {
		return "", nil
	}
	tenant, _, _ := strings.Cut(found[0].Key, "/")
	return domain.TenantID(tenant), nil
}

// behind makes of a folder's name a key behind all keys in it: it is the byte after the slash.
const behind = "0"

// class removes the lots of a class that are over, oldest first.
func (s *Sweeper) class(ctx context.Context, tenant domain.TenantID, class string, days int, now time.Time) error {
	after := ""
	for range sweepLots {
		found, err := s.store.List(ctx, lotsOf(tenant, class), after, 1)
		if err != nil {
			return fmt.Errorf("find old logs: %w", err)
		}
		if len(found) == 0 {
			return nil
		}
		l, ok := lotOf(found[0].Key)
		if !ok {
			s.cfg.Log.Warn("an object is in the way of removing old logs: it is no sealed log", "object", found[0].Key)
			return nil
		}
		if !l.over(now, days) {
			return nil // so is all that follows
		}
		if err := s.lot(ctx, l, days, now); err != nil {
			return fmt.Errorf("remove logs of class %s of day %s: %w", class, l.day, err)
		}
		after = strings.TrimSuffix(l.prefix(), "/") + behind
	}
	return nil
}

// lot removes the logs of a lot: the record first.
func (s *Sweeper) lot(ctx context.Context, l lot, days int, now time.Time) error {
	if s.holder.awaited(l) {
		return nil // history may still come to refer to it
	}
	if !s.holder.valid() {
		return ErrNotHeld
	}
	if err := l.record(ctx, s.store, days, now); err != nil {
		return err
	}
	objects, bytes := 0, int64(0)
	defer func() {
		if s.cfg.Removed != nil {
			s.cfg.Removed(objects, bytes)
		}
	}()
	for after := ""; ; {
		found, err := s.store.List(ctx, l.prefix(), after, sweepPage)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			break
		}
		for _, e := range found {
			if err := s.store.Delete(ctx, e.Key); err != nil {
				return err
			}
			objects, bytes, after = objects+1, bytes+e.Size, e.Key
		}
		if !host.Pause(ctx, s.cfg.Host, sweepRest) {
			return ctx.Err()
		}
		if !s.holder.valid() {
			return ErrNotHeld // whoever holds them now goes on
		}
	}
	s.cfg.Log.Info("removed old logs", "tenant", l.tenant, "class", l.class, "day", l.day, "kept_days", days,
		"objects", objects, "bytes", bytes)
	return nil
}

// valid reports whether the logs are held here, and this server may still speak for them.
func (h *Holder) valid() bool {
	g := h.current()
	return g != nil && g.config.Valid()
}

// awaited reports whether a log lies in the lot of which history does not know yet.
func (h *Holder) awaited(l lot) bool {
	g := h.current()
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, live := range g.lives {
		if live.ref == nil {
			continue
		}
		if at, ok := lotOf(live.ref.Object); ok && at == l {
			return true
		}
	}
	return false
}
