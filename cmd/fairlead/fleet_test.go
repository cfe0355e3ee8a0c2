package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/peer"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// TestTryingAgainDoesNotAddUpToLuck: behind an address that several members share, a server
// that has met another one there must be met alone for long.
func TestTryingAgainDoesNotAddUpToLuck(t *testing.T) {
	t.Parallel()
	secret, err := credential.OpenPeerSecret(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	member := func(name string) http.Handler {
		m := peer.NewServer(peer.ServerConfig{Name: name, Session: "of " + name, Secret: secret, Log: slog.Default(),
			Herald: peer.NewHerald(), Status: func() []engine.PartitionStatus { return nil }, Look: func() {},
			Pass: func(http.ResponseWriter, *http.Request, peer.Caller) {}})
		t.Cleanup(m.Drain)
		return m
	}
	me, you := member("me"), member("you")
	var asked atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); n == 1 || n == 1+selfGreetingsShared {
			you.ServeHTTP(w, r)
			return
		}
		me.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	peers := peer.New(peer.Config{Self: "me", Secret: secret, Log: slog.Default(), Look: func() {}})
	t.Cleanup(peers.Close)
	s := &server{log: slog.Default(), fleet: &membership{peers: peers,
		self: store.Member{Name: "me", Session: "of me", Address: front.URL}}}
	if err := s.findSelf(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := asked.Load(); got != 1+2*selfGreetingsShared {
		t.Errorf("found itself after %d answers", got)
	}
}
