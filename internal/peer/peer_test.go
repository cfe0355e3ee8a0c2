package peer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

type word string

func (w word) Text() domain.Secret     { return domain.NewSecret(string(w)) }
func (w word) Verify(text string) bool { return text == string(w) }

const home = domain.PartitionID("main-0")

// office is one server of a fleet as its peers see it.
type office struct {
	server *Server
	herald *Herald
	web    *httptest.Server
}

func newOffice(t *testing.T, change func(*ServerConfig)) *office {
	t.Helper()
	o := &office{herald: NewHerald()}
	cfg := ServerConfig{Secret: word("secret"), Herald: o.herald, Log: slog.New(slog.DiscardHandler),
		Receive: func(context.Context, engine.Wire) (engine.WireAck, error) {
			return engine.WireAck{Stream: "run/x"}, nil
		},
		Status: func() []engine.PartitionStatus { return nil },
		Look:   func() {},
		Pass:   func(http.ResponseWriter, *http.Request, Caller) {},
	}
	if change != nil {
		change(&cfg)
	}
	o.server = NewServer(cfg)
	o.web = httptest.NewServer(o.server)
	t.Cleanup(o.close)
	return o
}

func (o *office) close() {
	o.server.Drain()
	o.web.CloseClientConnections()
	o.web.Close()
}

func newPeers(t *testing.T, secret string, o *office) *Peers {
	t.Helper()
	p := New(Config{Self: "me", Secret: word(secret), Log: slog.New(slog.DiscardHandler),
		Moved: func(domain.PartitionID, store.Position) {}, Look: func() {}})
	t.Cleanup(p.Close)
	p.See(picture(o.web.URL, "other", 1))
	return p
}

func picture(address, owner string, epoch uint64) store.Picture {
	return store.Picture{Members: []store.Member{{Name: "me", Live: true, Address: "http://unused"},
		{Name: "other", Live: true, Address: address}},
		Partitions: []store.Holding{{Owner: owner, Ownership: store.Ownership{Partition: home, Epoch: epoch}}}}
}

func to(name string) store.Holding {
	return store.Holding{Owner: name, Ownership: store.Ownership{Partition: home}}
}

// Without the fleet's secret nothing of the protocol is there, whatever else a request shows.
// Promises: [FLEET-13].
func TestWhoHasNotTheSecretFindsNothing(t *testing.T) {
	o := newOffice(t, func(c *ServerConfig) {
		c.Receive = func(context.Context, engine.Wire) (engine.WireAck, error) {
			t.Error("a stranger's command arrived")
			return engine.WireAck{}, nil
		}
		c.Pass = func(http.ResponseWriter, *http.Request, Caller) { t.Error("a stranger's request was passed on") }
	})
	for _, path := range []string{pathSubmit, pathNews, pathStatus, pathLook, pathPolls,
		pathPass + "/api/v1/server"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := http.NewRequestWithContext(t.Context(), method, o.web.URL+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer secret") // a user's place for a credential
			r.Header.Set(headerCaller, Caller{Kind: "admin"}.header())
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %s", method, path, res.Status)
			}
		}
	}
	p := newPeers(t, "another", o)
	if _, err := p.Submit(t.Context(), to("other"), engine.Wire{Version: 1}); !errors.Is(err, engine.ErrUnsent) {
		t.Errorf("a command of a stranger: %v", err)
	}
	if _, err := p.Status(t.Context(), "other"); !errors.Is(err, ErrStranger) {
		t.Errorf("a question of a stranger: %v", err)
	}
}

func TestACommandComesBackWithItsAnswer(t *testing.T) {
	o := newOffice(t, func(c *ServerConfig) {
		c.Receive = func(_ context.Context, w engine.Wire) (engine.WireAck, error) {
			switch string(w.Command) {
			case "no":
				return engine.WireAck{}, domain.Reject(domain.CodeNotOwner, "not here")
			case "broken":
				return engine.WireAck{}, errors.New("disk on fire")
			}
			return engine.WireAck{Stamp: 7, Reply: w.Command}, nil
		}
	})
	p := newPeers(t, "secret", o)
	ack, err := p.Submit(t.Context(), to("other"), engine.Wire{Command: []byte("go")})
	if err != nil || ack.Stamp != 7 || string(ack.Reply) != "go" {
		t.Errorf("%+v, %v", ack, err)
	}
	ack, err = p.Submit(t.Context(), to("other"), engine.Wire{Command: []byte("no")})
	if err != nil || ack.Rejected == nil || ack.Rejected.Code != domain.CodeNotOwner {
		t.Errorf("a refusal came back as %+v, %v", ack, err)
	}
	// Nobody knows what a server that broke has done.
	if _, err = p.Submit(t.Context(), to("other"), engine.Wire{Command: []byte("broken")}); err == nil ||
		errors.Is(err, engine.ErrUnsent) {
		t.Errorf("a fault came back as %v", err)
	}
	if _, err = p.Submit(t.Context(), to("nobody"), engine.Wire{}); !errors.Is(err, engine.ErrUnsent) {
		t.Errorf("a command to nobody: %v", err)
	}
	o.close()
	p.web.CloseIdleConnections()
	if _, err = p.Submit(t.Context(), to("other"), engine.Wire{}); !errors.Is(err, engine.ErrUnsent) {
		t.Errorf("a command that could not leave: %v", err)
	}
}

