package crash

import (
	"errors"
	"net"
	"testing"
	"time"
)

const (
	soon    = 10 * time.Second       // what comes comes by then
	silence = 100 * time.Millisecond // that something does not come can only be waited for
)

// parrot listens and says back what it hears.
func parrot(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buffer := make([]byte, 100)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					_, _ = conn.Write(buffer[:n])
				}
			}()
		}
	}()
	return l.Addr().String()
}

// says sends a word and tells what came back: the word, "" for silence, or "gone".
func says(conn net.Conn, wait time.Duration) string {
	_ = conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte("word")); err != nil {
		return "gone"
	}
	return hears(conn, wait)
}

func hears(conn net.Conn, wait time.Duration) string {
	_ = conn.SetDeadline(time.Now().Add(wait))
	buffer := make([]byte, 100)
	n, err := conn.Read(buffer)
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return ""
	} else if err != nil {
		return "gone"
	}
	return string(buffer[:n])
}

// through makes a proxy in front of a parrot, and dials it.
func through(t *testing.T) (*proxy, func() net.Conn) {
	t.Helper()
	p, err := newProxy("127.0.0.1:0", parrot(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p, func() net.Conn {
		conn, err := net.Dial("tcp", p.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if got := says(conn, soon); got != "word" {
			t.Fatalf("pass: %q", got)
		}
		return conn
	}
}

func TestAProxyHoldsBytesAndGivesThemLater(t *testing.T) {
	p, dial := through(t)
	conn := dial()
	p.set(hold)
	if got := says(conn, silence); got != "" {
		t.Errorf("hold lets %q through", got)
	}
	p.set(pass)
	if got := hears(conn, soon); got != "word" {
		t.Errorf("what was held does not come after healing: %q", got)
	}
}

func TestAProxyLosesBytesOneWayAndDoesNotGoOnWithThem(t *testing.T) {
	for _, mode := range []passage{swallow, deafen} {
		p, dial := through(t)
		conn := dial()
		p.set(mode)
		if got := says(conn, silence); got != "" {
			t.Errorf("%s lets %q through", mode, got)
		}
		p.set(pass)
		if got := says(conn, soon); got != "gone" {
			t.Errorf("after %s the connection goes on: %q", mode, got)
		}
		dial() // a new one is whole
	}
}

func TestAProxyCutsConnections(t *testing.T) {
	p, dial := through(t)
	conn := dial()
	p.set(half)
	if got := says(conn, soon); got != "gone" {
		t.Errorf("half a connection answers %q", got)
	}
	conn = dial()
	p.set(cut)
	if got := says(conn, soon); got != "gone" {
		t.Errorf("a cut connection answers %q", got)
	}
	if conn, err := net.Dial("tcp", p.address()); err == nil { // the reset may come before the dial has returned
		if got := says(conn, soon); got != "gone" {
			t.Errorf("a new connection while cut answers %q", got)
		}
		_ = conn.Close()
	}
}
