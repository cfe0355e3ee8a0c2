package credential

import "github.com/fairlead-ci/fairlead/internal/domain"

// Kind says what sort of party a principal is.
type Kind string

// Kinds of principals.
const (
	KindAnonymous Kind = ""        // no credential came
	KindAdmin     Kind = "admin"   // everything, on the embedded default
	KindAttempt   Kind = "attempt" // a running attempt: its own fetch, nothing else
	KindRunner    Kind = "runner"  // a runner; its session is verified by the dispatcher
)

// How a principal proved itself; written to domain.Actor.Via.
const (
	ViaAdminToken    = "admin_token"
	ViaSessionCookie = "session_cookie"
	ViaAttemptToken  = "attempt_token"
	ViaRunnerSession = "runner_session"
)

// Principal is who asks, as far as a verified credential says.
type Principal struct {
	Kind   Kind
	ID     string // stable within the kind: "admin", an attempt or a session
	Via    string
	Tenant domain.TenantID
	// Attempt is set for KindAttempt only.
	Attempt AttemptClaim
}

// Anonymous is the principal of a request without credential.
func Anonymous() Principal { return Principal{} }

// Actor is the principal as it is written into events.
func (p Principal) Actor() domain.Actor {
	kind := "user"
	switch {
	case p.Kind == KindRunner:
		kind = "runner"
	case p.Via == ViaAdminToken || p.Via == ViaAttemptToken:
		kind = "token"
	}
	return domain.Actor{Kind: kind, ID: p.ID, Via: p.Via}
}

// Scope names the principal in an idempotency key's scope. A person keeps the same scope
// whether they came by token or by cookie.
func (p Principal) Scope() string { return string(p.Kind) + ":" + p.ID }
