package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
)

// TestCutAndUnannouncedEnvelopesAreTheCallersFault sends envelopes that end early, and
// compressed ones that no header announces, over every protocol that has envelopes, also as
// nobody to a procedure that everybody may call.
func TestCutAndUnannouncedEnvelopesAreTheCallersFault(t *testing.T) {
	w := newWorld(t)
	for _, procedure := range []string{fairleadv1connect.RunServiceWatchRunProcedure,
		fairleadv1connect.RunServiceGetRunProcedure, runnerv1connect.RunnerServiceExchangeProcedure} {
		for _, kind := range []string{"application/grpc-web", "application/grpc-web+proto", "application/connect+json",
			"application/connect+proto"} {
			for _, body := range []string{"\x00", "{}", "\x01\x00\x00\x00\x02{}", "\x00\x00\x00\x00\x09{}"} {
				got := w.do(http.MethodPost, procedure, body, "Content-Type", kind)
				if got.status >= 500 || strings.Contains(got.body, "internal") || got.head.Get("Grpc-Status") == "13" {
					t.Errorf("%s as %s with %q: %d %v %q", procedure, kind, body, got.status, got.head, got.body)
				}
			}
		}
	}
	if log := w.log.String(); strings.Contains(log, "request broke") {
		t.Errorf("an envelope broke something: %s", log[max(len(log)-2000, 0):])
	}
}
