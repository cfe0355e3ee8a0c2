package httpapi

import (
	"context"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/credential"
)

// signInLinks answers SignInService. It lives here and not behind the handlers, since
// codes and the page that redeems them are this room's.
type signInLinks struct{ server *Server }

// CreateSignInLink implements the contract. Only the path is given: the caller knows by
// which address it reaches the server, and a browser beside it reaches it by the same.
func (l signInLinks) CreateSignInLink(context.Context,
	*fairleadv1.CreateSignInLinkRequest) (*fairleadv1.CreateSignInLinkResponse, error) {
	code := l.server.cfg.Gate.Sessions.NewCode()
	return &fairleadv1.CreateSignInLinkResponse{Path: SignInLink("", code),
		Expires: l.server.now().Add(credential.CodeLife).UTC().Format("2006-01-02T15:04:05.000000Z")}, nil
}
