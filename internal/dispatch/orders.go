package dispatch

import (
	"context"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/manifest"
)

// answerBytes is how much of manifests goes into one answer: runners read no more than 64 MiB of it.
const answerBytes = 32 << 20

// tell puts leases into an answer, with their manifests, and says whether some are left to be told
// later: one answer has room for so much, and what a manifest rests on may be away for a moment.
// A runner that takes batches gets one signature for all of them: to make one costs more than a
// manifest, and to verify one twice that.
func (d *Dispatcher) tell(
	ctx context.Context, leases []lease, p *Poll, res *runnerv1.ExchangeResponse,
) (later bool) {
	var payloads [][]byte
	var whole []lease
	bytes := 0
	for _, l := range leases {
		payload, declined := d.write(ctx, l)
		if bytes += len(payload); bytes > answerBytes && len(whole) > 0 {
			later = true
			break
		}
		if later = later || payload == nil && !declined; payload != nil {
			payloads, whole = append(payloads, payload), append(whole, l)
		}
	}
	batches := p.batches && len(payloads) > 1 && len(payloads) <= manifest.BatchMax
	var batch *runnerv1.Batch
	if batches {
		digests := manifest.Digests(payloads)
		id, signature := d.cfg.Signer.Sign(manifest.Statement(digests))
		batch = &runnerv1.Batch{Digests: digests, KeyId: id, Signature: signature}
	}
	for i, l := range whole {
		told := &runnerv1.Lease{Attempt: string(l.attempt), Epoch: l.epoch, Slot: string(l.slot), Manifest: payloads[i]}
		if !batches {
			told.KeyId, told.Signature = d.cfg.Signer.Sign(payloads[i])
		}
		l, ok := d.promise(ctx, l)
		if !ok {
			later = true
			continue // told when it can be
		}
		// The runner counts from when it asked, which is not after the poll was taken in: what the
		// poll has waited since is not taken from the lease.
		asked := d.now().Add(p.began - d.cfg.Host.Elapsed())
		told.LeaseMs, told.AbandonMs = left(l.until, asked), left(l.abandonBy, asked)
		res.Leases, res.Batch = append(res.Leases, told), batch
	}
	return later
}

// write writes the manifest of a lease. One that can never be written is declined on the
// runner's behalf, with the reason; one that can't be written now has neither.
func (d *Dispatcher) write(ctx context.Context, l lease) (payload []byte, declined bool) {
	m, err := d.cfg.Manifests.Build(ctx, Order{Tenant: l.tenant, Attempt: l.attempt, Epoch: l.epoch,
		Runner: l.runner, Pool: l.pool, Slot: l.slot, Until: l.until, Brief: l.brief})
	if err == nil {
		if payload, err = m.Encode(); err == nil {
			return payload, false
		}
	}
	d.cfg.Log.Warn("manifest could not be built", "attempt", l.attempt, "error", err)
	if r, ok := domain.AsRejection(err); ok {
		_, err := d.cfg.Engine.Submit(ctx, engine.Envelope{Tenant: l.tenant, Partition: l.partition,
			Stream: streamOf(l.attempt), Command: run.DeclineLease{Cause: internal("dispatch"), Attempt: l.attempt,
				Epoch: l.epoch, Reason: r.Message}})
		if err != nil {
			d.cfg.Log.Warn("lease could not be declined", "attempt", l.attempt, "error", err)
		}
		return nil, err == nil
	}
	return nil, false
}
