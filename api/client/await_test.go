package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect/v2"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

func patient(t *testing.T, address string, patience time.Duration, waiting func(error, time.Time)) *Client {
	t.Helper()
	c, err := New(address, domain.NewSecret("fla_test"), Options{Patience: patience, Await: true, Waiting: waiting})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAFirstContactIsPatient: a server that comes up while it is asked is reached, and
// whoever waits hears once what for and until when.
func TestAFirstContactIsPatient(t *testing.T) {
	t.Parallel()
	p := &peer{}
	up := serve(t, p)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	late := &http.Server{Handler: up.Config.Handler, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = late.Close() })
	began := time.Now()
	var told atomic.Int32
	c := patient(t, "http://"+address, time.Minute, func(err error, until time.Time) {
		told.Add(1)
		if early := until.Before(began.Add(time.Minute)); early || !Unreachable(err) ||
			until.After(time.Now().Add(time.Minute)) {
			t.Errorf("told of %v until %v", err, until)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("listen again: %v", err)
			return
		}
		go func() { _ = late.Serve(l) }()
	})
	if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); err != nil || told.Load() != 1 {
		t.Errorf("%v, told %d times", err, told.Load())
	}
}

// TestABalancerWithoutAServerIsWaitedFor: 503 without words of a server.
func TestABalancerWithoutAServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := &peer{}
	up := serve(t, p)
	var asked atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= 3 {
			http.Error(w, "no server available", http.StatusServiceUnavailable)
			return
		}
		up.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	c := patient(t, front.URL, time.Minute, nil)
	if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); err != nil || asked.Load() != 4 {
		t.Errorf("%v after %d tries", err, asked.Load())
	}
}

// TestPatienceOfAFirstContactEnds: somebody who is not there is not waited for for longer.
func TestPatienceOfAFirstContactEnds(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	for patience, least := range map[time.Duration]time.Duration{-1: 0, 500 * time.Millisecond: 500 * time.Millisecond} {
		began := time.Now()
		_, err := patient(t, "http://"+listener.Addr().String(), patience, nil).Runs.GetRun(t.Context(),
			&fairleadv1.GetRunRequest{})
		if took := time.Since(began); !Unreachable(err) || took < least || took > 20*time.Second {
			t.Errorf("patience %s: %v after %s", patience, err, took)
		}
	}
}

// TestWhatTryingAgainDoesNotMendIsToldAtOnce: an hour of patience is not spent on it.
func TestWhatTryingAgainDoesNotMendIsToldAtOnce(t *testing.T) {
	t.Parallel()
	nothing := http.HandlerFunc(http.NotFound)
	strange, missing := httptest.NewTLSServer(nothing), httptest.NewServer(nothing)
	t.Cleanup(strange.Close)
	t.Cleanup(missing.Close)
	_, port, err := net.SplitHostPort(strange.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for what, address := range map[string]string{
		"a certificate that is not trusted": strange.URL,
		"another host's certificate":        "https://localhost:" + port,
		"no TLS":                            "https://" + missing.Listener.Addr().String(),
		"404":                               missing.URL,
	} {
		c := patient(t, address, time.Hour, func(err error, _ time.Time) { t.Errorf("%s is waited for: %v", what, err) })
		if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	for err, want := range map[error]bool{
		&net.DNSError{IsNotFound: true}:                          true,
		&net.DNSError{IsTemporary: true}:                         false,
		&tls.CertificateVerificationError{Err: errors.New("no")}: true,
		errors.New("reset"):                                      false,
	} {
		wrapped := connect.NewError(connect.CodeUnavailable, "away").WithCause(fmt.Errorf("dial: %w", err))
		if lasting(wrapped) != want {
			t.Errorf("%#v: lasting %v", err, !want)
		}
	}
}

// timedOut is what a dialer gives after its own time: it calls itself a context's deadline.
type timedOut struct{}

func (timedOut) Error() string        { return "i/o timeout" }
func (timedOut) Timeout() bool        { return true }
func (timedOut) Temporary() bool      { return true }
func (timedOut) Is(target error) bool { return target == context.DeadlineExceeded }

// TestADialThatTakesTooLongIsTriedAgain: a machine that drops packets is away like one that
// refuses them.
func TestADialThatTakesTooLongIsTriedAgain(t *testing.T) {
	t.Parallel()
	up := serve(t, &peer{})
	for name, op := range map[string][]string{"directly": {"dial"}, "by a proxy": {"proxyconnect", "dial"}} {
		var dialled atomic.Int32
		transport := newTransport()
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if got := dialWithin(ctx); got > dialMost || ctx.Value(dialKey{}) == nil {
				t.Errorf("%s: a dial knows of no end of patience, and may take %s", name, got)
			}
			if dialled.Add(1) <= 2 {
				var err error = timedOut{}
				for i := len(op) - 1; i >= 0; i-- {
					err = &net.OpError{Op: op[i], Net: network, Err: err}
				}
				return nil, err
			}
			return dial(ctx, network, address)
		}
		t.Cleanup(transport.CloseIdleConnections)
		c, err := New(up.URL, domain.NewSecret("fla_test"), Options{HTTP: &http.Client{Transport: transport},
			Patience: time.Minute, Await: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Runs.GetRun(t.Context(), &fairleadv1.GetRunRequest{}); err != nil || dialled.Load() != 3 {
			t.Errorf("%s: %v after %d tries", name, err, dialled.Load())
		}
	}
	for _, own := range []error{context.DeadlineExceeded, context.Canceled,
		&net.OpError{Op: "dial", Err: context.Canceled}} {
		if wrapped := connect.NewError(connect.CodeDeadlineExceeded, "").WithCause(own); Unreachable(wrapped) {
			t.Errorf("the caller's own end is taken for the server's: %#v", own)
		}
	}
}

// TestADialEndsWithPatience: also where nothing answers at all, as behind a firewall.
func TestADialEndsWithPatience(t *testing.T) {
	t.Parallel()
	for left, most := range map[time.Duration]time.Duration{time.Minute: dialMost, 3 * time.Second: 3 * time.Second,
		time.Millisecond: dialLeast, -time.Hour: dialLeast} {
		ctx := context.WithValue(t.Context(), dialKey{}, time.Now().Add(left))
		if got := dialWithin(ctx); got > most || got < most-time.Second {
			t.Errorf("with %s left a dial may take %s", left, got)
		}
	}
	c := patient(t, "http://192.0.2.1", -1, nil)
	if got := dialWithin(c.newWait().dialing(t.Context())); got != dialMost {
		t.Errorf("without patience a dial may take %s", got)
	}
}

// TestPatienceWithAStreamBeginsWhenItIsCut: what was silent for longer than the patience is
// tried again; what never opens is not tried for longer.
func TestPatienceWithAStreamBeginsWhenItIsCut(t *testing.T) {
	t.Parallel()
	c := patient(t, "http://127.0.0.1:1", time.Minute, nil)
	c.reached.Store(true)
	tries := 0
	began := time.Now()
	silent := func(_ context.Context, w *wait) error {
		tries++
		w.opened = tries == 1
		w.since = began.Add(-time.Hour) // nothing has come for an hour
		return nil
	}
	err := c.persist(t.Context(), silent, func() bool { return tries == 3 })
	if err == nil || tries != 2 {
		t.Errorf("%v after %d tries, want one more after the stream was cut and none after it did not open", err, tries)
	}
}
