package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/testkit/pg"
)

// cutter is a proxy that cuts a connection around COMMIT: before the server has read it,
// or after the server has answered and before the client knows.
type cutter struct {
	socket string
	armed  atomic.Value // string: "", "before" or "after"
}

func (c *cutter) serve(t *testing.T) (host, port string) {
	t.Helper()
	c.armed.Store("")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", c.socket)
			if err != nil {
				_ = client.Close()
				return
			}
			go c.relay(client, server)
		}
	}()
	host, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// relay passes bytes both ways. A COMMIT is the simple query message 'Q', which the
// adapter sends alone, so it arrives in one piece.
func (c *cutter) relay(client, server net.Conn) {
	var cut atomic.Bool
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := server.Read(buffer)
			if err != nil {
				_ = client.Close()
				return
			}
			if cut.Load() {
				_ = client.Close()
				_ = server.Close()
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				_ = server.Close()
				return
			}
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			_ = server.Close()
			return
		}
		if bytes.HasPrefix(buffer[:n], []byte("Q")) && bytes.Contains(buffer[:n], []byte("COMMIT\x00")) {
			switch c.armed.Load() {
			case "before":
				_ = server.Close()
				_ = client.Close()
				return
			case "after":
				cut.Store(true)
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil && !errors.Is(err, io.EOF) {
			_ = client.Close()
			return
		}
	}
}

// A connection that dies at COMMIT leaves the outcome open; Acquire settles it, because
// it waits for the old transaction, and both answers occur.
// Promises: [CMD-6].
func TestAConnectionThatDiesAtCommitIsUnknownUntilAcquired(t *testing.T) {
	direct := pg.Start(t)
	parsed, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	proxy := &cutter{socket: query.Get("host") + "/.s.PGSQL.5432"}
	host, port := proxy.serve(t)
	query.Del("host")
	through := fmt.Sprintf("postgres://%s:%s%s?%s", host, port, parsed.Path, query.Encode())

	s := mustOpen(t, through, "cut")
	defer closed(t, s)
	own := acquire(t, s)
	own = appendTo(t, s, own, rows(own, 2, "first"))
	for _, c := range []struct {
		when      string
		committed bool
	}{{"before", false}, {"after", true}} {
		b := rows(own, 3, "cut "+c.when)
		proxy.armed.Store(c.when)
		err := s.Append(t.Context(), b)
		proxy.armed.Store("")
		if !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("cut %s COMMIT: %v", c.when, err)
		}
		next := acquire(t, s)
		if got := next.Digest == b.Digest; got != c.committed {
			t.Errorf("cut %s COMMIT: committed is %v, position %d", c.when, got, next.Position)
		}
		if old := rows(own, 1, "late"); !errors.Is(s.Append(t.Context(), old), store.ErrFenced) {
			t.Error("the old epoch still writes")
		}
		own = appendTo(t, s, next, rows(next, 1, "goes on"))
	}
}
