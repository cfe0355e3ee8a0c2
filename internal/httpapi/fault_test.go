package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Only the caller's own deadline is called one. A limit of the server's own says that the
// caller should ask again, with the same key: whatever it asked for may have happened.
// Promises: [FLEET-7].
func TestALimitOfTheServersOwnIsNotTheCallersDeadline(t *testing.T) {
	s := &Server{log: slog.New(slog.DiscardHandler)}
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-over.Done()
	forward := fmt.Errorf("outcome not known: %w: %w", domain.ErrRetry, context.DeadlineExceeded)
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code string
	}{
		{t.Context(), forward, codeUnavailable},
		{t.Context(), fmt.Errorf("read: %w", context.DeadlineExceeded), codeUnavailable},
		{over, fmt.Errorf("read: %w", context.DeadlineExceeded), codeDeadline},
	} {
		if got := s.explain(c.ctx, c.err).GetCode(); got != c.code {
			t.Errorf("%v is told as %s, want %s", c.err, got, c.code)
		}
	}
}
