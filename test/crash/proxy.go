package crash

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// passage is what a proxy does with bytes.
type passage string

// Passages.
const (
	pass    passage = "pass"
	hold    passage = "hold"    // takes connections and bytes, and lets nothing through
	swallow passage = "swallow" // requests get through, answers are lost
	deafen  passage = "deafen"  // requests are lost, answers get through
	cut     passage = "cut"     // open connections are reset, new ones at once too
	half    passage = "half"    // the sending side of every connection is closed
)

// proxy stands in front of a server and takes away the network between it and whoever
// comes this way.
type proxy struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	quit     context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	mode    passage
	closed  bool
	pairs   map[*pair]bool
}

// pair is a connection that came and the one that was made for it.
type pair struct {
	near, far *net.TCPConn
	spoiled   bool // bytes are missing: it must not go on after healing
}

// newProxy listens on an address of this machine and connects every caller to target.
func newProxy(listen, target string) (*proxy, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listen for proxy to %s: %w", target, err)
	}
	return proxyOn(l, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target)
	}), nil
}

// proxyOn serves a listener. Listener and dial may belong to different network namespaces.
func proxyOn(l net.Listener, dial func(context.Context) (net.Conn, error)) *proxy {
	ctx, quit := context.WithCancel(context.Background())
	p := &proxy{listener: l, dial: dial, quit: quit, mode: pass, pairs: map[*pair]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.done.Go(func() { p.accept(ctx) })
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept(ctx context.Context) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(ctx, near.(*net.TCPConn)) })
	}
}

func (p *proxy) serve(ctx context.Context, near *net.TCPConn) {
	defer func() { _ = near.Close() }()
	p.mu.Lock()
	refused := p.closed || p.mode == cut
	p.mu.Unlock()
	if refused {
		_ = near.SetLinger(0) // reset, as a machine that is not there answers
		return
	}
	conn, err := p.dial(ctx)
	if err != nil {
		_ = near.SetLinger(0)
		return
	}
	c := &pair{near: near, far: conn.(*net.TCPConn)}
	defer func() { _ = c.far.Close() }()
	p.mu.Lock()
	p.pairs[c] = true
	if p.closed || p.mode == cut {
		p.mu.Unlock()
		c.reset()
		return
	}
	p.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { p.pump(c, c.near, c.far, true) })
	ways.Go(func() { p.pump(c, c.far, c.near, false) })
	ways.Wait()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// pump carries bytes one way. up is the way of requests.
func (p *proxy) pump(c *pair, from, to *net.TCPConn, up bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.through(c, up) {
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close() // tell the other side, which would write for ever
				return
			}
		}
		if err != nil {
			if p.through(c, up) {
				_ = to.CloseWrite()
			}
			return
		}
	}
}

// through waits until bytes may go on, and says whether they may.
func (p *proxy) through(c *pair, up bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.mode == hold && !p.closed {
		p.changed.Wait()
	}
	lost := (p.mode == swallow && !up) || (p.mode == deafen && up)
	c.spoiled = c.spoiled || lost
	return !lost
}

func (c *pair) reset() {
	for _, conn := range []*net.TCPConn{c.near, c.far} {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// set changes what happens to bytes from now on. Healing resets connections that lost some.
func (p *proxy) set(mode passage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	for c := range p.pairs {
		switch {
		case mode == cut, mode == pass && c.spoiled:
			c.reset()
		case mode == half:
			_ = c.near.CloseWrite()
			_ = c.far.CloseWrite()
			c.spoiled = true
		}
	}
	if mode == half {
		p.mode = pass // it is an event; new connections are whole
	}
	p.changed.Broadcast()
}

// close ends everything and waits.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.pairs {
		c.reset()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.quit()
	p.done.Wait()
}
