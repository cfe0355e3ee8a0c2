package dispatch

import (
	"testing"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A runner of another time is told so before its token is looked at, so the token is still
// good when the runner was replaced.
// Promises: [FORMAT-10].
func TestAnotherProtocolIsRefusedBeforeTheTokenIsUsed(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		for _, protocol := range []uint32{0, Protocol + 1} {
			_, err := y.dispatch.Register(t.Context(), &runnerv1.RegisterRequest{Protocol: protocol, Token: "tok-m1"})
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeProtocolUnsupported {
				t.Errorf("protocol %d: %v", protocol, err)
			}
		}
		y.register("m1", 1)
	})
}
