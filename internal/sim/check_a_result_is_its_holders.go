package sim

import (
	"fmt"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [LEASE-5].
const checkHolder = "a committed result is what the holder of the lease reported, and nobody else hears a yes"

// resultIsItsHolders notes what honest runners say, when they say it. What is committed must
// be among that, said by whom the lease was granted to, under its epoch.
func resultIsItsHolders(w *world) checker {
	said := map[string]bool{}
	type lease struct {
		runner domain.RunnerID
		epoch  uint64
	}
	leases := map[domain.AttemptID]lease{}
	name := func(id domain.AttemptID, l lease, report string) string {
		return fmt.Sprintf("%s %d %s %s", id, l.epoch, l.runner, report)
	}
	yes := func(m *machine, what, attempt string, epoch uint64) {
		if l := leases[domain.AttemptID(attempt)]; l != (lease{domain.RunnerID(m.id.runner), epoch}) {
			w.violation(checkHolder, "%s heard that its %s of %s epoch %d is taken, and the lease is %+v",
				m.name, what, attempt, epoch, l)
		}
	}
	return checker{
		sentence: checkHolder,
		said: func(m *machine, req *runnerv1.ExchangeRequest) {
			for _, r := range req.GetResults() {
				by := lease{domain.RunnerID(m.id.runner), r.GetEpoch()}
				said[name(domain.AttemptID(r.GetAttempt()), by, r.GetDigest())] = true
			}
		},
		told: func(m *machine, _ *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse) {
			for _, r := range resp.GetRenewals() {
				if r.GetLive() {
					yes(m, "renewal", r.GetAttempt(), r.GetEpoch())
				}
			}
			for _, a := range resp.GetAcks() {
				if a.GetRefused() == "" {
					yes(m, "report", a.GetAttempt(), a.GetEpoch())
				}
			}
		},
		event: func(e *seen) {
			switch event := e.event.(type) {
			case *run.LeaseGranted:
				leases[e.attempt()] = lease{event.Runner, event.Epoch}
			case *run.AttemptConcluded:
				if l := leases[e.attempt()]; event.Report != "" && !said[name(e.attempt(), l, string(event.Report))] {
					w.violation(checkHolder, "%s is committed as %s by report %s, which its holder %+v never gave",
						e.attempt(), event.Outcome, event.Report, l)
				}
			}
		},
	}
}
