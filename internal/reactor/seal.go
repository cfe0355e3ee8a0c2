package reactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// Gateway is what the sealer needs of the log gateway.
type Gateway interface {
	Seal(
		ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID, class domain.Class, end uint64,
	) (logs.Ref, error)
	Through(tenant domain.TenantID, attempt domain.AttemptID) uint64
	Sealed(ctx context.Context, tenant domain.TenantID, attempt domain.AttemptID) (bool, error)
	Recorded(tenant domain.TenantID, attempt domain.AttemptID, ref logs.Ref)
	Live() []logs.LiveLog
}

// History is what the sealer needs of the engine.
type History interface {
	engine.Submitter
	Read(ctx context.Context, tenant domain.TenantID, id domain.StreamID, events bool) (engine.History, error)
}

// Patience is how long the sealer waits for chunks that a report counted and that have
// not arrived. After it the log is sealed with a gap: a result is worth more than a line.
const Patience = 10 * time.Minute

// sealAgain is the pause before a log is tried again that could not be sealed.
const sealAgain = 3 * time.Second

// sealsAtOnce bounds seals under way. Nearly all of them wait: for an object that they share, then
// for the commit of the record. With both a quarter of a second, that is eight thousand a second;
// the gateway bounds how many it compacts at the same time.
const sealsAtOnce = 2048

// What history knows as sealed may be live in the gateway all the same: the server died, or
// the logs moved, between the record and the removal of the segments. Such logs are looked for
// whenever a partition or the logs came here, and every sweepEvery, sweepMost at a time.
const (
	sweepEvery = time.Minute
	sweepMost  = 1000
)

// Sealer closes the log of every attempt that has an outcome, and tells the run where the
// log is. It works beside its row feed, so that one slow log never holds up another.
type Sealer struct {
	engine  History
	gateway Gateway
	log     *slog.Logger
	now     func() time.Time
	host    host.Host
	slots   *host.Seats

	mu   sync.Mutex
	busy map[domain.AttemptID]bool
	due  map[domain.AttemptID]due // not sealed yet, as far as events tell
	// open are the attempts whose logs may still grow or are due, with their partitions: what
	// else is live in the gateway is looked up.
	open     map[domain.AttemptID]domain.PartitionID
	sweeping bool
	looked   domain.AttemptID // where the last sweep ended
	follows  bool             // seals only while the logs are held here
	held     bool
}

// NewSealer makes a sealer. Register it as the engine's observer: sealing is driven by
// state (an attempt ended, its log is not sealed), so a sweep repairs what was missed.
func NewSealer(e History, g Gateway, log *slog.Logger, now func() time.Time) *Sealer {
	s := &Sealer{engine: e, gateway: g, log: log, now: now, busy: map[domain.AttemptID]bool{},
		due: map[domain.AttemptID]due{}, open: map[domain.AttemptID]domain.PartitionID{}}
	return s.On(host.Machine())
}

// On makes the sealer run on another host than the machine. Call it before it is registered.
func (s *Sealer) On(h host.Host) *Sealer {
	s.host, s.slots = h, host.NewSeats(h, sealsAtOnce)
	return s
}

// Follow makes a sealer that seals nothing before Hold says that the logs are held here, for
// servers that take turns. Call it before it is registered.
func (s *Sealer) Follow() *Sealer {
	s.follows = true
	return s
}

// Hold tells a sealer that follows whether this server holds the logs. Then everything that
// is due begins.
func (s *Sealer) Hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = on
	if !on {
		return
	}
	s.look()
	for _, id := range slices.Sorted(maps.Keys(s.due)) {
		s.begin(s.due[id])
	}
}

// due is an attempt whose log must be sealed.
type due struct {
	tenant    domain.TenantID
	partition domain.PartitionID
	attempt   domain.AttemptID
	class     domain.Class
	end       uint64
	ended     time.Time
}

// Loaded implements engine.Observer.
func (s *Sealer) Loaded(live engine.Live) {
	st, ok := live.State.(*run.State)
	if !ok {
		return
	}
	for i, j := range st.Jobs {
		for n := range j.Attempts {
			a, id := &j.Attempts[n], st.AttemptID(i, j.Attempts[n].Number)
			switch {
			case a.Declined:
				s.forget(id)
			case a.Log != nil:
				s.sealed(live.Tenant, id, *a.Log)
			case a.Outcome == domain.OutcomeNone:
				s.grows(id, live.Partition)
			default:
				s.take(due{live.Tenant, live.Partition, id, st.Request.Class, endOf(a.Report, a.LogEnd), a.ConcludedAt})
			}
		}
	}
}

