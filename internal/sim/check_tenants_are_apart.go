package sim

import (
	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [HIST-15].
const checkTenants = "nobody is given anything of another tenant"

// tenantsApart looks at what clients and runners are handed.
func tenantsApart(w *world) checker {
	of := map[domain.RunID]domain.TenantID{}
	return checker{
		sentence: checkTenants,
		event: func(e *seen) {
			if r, ok := e.event.(*run.RunRequested); ok {
				of[r.Request.Run] = r.Request.Tenant
				if r.Request.Tenant != e.history.tenant {
					w.violation(checkTenants, "%s of %s is stored as %s's", r.Request.Run, r.Request.Tenant, e.history.tenant)
				}
			}
		},
		promised: func(client string, tenant domain.TenantID, id domain.RunID) {
			if of[id] != "" && of[id] != tenant {
				w.violation(checkTenants, "%s asked for a run of %s, and was given %s of %s", client, tenant, id, of[id])
			}
		},
		told: func(m *machine, _ *runnerv1.ExchangeRequest, resp *runnerv1.ExchangeResponse) {
			for _, l := range resp.GetLeases() {
				id := domain.AttemptID(l.GetAttempt())
				if of[id.Run()] != w.tenantOf(m) {
					w.violation(checkTenants, "%s, a runner of %s, was given %s of %s", m.name, w.tenantOf(m), id, of[id.Run()])
				}
			}
		},
	}
}

// tenantOf is whose pool the machine's runner belongs to.
func (w *world) tenantOf(*machine) domain.TenantID { return w.tenants[0] }
