// Package trigger turns a cause (a request, a push, a look at a remote) into a run: it
// resolves the commit once, reads the workflows at it, pins it, compiles the one that the
// event starts, stores what the run rests on, and only then asks the engine for the run.
//
// It is deliberately without any provider's wire form and without decisions about jobs:
// adapters bring a Request or a Push, and the core decides what follows from the run.
//
// Invariants: a run's plan and snapshot are durable before the run exists, and its commit
// is pinned; tier and class come from facts about the source, never from
// a workflow; a repeat of a cause is the run that there is; a cause that people wait for
// is refused with everything that is wrong, and one that nobody watches becomes a run
// that says so.
//
// Read next: internal/trigger/accept.go
package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// Engine is what this room needs of the engine.
type Engine interface {
	engine.Submitter
	// Earlier looks up what a key did, without acting.
	Earlier(ctx context.Context, tenant domain.TenantID, key engine.Key) (store.Key, bool, error)
	// Admits says why new work of a repository would be refused now; nil: nothing is known of.
	Admits(p domain.PartitionID, tenant domain.TenantID, of domain.RepositoryID, jobs int) *domain.Rejection
	// Read gives a stream's committed state.
	Read(ctx context.Context, tenant domain.TenantID, id domain.StreamID, events bool) (engine.History, error)
	// Route is the partition of a new repository.
	Route(tenant domain.TenantID, repository domain.RepositoryID) domain.PartitionID
	// Format is the event format that all servers read.
	Format() uint32
}

// Config is what a Triggers works with.
type Config struct {
	Engine Engine
	Views  store.Views
	Blobs  blob.Store
	Source scm.Source
	// NewID brings 16 fresh bytes that sort by time (a UUIDv7).
	NewID func() [16]byte
	// Now is the wall clock.
	Now func() time.Time
	// ServerURL is where people find this server; the github context has it.
	ServerURL string
	// ComponentSource is the address below which repositories are that nobody registered and workflows
	// use, like https://github.com/; "" is none.
	ComponentSource string
	// Policy is the version of the policy by which tiers and classes are given.
	Policy string
	Limits workflow.Limits
	// RunLimits are pinned in every run; zero fields mean the defaults.
	RunLimits run.Limits
	Log       *slog.Logger
	// Host is what work beside the caller runs on; nil is the machine.
	Host host.Host
}

// Triggers accepts causes. Its methods may be called from many goroutines.
type Triggers struct {
	cfg        Config
	gate       *gate
	remembered remembered
}

// PolicyVersion names the rules of this release by which tier and class are given.
const PolicyVersion = "builtin/1"

// New makes the room.
//
// Preconditions: all fields of cfg but ServerURL, Policy, Limits, Log and Host are set.
func New(cfg Config) *Triggers {
	if cfg.Policy == "" {
		cfg.Policy = PolicyVersion
	}
	if cfg.Limits == (workflow.Limits{}) {
		cfg.Limits = workflow.DefaultLimits()
	}
	cfg.Host = host.Or(cfg.Host)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Triggers{cfg: cfg, gate: newGate(cfg.Host)}
}

// Request asks for one run of one workflow.
//
// Trust: all fields but Tenant and Cause come from whoever may ask for runs.
type Request struct {
	Tenant     domain.TenantID
	Repository string            // id or name
	Event      string            // "": workflow_dispatch where declared, else push
	Ref        string            // short or in full; with Commit only a label
	Commit     string            // full id; "" means what Ref leads to now
	Workflow   string            // path or file name; "" when the event starts only one
	Inputs     map[string]string // of workflow_dispatch
	Title      string            // "" means the first line of the commit's message
	Captured   bool              // the commit is a working tree that a client captured
	Cause      domain.Cause
	// Key makes a repeat return the first run; nil means every request is a new run. An
	// empty Body is filled in from the request.
	Key *engine.Key
}

// Accepted is the run that a cause has.
type Accepted struct {
	Run      domain.RunID
	Repeat   bool // the key had acted before; this is that run
	Workflow string
	Token    domain.Token
	Warnings []workflow.Diagnostic
	// Partition is where the run lives, and Begun are its first events, if this server has
	// just committed them.
	Partition domain.PartitionID
	Begun     []engine.Recorded
}

// Refusal is a rejection with what helps to do better. errors.As finds the rejection.
type Refusal struct {
	Rejection   *domain.Rejection
	Choices     []string // what could have been asked for
	Diagnostics []workflow.Diagnostic
}

// Error implements error.
func (r *Refusal) Error() string { return r.Rejection.Error() }

// Unwrap gives the rejection.
func (r *Refusal) Unwrap() error { return r.Rejection }

func reject(code domain.Code, field, format string, args ...any) error {
	return &domain.Rejection{Code: code, Field: field, Message: fmt.Sprintf(format, args...)}
}

// repository finds a registered repository.
func (t *Triggers) repository(ctx context.Context, tenant domain.TenantID, idOrName string,
) (store.RepositoryRow, error) {
	if idOrName == "" {
		return store.RepositoryRow{}, reject(domain.CodeInvalidArgument, "repository", "Name a repository.")
	}
	row, err := t.cfg.Views.Repository(ctx, tenant, idOrName)
	if errors.Is(err, store.ErrNotFound) {
		return store.RepositoryRow{}, reject(domain.CodeNotFound, "repository", "There is no such repository.")
	}
	if err != nil {
		return store.RepositoryRow{}, fmt.Errorf("find repository %.100q: %w", idOrName, err)
	}
	return row, nil
}

func mirrorOf(row store.RepositoryRow) scm.Repo {
	return scm.Repo{Tenant: row.Tenant, Repository: row.Repository}
}
