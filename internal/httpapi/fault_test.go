package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
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

// New work that is shed comes with a time to come back, in the header that programs know and in
// the answer.
// Promises: [CMD-16].
func TestWhatIsShedComesWithATimeToComeBack(t *testing.T) {
	for code, status := range map[domain.Code]int{domain.CodeTooManyOpenJobs: http.StatusTooManyRequests,
		domain.CodeOverloaded: http.StatusServiceUnavailable} {
		s := &Server{log: slog.New(slog.DiscardHandler)}
		w := httptest.NewRecorder()
		answer := s.explain(t.Context(), fmt.Errorf("ask: %w", domain.Shed(code, 1500*time.Millisecond, "Later.")))
		s.writeAnswer(w, answer)
		if answer.GetRetryAfterSeconds() != 2 || w.Header().Get("Retry-After") != "2" || w.Code != status {
			t.Errorf("%s: %d, %v, %v", code, w.Code, w.Header(), answer)
		}
	}
}

// The header comes over REST and over the protocols of procedures alike.
func TestTheTimeToComeBackComesByEveryWay(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Runs = shedding{c.Runs}
	})
	for path, kind := range map[string]string{"/api/v1/runs": "application/json",
		fairleadv1connect.RunServiceCreateRunProcedure: "application/json"} {
		got := w.do(http.MethodPost, path, `{"repository":"x"}`, "Content-Type", kind, "Idempotency-Key", "k"+kind,
			"Authorization", "Bearer "+w.token)
		if got.head.Get("Retry-After") != "7" || !strings.Contains(got.body, "too_many_open_jobs") ||
			got.status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %v %s", path, got.status, got.head, got.body)
		}
	}
}

// shedding takes no new work.
type shedding struct {
	fairleadv1connect.RunServiceHandler
}

func (shedding) CreateRun(context.Context, *fairleadv1.CreateRunRequest) (*fairleadv1.CreateRunResponse, error) {
	return nil, domain.Shed(domain.CodeTooManyOpenJobs, 7*time.Second, "Later.")
}