// Committed implements engine.Observer.
func (s *Sealer) Committed(rows []engine.Committed) {
	for i := range rows {
		st, ok := rows[i].State.(*run.State)
		if !ok {
			continue
		}
		for _, e := range rows[i].Events {
			switch e := e.(type) {
			case *run.LeaseGranted:
				s.grows(st.AttemptID(e.Job, e.Attempt), rows[i].Partition)
			case *run.LogSealed:
				s.sealed(rows[i].Tenant, st.AttemptID(e.Job, e.Attempt), e.Log)
			case *run.AttemptConcluded:
				id := st.AttemptID(e.Job, e.Attempt)
				if st.Jobs[e.Job].Attempts[e.Attempt-1].Declined {
					s.forget(id)
					continue
				}
				s.take(due{rows[i].Tenant, rows[i].Partition, id, st.Request.Class, endOf(e.Report, e.LogEnd), e.At})
			}
		}
	}
}

// Ready implements engine.Observer.
func (s *Sealer) Ready(domain.PartitionID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
}

// Lost implements engine.Observer.
func (s *Sealer) Lost(p domain.PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.due, func(_ domain.AttemptID, d due) bool { return d.partition == p })
	maps.DeleteFunc(s.open, func(_ domain.AttemptID, at domain.PartitionID) bool { return at == p })
}

// grows notes an attempt whose log may grow.
func (s *Sealer) grows(attempt domain.AttemptID, at domain.PartitionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[attempt] = at
}

// forget notes that an attempt will have no log.
func (s *Sealer) forget(attempt domain.AttemptID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, attempt)
}

// sealed notes that a log needs nothing more.
func (s *Sealer) sealed(tenant domain.TenantID, attempt domain.AttemptID, log run.Log) {
	s.mu.Lock()
	delete(s.due, attempt)
	delete(s.open, attempt)
	s.mu.Unlock()
	s.gateway.Recorded(tenant, attempt, refOf(&log))
}

// refOf is the gateway's reference to a log that a run knows of.
func refOf(l *run.Log) logs.Ref {
	return logs.Ref{Object: l.Object, Offset: l.Offset, Length: l.Length, Digest: l.Digest, Bytes: l.Bytes,
		Lines: l.Lines, Truncated: l.Truncated, Gaps: l.Gaps}
}

// Recorded looks in history for the reference to an attempt's sealed log: nil when there is
// none, also when there is no such attempt. It is for logs.Config.
func Recorded(ctx context.Context, h History, tenant domain.TenantID, attempt domain.AttemptID) (*logs.Ref, error) {
	r, _, _, ok := attempt.Split()
	if !ok {
		return nil, nil
	}
	history, err := h.Read(ctx, tenant, r.Stream(), false)
	var none *domain.Rejection
	switch {
	case errors.As(err, &none) && none.Code == domain.CodeNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	}
	st, ok := history.State.(*run.State)
	if !ok {
		return nil, nil
	}
	_, a, found := st.AttemptByID(attempt)
	if !found || a.Log == nil {
		return nil, nil
	}
	ref := refOf(a.Log)
	return &ref, nil
}

// Start looks now and then for logs that history knows as sealed, until ctx ends.
func (s *Sealer) Start(ctx context.Context) {
	s.host.Go(func() {
		for host.Pause(ctx, s.host, sweepEvery) {
			s.mu.Lock()
			s.look()
			s.mu.Unlock()
		}
	})
}

// look begins a sweep, if none is under way. mu is held.
func (s *Sealer) look() {
	if s.sweeping || s.follows && !s.held {
		return
	}
	s.sweeping = true
	s.host.Go(s.sweep)
}