// A command at a server that hangs is let go when the fleet has another owner. It may act
// there or not.
func TestACommandAtALostOwnerIsNotWaitedFor(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	o := newOffice(t, func(c *ServerConfig) {
		c.Receive = func(context.Context, engine.Wire) (engine.WireAck, error) {
			close(arrived)
			<-release
			return engine.WireAck{}, nil
		}
	})
	defer close(release)
	p := newPeers(t, "secret", o)
	answered := make(chan error, 1)
	go func() {
		_, err := p.Submit(context.Background(), to("other"), engine.Wire{})
		answered <- err
	}()
	<-arrived
	p.See(picture(o.web.URL, "me", 2))
	if err := <-answered; !errors.Is(err, ErrMoved) || errors.Is(err, engine.ErrUnsent) {
		t.Errorf("answered with %v", err)
	}
	if h := p.Holder(home); !h.Here {
		t.Errorf("the holder is %+v", h)
	}
}

func TestNewsComeAtOnceAndAgainAfterAStreamBroke(t *testing.T) {
	o := newOffice(t, nil)
	o.herald.Moved(home, 3)
	moved, looked := make(chan store.Position, 100), make(chan struct{}, 100)
	p := New(Config{Self: "me", Secret: word("secret"), Log: slog.New(slog.DiscardHandler),
		Moved: func(_ domain.PartitionID, at store.Position) { moved <- at },
		Look:  func() { looked <- struct{}{} }})
	t.Cleanup(p.Close)
	p.See(picture(o.web.URL, "other", 1))
	wait := func(want store.Position) {
		t.Helper()
		for {
			select {
			case at := <-moved:
				if at == want {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("no news of position %d", want)
			}
		}
	}
	wait(3)
	o.herald.Moved(home, 4)
	wait(4)
	o.web.CloseClientConnections()
	select {
	case <-looked: // the fleet may have changed
	case <-time.After(20 * time.Second):
		t.Fatal("nobody looked when a stream broke")
	}
	o.herald.Moved(home, 5)
	wait(5)
}

// What is passed on carries the caller that the other server found, and no credential.
func TestARequestIsPassedOnForItsCaller(t *testing.T) {
	o := newOffice(t, func(c *ServerConfig) {
		c.Pass = func(w http.ResponseWriter, r *http.Request, caller Caller) {
			for _, name := range []string{headerSecret, headerCaller, "Authorization", "Cookie"} {
				if r.Header.Get(name) != "" {
					t.Errorf("the header %s came through", name)
				}
			}
			_, _ = io.WriteString(w, r.Method+" "+r.URL.String()+" for "+caller.Kind+" "+caller.ID)
		}
	})
	p := newPeers(t, "secret", o)
	ctx := WithCaller(t.Context(), Caller{Kind: "admin", ID: "root", Tenant: "tnt_a"})
	res, err := p.Fetch(ctx, p.Holder(home), http.MethodGet, "/api/v1/runs?limit=1",
		http.Header{"Authorization": {"Bearer x"}, "Cookie": {"a=b"}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || string(body) != "GET /api/v1/runs?limit=1 for admin root" {
		t.Errorf("%q, %v", body, err)
	}
}

// What stands between two servers, or in the place of one, is not the answer to their caller.
func TestATransportsRefusalIsWorthAnotherTry(t *testing.T) {
	p := newPeers(t, "another", newOffice(t, nil))
	runners := runnerv1connect.NewRunnerServiceClient(p.Client(p.Holder(home)))
	_, err := runners.Exchange(t.Context(), &runnerv1.ExchangeRequest{})
	var rpc *connect.Error
	if !errors.Is(err, domain.ErrRetry) || errors.As(err, &rpc) {
		t.Errorf("a runner is told %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = runners.Exchange(ctx, &runnerv1.ExchangeRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that went away: %v", err)
	}
}
