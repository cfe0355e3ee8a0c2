package client

import (
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
	for patience, least := range map[time.Duration]time.Duration{-1: 0, 500 * time.Millisecond: 100 * time.Millisecond} {
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
