package httpapi

import (
	"context"
	"net/http"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// forwarded is a request that came in at another server of the fleet.
type forwarded struct {
	principal credential.Principal
	request   string
}

type forwardedKey struct{}

// ServeForwarded serves a request that another server passed on: that one found out who
// asks, and this one asks the authorisation point about it as about everybody. Credentials
// in the request count for nothing.
// Preconditions: the caller has made sure that a server of the fleet asks.
func (s *Server) ServeForwarded(w http.ResponseWriter, r *http.Request, p credential.Principal, request string) {
	f := &forwarded{principal: p, request: request}
	s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardedKey{}, f)))
}

// Forwarded reports whether a request was passed on by another server. Such a one is never
// passed on again.
func Forwarded(ctx context.Context) bool { return forwardedOf(ctx) != nil }

func forwardedOf(ctx context.Context) *forwarded {
	f, _ := ctx.Value(forwardedKey{}).(*forwarded)
	return f
}

// adopt takes over who asks, and the request's id, which both logs then name.
func (f *forwarded) adopt(c *call) {
	c.principal = f.principal
	if domain.ValidID(domain.PrefixRequest, f.request) {
		c.request = f.request
	}
}