// sweep asks history for live logs of which nothing here knows why they are live.
func (s *Sealer) sweep() {
	ctx, cancel := host.Within(context.Background(), s.host, time.Minute)
	defer cancel()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sweeping = false
	}()
	live := s.gateway.Live()
	s.mu.Lock()
	live = slices.DeleteFunc(live, func(l logs.LiveLog) bool { _, known := s.open[l.Attempt]; return known })
	from := slices.IndexFunc(live, func(l logs.LiveLog) bool { return l.Attempt > s.looked })
	if from > 0 { // behind those of the last sweep: some may be unknown to history for good
		live = slices.Concat(live[from:], live[:from])
	}
	live = live[:min(len(live), sweepMost)]
	if len(live) > 0 {
		s.looked = live[len(live)-1].Attempt
	}
	s.mu.Unlock()
	for _, l := range live {
		ref, err := Recorded(ctx, s.engine, l.Tenant, l.Attempt)
		if err != nil {
			s.log.Warn("log not looked up", "attempt", l.Attempt, "error", err)
		}
		if ref != nil {
			s.gateway.Recorded(l.Tenant, l.Attempt, *ref)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// endOf is the last sequence of a log: unknown when no report came.
func endOf(report domain.Digest, end uint64) uint64 {
	if report == "" {
		return logs.SequenceUnknown
	}
	return end
}

// take notes what is due and begins with it where the logs are held.
func (s *Sealer) take(d due) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[d.attempt], s.open[d.attempt] = d, d.partition
	if !s.follows || s.held {
		s.begin(d)
	}
}

// begin starts sealing unless it is under way or will be tried again soon: however often
// sweeps ask, a log that can't be sealed has one attempt or one timer. mu is held.
func (s *Sealer) begin(d due) {
	if s.busy[d.attempt] {
		return
	}
	s.busy[d.attempt] = true
	s.host.Go(func() {
		s.slots.Take(context.Background())
		err := s.seal(d)
		s.slots.Leave()
		if err != nil {
			s.log.Warn("log not sealed yet", "attempt", d.attempt, "error", err)
			s.host.After(sealAgain, func() { s.again(d.attempt) })
			return
		}
		s.mu.Lock()
		delete(s.busy, d.attempt)
		s.mu.Unlock()
	})
}

// again begins once more with a log that could not be sealed, if that is still due here.
func (s *Sealer) again(attempt domain.AttemptID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, attempt)
	if d, still := s.due[attempt]; still && (!s.follows || s.held) {
		s.begin(d)
	}
}

// seal closes one log. What fails now is tried again, and found again by the next sweep.
func (s *Sealer) seal(d due) error {
	ctx, cancel := host.Within(context.Background(), s.host, time.Minute)
	defer cancel()
	if d.end != logs.SequenceUnknown && s.gateway.Through(d.tenant, d.attempt) < d.end && s.now().Sub(d.ended) < Patience {
		// An earlier release may have sealed it and died: that leaves nothing to wait for.
		sealed, err := s.gateway.Sealed(ctx, d.tenant, d.attempt)
		if err != nil {
			return err
		}
		if !sealed {
			return s.later(ctx, d)
		}
	}
	ref, err := s.gateway.Seal(ctx, d.tenant, d.attempt, d.class, d.end)
	if err != nil {
		return fmt.Errorf("seal log of %s: %w", d.attempt, err)
	}
	_, err = s.engine.Submit(ctx, engine.Envelope{Tenant: d.tenant, Partition: d.partition,
		Stream: d.attempt.Run().Stream(), Command: run.RecordLog{
			Cause:   domain.Cause{Actor: domain.Actor{Kind: "reactor", ID: "sealer", Via: "internal"}},
			Attempt: d.attempt, Log: run.Log{Object: ref.Object, Offset: ref.Offset, Length: ref.Length, Digest: ref.Digest,
				Bytes: ref.Bytes, Lines: ref.Lines, Truncated: ref.Truncated, Gaps: ref.Gaps}}})
	if err != nil {
		return fmt.Errorf("record log of %s: %w", d.attempt, err)
	}
	return nil
}

// later gives missing chunks a moment: they come with the runner's next exchange. If they
// don't, the next sweep asks again.
func (s *Sealer) later(ctx context.Context, d due) error {
	for range 20 {
		if !host.Pause(ctx, s.host, 100*time.Millisecond) {
			return ctx.Err()
		}
		if s.gateway.Through(d.tenant, d.attempt) >= d.end {
			return s.seal(d)
		}
	}
	return errors.New("chunks that the report counted have not arrived")
}
