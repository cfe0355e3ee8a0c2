package httpapi

import (
	"strings"
	"testing"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"

	"connectrpc.com/connect/v2"
)

// An administrator gets links, each of which signs one browser in; nobody else gets one.
func TestSignInLinkIsMadeForAnAdministratorOnly(t *testing.T) {
	w := newWorld(t)
	_, err := fairleadv1connect.NewSignInServiceClient(w.client()).CreateSignInLink(t.Context(),
		&fairleadv1.CreateSignInLinkRequest{})
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a credential: %v", err)
	}
	link, err := signInLinks{w.server}.CreateSignInLink(t.Context(), &fairleadv1.CreateSignInLinkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(link.GetPath(), SignInPath+"?code=") || link.GetExpires() == "" {
		t.Fatalf("%v", link)
	}
	if got := w.browser("GET", link.GetPath(), "", nil); got.status != 303 || len(got.head.Values("Set-Cookie")) != 1 {
		t.Errorf("the link does not sign in: %d %s", got.status, got.body)
	}
	if got := w.browser("GET", link.GetPath(), "", nil); got.status != 401 {
		t.Errorf("the link signs in twice: %d", got.status)
	}
}
