package pool

import (
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Command asks for something. Decide knows the types below, passed by value, and panics
// on any other.
type Command interface {
	// Name is the command's type name.
	Name() string
}

// CreatePool makes the pool. The same again is acknowledged.
type CreatePool struct {
	Cause  domain.Cause
	Tenant domain.TenantID
	Pool   domain.PoolID
	Config Config
}

// IssueRegistrationToken makes a token good for one registration. The same digest again is
// acknowledged.
type IssueRegistrationToken struct {
	Cause   domain.Cause
	Token   domain.Digest // of the token; the token itself is shown once and kept nowhere
	Expires time.Time
}

// RegisterRunner turns a token into a runner with a session. Whoever repeats it with the
// same token and resume digest gets the runner and session of the first time, so a lost
// reply is not a second runner. Reply: RegisterReply.
//
// Trust: everything but Runner and Session comes from whoever holds the token.
type RegisterRunner struct {
	Cause      domain.Cause
	Token      domain.Digest // of the token that was shown
	Runner     domain.RunnerID
	Session    domain.SessionID
	Resume     domain.Digest // of the resume secret, which the runner made and keeps
	RunnerName string
	Labels     []string
	Capacity   int
	Isolation  string
	Version    string
	OS         string
	Arch       string
}

// RemoveRunner takes a runner out of the pool; its session is worth nothing from then on.
type RemoveRunner struct {
	Cause  domain.Cause
	Runner domain.RunnerID
	Reason string
}

// RotateSession replaces a runner's session; the one before is worth nothing from then on.
// The same again is acknowledged.
type RotateSession struct {
	Cause   domain.Cause
	Runner  domain.RunnerID
	Session domain.SessionID
	Resume  domain.Digest
}

// Wake says that time has passed.
type Wake struct{ Cause domain.Cause }

// RegisterReply answers RegisterRunner.
type RegisterReply struct {
	Runner  domain.RunnerID  `json:"runner"`
	Session domain.SessionID `json:"session"`
	Repeat  bool             `json:"repeat,omitempty"`
}

// Name implements Command.
func (CreatePool) Name() string { return "CreatePool" }

// Name implements Command.
func (IssueRegistrationToken) Name() string { return "IssueRegistrationToken" }

// Name implements Command.
func (RegisterRunner) Name() string { return "RegisterRunner" }

// Name implements Command.
func (RemoveRunner) Name() string { return "RemoveRunner" }

// Name implements Command.
func (RotateSession) Name() string { return "RotateSession" }

// Name implements Command.
func (Wake) Name() string { return "Wake" }
