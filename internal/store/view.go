package store

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// RunRow is a run as lists show it.
type RunRow struct {
	Tenant         domain.TenantID
	Partition      domain.PartitionID
	Run            domain.RunID
	Number         uint64 // per workflow of a repository, from 1
	Repository     domain.RepositoryID
	RepositoryName string
	Workflow       string // path
	WorkflowName   string
	Event          string // "push", "workflow_dispatch"
	Ref            string // full ref, or "" for a captured tree
	Commit         string
	Title          string // first line of the commit message
	Actor          string
	State          string // "queued", "running", "attention", "concluded"
	Desired        domain.Desired
	Outcome        domain.Outcome
	Round          int
	Created        time.Time
	Concluded      time.Time // zero: not yet
}

// RunQuery filters runs. Zero fields don't filter.
type RunQuery struct {
	Tenant     domain.TenantID // required
	Repository domain.RepositoryID
	Workflow   string
	Ref        string
	Outcome    domain.Outcome
	State      string
	Before     domain.RunID // runs older than this one (keyset paging)
	Limit      int          // 1 to 500
}

// RepositoryRow is a registered repository.
type RepositoryRow struct {
	Tenant        domain.TenantID
	Partition     domain.PartitionID
	Repository    domain.RepositoryID
	Name          string // unique in the tenant
	URL           string // where the server fetches from; "" when clients push to it
	DefaultBranch string
	Registered    time.Time
	Poll          bool // the server polls its branches
}

// RunnerRow is a registered runner.
type RunnerRow struct {
	Tenant     domain.TenantID
	Pool       domain.PoolID
	Runner     domain.RunnerID
	Name       string
	Labels     []string
	Capacity   int
	Isolation  string
	Version    string
	Registered time.Time
	Removed    time.Time // zero: registered
}
