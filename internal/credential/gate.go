package credential

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Gate turns what a request presented into a principal.
type Gate struct {
	Admin    *AdminToken
	Sessions *Sessions
	Attempts *AttemptTokens
	// Live decides whether the attempt still runs under that epoch. Without it no
	// attempt's token is accepted.
	Live func(ctx context.Context, claim AttemptClaim) bool
	// Refused, when set, is told of a genuine token of an attempt that is over, so that
	// the refusal is recorded.
	Refused func(ctx context.Context, claim AttemptClaim)
}

// OpenGate opens every credential below the data folder. The caller sets Live.
func OpenGate(dataFolder string, now func() time.Time) (*Gate, error) {
	admin, err1 := OpenAdminToken(dataFolder)
	sessions, err2 := OpenSessions(dataFolder, now)
	attempts, err3 := OpenAttemptTokens(dataFolder, now)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return &Gate{Admin: admin, Sessions: sessions, Attempts: attempts}, nil
}

// Token verifies the text of an Authorization header: a bearer token, or the password of
// a git client.
//
// Trust: text comes from anybody.
func (g *Gate) Token(ctx context.Context, text string) (Principal, bool) {
	if !strings.HasPrefix(text, prefixAttempt) {
		if !g.Admin.Verify(text) {
			return Principal{}, false
		}
		return admin(ViaAdminToken), true
	}
	claim, ok := g.Attempts.Verify(text)
	if !ok || g.Live == nil {
		return Principal{}, false
	}
	if !g.Live(ctx, claim) {
		if g.Refused != nil {
			g.Refused(ctx, claim)
		}
		return Principal{}, false
	}
	return Principal{
		Kind: KindAttempt, ID: string(claim.Attempt), Via: ViaAttemptToken, Tenant: claim.Tenant, Attempt: claim,
	}, true
}

// Cookie verifies a browser's session cookie.
//
// Trust: text comes from anybody.
func (g *Gate) Cookie(text string) (Principal, bool) {
	if !g.Sessions.Verify(text) {
		return Principal{}, false
	}
	return admin(ViaSessionCookie), true
}

// Runner is the principal of a runner's call before the dispatcher has compared the
// session's resume secret: it may speak the runner protocol and nothing else.
func Runner(session domain.SessionID) Principal {
	return Principal{
		Kind: KindRunner, ID: string(session), Via: ViaRunnerSession, Tenant: domain.DefaultTenant,
	}
}
