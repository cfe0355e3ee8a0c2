package dispatch

import (
	"maps"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
)

// Loaded implements engine.Observer: the whole truth about one live stream. It comes at
// take-over and again with every sweep; whatever memory lacks is repaired here.
func (d *Dispatcher) Loaded(live engine.Live) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch s := live.State.(type) {
	case *run.State:
		if d.loadRun(live, s) && d.swept[live.Stream] != "" {
			d.repairs++
			d.cfg.Log.Warn("reconciler gave waiting work its cause back", "stream", live.Stream)
		}
		if s.Concluded() {
			delete(d.swept, live.Stream) // only its logs are still to be sealed
		} else {
			d.swept[live.Stream] = live.Partition
		}
	case *pool.State:
		for _, id := range d.board.loadPool(live.Tenant, live.Partition, s) {
			d.wake(id)
		}
	}
	d.changed()
}

// loadRun brings heads, leases and closings of a run in line with its state. It says
// whether anything was missing.
func (d *Dispatcher) loadRun(live engine.Live, s *run.State) (repaired bool) {
	now := d.now()
	for i, j := range s.Jobs {
		if at := (jobKey{s.Request.Run, int32(i)}); j.State != run.StateReady {
			d.board.dropKey(at)
		} else if d.board.heads[at] == nil {
			repaired = d.board.addHead(headOf(live.Tenant, live.Partition, s, i)) || repaired
		}
		for n := range j.Attempts {
			a := &j.Attempts[n]
			att := s.AttemptID(i, a.Number)
			if a.Outcome != domain.OutcomeNone {
				d.board.dropLease(att)
				d.board.close(live.Tenant, live.Partition, att, a)
				continue
			}
			repaired = d.board.addLease(leaseOf(live, s, i, a), now) || repaired
			if a.Held {
				d.board.park(att)
			}
		}
	}
	return repaired
}

func headOf(tenant domain.TenantID, p domain.PartitionID, s *run.State, index int) head {
	return head{tenant: tenant, partition: p, repository: s.Request.Repository, run: s.Request.Run, index: index,
		class: s.Request.Class, tier: s.Request.Tier, runsOn: s.Skeleton(index).RunsOn, since: s.Jobs[index].ReadyAt}
}

func shareOf(tenant domain.TenantID, s *run.State) placement.Share {
	return placement.Share{Tenant: tenant, Repository: s.Request.Repository}
}

func leaseOf(live engine.Live, s *run.State, job int, a *run.Attempt) lease {
	l := lease{tenant: live.Tenant, partition: live.Partition, share: shareOf(live.Tenant, s),
		attempt: s.AttemptID(job, a.Number), epoch: a.Epoch, runner: a.Runner, pool: a.Pool, slot: a.Slot,
		brief: run.BriefOf(s, job, a), uncertain: a.Uncertain, parked: a.Held, lastSeen: a.LastSeen}
	if a.Desired == domain.DesiredCancel {
		l.stop = &stop{reason: string(a.Stop.Code), grace: a.GraceUntil, renewUntil: a.RenewUntil}
	}
	return l
}

// Committed implements engine.Observer.
func (d *Dispatcher) Committed(rows []engine.Committed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range rows {
		row := &rows[i]
		if s, ok := row.State.(*pool.State); ok {
			for _, id := range d.board.poolEvents(row.Tenant, row.Partition, s, row.Events) {
				d.wake(id)
			}
			continue
		}
		for _, e := range row.Events {
			if e, ok := e.(run.Event); ok {
				d.runEvent(row, domain.RunID(row.Stream.ID()), e)
			}
		}
	}
	if len(rows) > 0 { // of one partition, in order
		last := &rows[len(rows)-1]
		d.shown(last.Partition, uint64(last.Position))
	}
	d.changed()
}

// runEvent moves heads and leases along with a run.
func (d *Dispatcher) runEvent(row *engine.Committed, id domain.RunID, e run.Event) {
	now := d.now()
	job, att := jobKey{id, int32(e.JobIndex())}, domain.AttemptID("")
	if n := e.AttemptNumber(); n > 0 {
		att = id.Job(e.JobIndex()).Attempt(n)
	}
	switch e := e.(type) {
	case *run.JobReady:
		if s := row.State.(*run.State); s.Jobs[e.Job].State == run.StateReady {
			d.board.addHead(headOf(row.Tenant, row.Partition, s, e.Job))
		}
	case *run.JobConcluded, *run.JobHeld:
		d.board.dropKey(job)
	case *run.LeaseGranted:
		d.board.dropKey(job)
		s := row.State.(*run.State)
		d.board.addLease(lease{tenant: row.Tenant, partition: row.Partition, share: shareOf(row.Tenant, s), attempt: att,
			epoch: e.Epoch, runner: e.Runner, pool: e.Pool, slot: e.Slot,
			brief: run.BriefOf(s, e.Job, &s.Jobs[e.Job].Attempts[e.Attempt-1]), lastSeen: now}, now)
		d.wake(e.Runner)
	case *run.LeaseLapsed:
		if l := d.board.leases[att]; l != nil {
			l.uncertain, l.lapse = true, lapse{}
		}
	case *run.LeaseRegained:
		if l := d.board.leases[att]; l != nil {
			l.uncertain, l.lapse = false, lapse{}
			d.board.extend(l, now)
		}
	case *run.AttemptHeld:
		d.board.park(att)
	case *run.AttemptStopRequested:
		if l := d.board.leases[att]; l != nil {
			l.stop = &stop{reason: string(e.Reason.Code), grace: e.GraceUntil, renewUntil: e.RenewUntil}
			d.wake(l.runner)
		}
	case *run.AttemptConcluded:
		// Not by the lease: whoever read of the end in the store has dropped that already.
		a := &row.State.(*run.State).Jobs[e.Job].Attempts[e.Attempt-1]
		d.board.close(row.Tenant, row.Partition, att, a)
		d.board.dropLease(att)
		d.wake(a.Runner)
	case *run.LogSealed:
		delete(d.board.closing, att)
	case *run.RunConcluded:
		delete(d.swept, row.Stream)
	}
}

// Ready implements engine.Observer.
func (d *Dispatcher) Ready(p domain.PartitionID, _ bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.board.loaded(p)
	d.changed()
}

// Lost implements engine.Observer.
func (d *Dispatcher) Lost(p domain.PartitionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.board.forget(p)
	maps.DeleteFunc(d.swept, func(_ domain.StreamID, at domain.PartitionID) bool { return at == p })
}

var _ engine.Observer = (*Dispatcher)(nil)
