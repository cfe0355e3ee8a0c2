package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// acks collects what one exchange acknowledges, an entry per attempt and epoch, in the
// order in which attempts were first named.
type acks struct {
	byID  map[string]*runnerv1.Ack
	order []*runnerv1.Ack
	later time.Duration // when to come back with what was not taken; 0: at once
}

func newAcks() *acks { return &acks{byID: map[string]*runnerv1.Ack{}} }

func (a *acks) of(att domain.AttemptID, epoch uint64) *runnerv1.Ack {
	id := fmt.Sprintf("%s/%d", att, epoch)
	if a.byID[id] == nil {
		a.byID[id] = &runnerv1.Ack{Attempt: string(att), Epoch: epoch}
		a.order = append(a.order, a.byID[id])
	}
	return a.byID[id]
}

// refuse tells the runner to forget everything of the attempt.
func (a *acks) refuse(att domain.AttemptID, epoch uint64, r *domain.Rejection) {
	ack := a.of(att, epoch)
	ack.Refused, ack.Message = string(r.Code), r.Message
}

// fail sorts a failed command: an answer that trying again can't change is a refusal;
// for a fault there is no acknowledgement, so the runner sends it again.
func (a *acks) fail(att domain.AttemptID, epoch uint64, err error) {
	var r *domain.Rejection
	if !errors.As(err, &r) {
		return
	}
	switch r.Code {
	case domain.CodeNotOwner, domain.CodeStorageFull, domain.CodeStreamQuarantined, domain.CodeHistoryLost,
		domain.CodeUpgradeUnfinished:
		return
	}
	if r.Code == domain.CodeAttemptNotFound || r.Code == domain.CodeNotFound {
		// A runner is told the same of an attempt that is not there and of one that is not
		// its own.
		r = domain.Reject(domain.CodeLeaseEpochStale, "The lease is not the current one.")
	}
	a.refuse(att, epoch, r)
}

func (a *acks) list() []*runnerv1.Ack {
	return slices.DeleteFunc(a.order, func(k *runnerv1.Ack) bool {
		return k.GetProgress() == 0 && !k.GetResult() && k.GetChunks() == 0 && k.GetRefused() == ""
	})
}

func progressCommand(cause domain.Cause, p *runnerv1.Progress, now time.Time) run.ReportProgress {
	return run.ReportProgress{Cause: cause, Attempt: domain.AttemptID(p.GetAttempt()), Epoch: p.GetEpoch(),
		Observed: domain.Observed(p.GetObserved()), Steps: steps(p.GetSteps()), At: now}
}

func resultCommand(cause domain.Cause, r *runnerv1.Result) run.ReportResult {
	return run.ReportResult{Cause: cause, Attempt: domain.AttemptID(r.GetAttempt()), Epoch: r.GetEpoch(),
		Digest: domain.Digest(r.GetDigest()), Outcome: domain.Outcome(r.GetOutcome()),
		Class: domain.FailureClass(r.GetFailureClass()), Message: r.GetMessage(), Steps: steps(r.GetSteps()),
		LogEnd: r.GetLogEnd(), Effect: domain.SideEffect(r.GetEffect()), Outputs: outputs(r.GetOutputs())}
}

func outputs(in []*runnerv1.Output) []run.Output {
	var out []run.Output
	for _, o := range in {
		out = append(out, run.Output{Name: o.GetName(), Value: o.GetValue()})
	}
	return out
}

// offload puts values that are too large for an event into objects.
func (d *Dispatcher) offload(ctx context.Context, tenant domain.TenantID, c run.Command) (run.Command, error) {
	r, ok := c.(run.ReportResult)
	if !ok || d.cfg.Keep == nil {
		return c, nil
	}
	r.Outputs = slices.Clone(r.Outputs)
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if len(o.Value) <= run.OutputBytesMax {
			continue
		}
		digest, err := d.cfg.Keep(ctx, tenant, []byte(o.Value))
		if err != nil {
			return c, fmt.Errorf("keep output %s: %w", o.Name, err)
		}
		*o = run.Output{Name: o.Name, Digest: digest, Size: int64(len(o.Value))}
	}
	return r, nil
}

func steps(in []*runnerv1.Step) []run.Step {
	out := make([]run.Step, 0, len(in))
	for _, s := range in {
		out = append(out, run.Step{Index: int(s.GetIndex()), Outcome: domain.Outcome(s.GetOutcome()),
			Conclusion: domain.Outcome(s.GetConclusion()), ExitCode: int(s.GetExitCode()),
			Started: micros(s.GetStartedUs()), Finished: micros(s.GetFinishedUs()), Message: s.GetMessage()})
	}
	return out
}

// micros reads a runner's wall clock; 0 is "not yet".
func micros(us int64) time.Time {
	if us <= 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
