package runner

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect/v2"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
)

// A balancer without a server behind it, or a proxy that wants a password, ends no runner.
func TestOnlyAServersWordIsFinal(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no backend", status)
		}))
		defer web.Close()
		_, err := newClient(web.URL).Exchange(t.Context(), &runnerv1.ExchangeRequest{})
		if err == nil || final(err) || said(err) {
			t.Errorf("a bare %d is taken for a server's word: %v", status, err)
		}
	}
	for _, code := range []connect.Code{connect.CodeUnauthenticated, connect.CodePermissionDenied} {
		if err := worded(code, "unauthenticated"); !final(err) {
			t.Errorf("a server's %v is not final: %v", code, err)
		}
	}
	if err := worded(connect.CodeOutOfRange, "token_unproved"); final(err) || !disowned(err) {
		t.Errorf("a refused token: final %t, disowned %t", final(err), disowned(err))
	}
	if disowned(connect.NewError(connect.CodeOutOfRange, "a proxy's")) {
		t.Error("something on the way counts as a server that refuses a token")
	}
}
