package dispatch

import (
	"context"
	"errors"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// Logs is what dispatch needs of the log gateway.
type Logs interface {
	Append(ctx context.Context, chunks []logs.Chunk) ([]logs.Ack, error)
}

// A confused runner must not fill a run's history: the first refusals of an attempt are
// recorded one by one, further ones in batches.
const (
	refusalsSingle  = 10
	refusalsBatch   = 100
	refusalsTracked = 10_000 // attempts whose refusals are counted; above it counting begins anew
)

// closingMax is how long the last chunks of an attempt that has ended are taken where
// servers take turns. It is shorter than the sealer's patience: a sealer that lost the logs
// in the middle of its work must not leave out what somebody has acknowledged meanwhile.
const closingMax = 9 * time.Minute

// uploadChunks hands the chunks of current leases to the gateway and acknowledges what is
// durable. A gateway that is away is no refusal: the runner keeps its chunks. One that has enough
// for now says when to come back.
func (d *Dispatcher) uploadChunks(ctx context.Context, who agent, in []*runnerv1.Chunk, acks *acks) error {
	if len(in) == 0 {
		return nil
	}
	allowed := map[domain.AttemptID]permit{}
	highest := map[domain.AttemptID]uint64{}
	var chunks []logs.Chunk
	for _, c := range in {
		att := domain.AttemptID(c.GetAttempt())
		p, asked := allowed[att]
		if !asked {
			p = d.permit(ctx, who, att, c.GetEpoch(), acks)
			allowed[att] = p
		}
		if p.epoch != c.GetEpoch() || !p.ok {
			continue
		}
		if p.closed && c.GetSequence() > p.end {
			continue
		}
		highest[att] = max(highest[att], c.GetSequence())
		chunks = append(chunks, logs.Chunk{Tenant: p.tenant, Attempt: att, Epoch: c.GetEpoch(), Sequence: c.GetSequence(),
			Step: c.GetStep(), Stream: stream(c.GetStream()), At: time.UnixMicro(c.GetAtUs()).UTC(), Data: c.GetData(),
			Checksum: c.GetChecksum(), Mark: c.GetMark(), Dropped: c.GetDroppedBytes(),
			Ended: p.closed})
	}
	if len(chunks) == 0 {
		return nil
	}
	done, err := d.cfg.Logs.Append(ctx, chunks)
	if errors.Is(err, logs.ErrNotHeld) {
		// They open here in a moment, or elsewhere: the runner says all of it again at once.
		return errNotLeader
	}
	var busy *logs.Busy
	switch {
	case errors.As(err, &busy):
		acks.later = max(acks.later, busy.After)
	case err != nil:
		d.cfg.Log.Warn("log chunks not taken", "runner", who.Name, "error", err)
	}
	for _, a := range done {
		ack := acks.of(a.Attempt, a.Epoch)
		ack.Chunks = max(ack.Chunks, a.Through)
		switch {
		case errors.As(a.Refused, &busy):
			acks.later = max(acks.later, busy.After)
		case errors.Is(a.Refused, logs.ErrSealed), errors.Is(a.Refused, logs.ErrInvalid):
			// The log is complete without it, or it can never be taken: sending it again
			// would go on for ever.
			ack.Chunks = max(ack.Chunks, highest[a.Attempt])
			d.cfg.Log.Warn("log chunks dropped", "attempt", a.Attempt, "error", a.Refused)
		}
	}
	return nil
}

// stream never lets a number wrap into a valid one; 0 is refused by the gateway.
func stream(n uint32) uint8 {
	if n > uint32(logs.StreamRunner) {
		return 0
	}
	return uint8(n)
}

// permit says whether an attempt's chunks may be taken.
type permit struct {
	tenant domain.TenantID
	epoch  uint64
	ok     bool
	closed bool   // the attempt has an outcome: only what its report counted may come
	end    uint64 // then: the last sequence
}

// permit decides by memory, else by the store. A stale epoch is refused, and the run
// keeps the evidence.
func (d *Dispatcher) permit(ctx context.Context, who agent, att domain.AttemptID, epoch uint64, acks *acks) permit {
	d.mu.Lock()
	l, c := d.board.leases[att], d.board.closing[att]
	d.mu.Unlock()
	switch {
	case l != nil && l.runner == who.Runner.Runner && l.epoch == epoch:
		return permit{tenant: l.tenant, epoch: epoch, ok: true}
	case c != nil && d.closes(c.ended):
		return permit{}
	case c != nil && c.runner == who.Runner.Runner && c.epoch == epoch && c.end > 0:
		return permit{tenant: c.tenant, epoch: epoch, ok: true, closed: true, end: c.end}
	}
	at, err := d.find(ctx, who, att)
	if err != nil {
		acks.fail(att, epoch, err)
		return permit{}
	}
	if !at.sure {
		return permit{}
	}
	h, err := d.cfg.Engine.Read(ctx, at.tenant, streamOf(att), false)
	if err != nil {
		acks.fail(att, epoch, err)
		return permit{}
	}
	s := h.State.(*run.State)
	_, a, found := s.AttemptByID(att)
	if found && a.Epoch == epoch && a.Runner == who.Runner.Runner {
		if a.Outcome == domain.OutcomeNone {
			return permit{tenant: at.tenant, epoch: epoch, ok: true}
		}
		switch {
		case a.LogEnd == 0:
		case a.Log != nil:
			// A repeat of what the sealed log has: the acknowledgement was lost.
			acks.of(att, epoch).Chunks = a.LogEnd
			return permit{}
		case d.closes(a.ConcludedAt):
			return permit{}
		default:
			return permit{tenant: at.tenant, epoch: epoch, ok: true, closed: true, end: a.LogEnd}
		}
	}
	d.refuseAccess(ctx, at, att, epoch, run.RefusedChunk, "a log chunk came with a lease that is not the current one")
	acks.refuse(att, epoch, domain.Reject(domain.CodeLeaseEpochStale, "The lease is not the current one."))
	return permit{}
}

// closes says whether a log may be about to be sealed, with or without what comes now: then
// nothing is taken and nothing acknowledged.
func (d *Dispatcher) closes(ended time.Time) bool {
	return d.cfg.Follow && d.now().Sub(ended) > closingMax
}

// refuseAccess leaves evidence of a refused caller in the run's history.
func (d *Dispatcher) refuseAccess(
	ctx context.Context,
	at place,
	att domain.AttemptID,
	epoch uint64,
	what, message string,
) {
	d.refused(ctx, at, att, epoch, what, message, 1)
}

// refused counts a refusal. single is 1 when each of the first ones is to be recorded here, and
// 0 when the run has done so.
//
// tidy:long what is recorded, passed from the two places that know it
func (d *Dispatcher) refused(
	ctx context.Context,
	at place,
	att domain.AttemptID,
	epoch uint64,
	what, message string,
	single uint64,
) {
	d.mu.Lock()
	if len(d.refusals) > refusalsTracked {
		clear(d.refusals)
	}
	d.refusals[att]++
	n, count := d.refusals[att], single
	d.mu.Unlock()
	switch {
	case n <= refusalsSingle && single == 0:
		return
	case n > refusalsSingle && n%refusalsBatch != 0:
		return // counted here, recorded with the batch
	case n == refusalsBatch:
		count = refusalsBatch - refusalsSingle
	case n > refusalsSingle:
		count = refusalsBatch
	}
	_, err := d.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: at.tenant, Partition: at.partition, Stream: streamOf(att),
		Command: run.RefuseAccess{
			Cause:   internal("dispatch"),
			Attempt: att,
			Epoch:   epoch,
			What:    what,
			Message: message,
			Count:   count,
		}})
	if err != nil {
		d.cfg.Log.Warn("refusal could not be recorded", "attempt", att, "what", what, "error", err)
	}
}

// MayFetch says whether an attempt's token is alive; a refused one leaves evidence. It is
// the injected liveness of attempt tokens.
func (d *Dispatcher) MayFetch(ctx context.Context, tenant domain.TenantID, att domain.AttemptID, epoch uint64) bool {
	d.mu.Lock()
	l := d.board.leases[att]
	// Memory that follows another server's commits is a moment old, and that may be enough
	// for a token to live longer than its lease: then the store is asked.
	live := !d.cfg.Follow && l != nil && l.tenant == tenant && l.epoch == epoch
	d.mu.Unlock()
	if live {
		return true
	}
	r, _, _, ok := att.Split()
	if !ok {
		return false
	}
	// The store is asked where the run lives, too: memory may be loading.
	p, err := d.cfg.Locate(ctx, tenant, r)
	if err != nil {
		return false
	}
	at := place{tenant, p, true}
	h, err := d.cfg.Engine.Read(ctx, at.tenant, streamOf(att), false)
	if err != nil {
		return false
	}
	if run.MayAct(h.State.(*run.State), att, epoch) == nil {
		return true
	}
	d.refuseAccess(ctx, at, att, epoch, run.RefusedFetch, "a token of a lease that is not the current one was presented")
	return false
}
