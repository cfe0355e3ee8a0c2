package sim

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [LEASE-9].
const checkTier = "a job gets no lease on a pool that does not accept its trust tier, or that is another tenant's"

// tiers are what the world's one pool accepts.
var tiers = []domain.Tier{domain.TierTrusted, domain.TierProtected}

func tierAccepted(w *world) checker {
	of := map[domain.StreamID]domain.Tier{}
	return checker{
		sentence: checkTier,
		event: func(e *seen) {
			switch event := e.event.(type) {
			case *run.RunRequested:
				of[e.history.id] = event.Request.Tier
			case *run.LeaseGranted:
				tier := of[e.history.id]
				if !slices.Contains(tiers, tier) || event.Pool != poolName || e.history.tenant != w.tenants[0] {
					w.violation(checkTier, "%s of tenant %s and tier %q got a lease on pool %s", e.attempt(), e.history.tenant,
						tier, event.Pool)
				}
			}
		},
	}
}
