package peer

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
)

// Polls of many runners go to the leader over few connections, where the leader takes that, and
// over a connection each where it does not, or what stands between does not let it through.
func TestPollsOfManyRunnersShareConnections(t *testing.T) {
	const polls = 120
	for name, c := range map[string]struct {
		says, takes bool
		least, most int32
	}{
		"both":                     {true, true, 1, 8},
		"an older member":          {false, false, polls, polls + 8},
		"something stands between": {true, false, polls, polls + 16},
	} {
		t.Run(name, func(t *testing.T) {
			var open, waiting atomic.Int32
			release := make(chan struct{})
			o := newOffice(t, func(s *ServerConfig) {
				s.Shares = c.says
				s.Pass = func(w http.ResponseWriter, _ *http.Request, _ Caller) {
					waiting.Add(1)
					<-release
					w.Header().Set("Content-Type", "application/proto")
				}
			})
			web := httptest.NewUnstartedServer(o.server)
			web.Config.Protocols = new(http.Protocols)
			web.Config.Protocols.SetHTTP1(true)
			web.Config.Protocols.SetUnencryptedHTTP2(c.takes)
			web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					open.Add(1)
				}
			}
			web.Start()
			t.Cleanup(web.Close)
			t.Cleanup(o.server.Drain)
			p := newPeers(t, "secret", o)
			p.See(picture(web.URL, "other", 2))
			within(t, "the member says how it is", func() bool { return !c.takes || p.Holder(home).Shares })
			client := runnerv1connect.NewRunnerServiceClient(p.PollClient(p.Holder(home)))
			var answered sync.WaitGroup
			for range polls {
				answered.Go(func() {
					if _, err := client.Exchange(context.Background(), &runnerv1.ExchangeRequest{WaitMs: 1}); err != nil {
						t.Error(err)
					}
				})
			}
			within(t, "all polls wait", func() bool { return waiting.Load() == polls })
			if n := open.Load(); n < c.least || n > c.most {
				t.Errorf("%d connections for %d polls", n, polls)
			}
			close(release)
			answered.Wait()
		})
	}
}

func within(t *testing.T, what string, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !there(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came about: %s", what)
		}
	}
}
