package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// hear listens to a peer's news until ctx ends. A stream that breaks is opened anew, and is
// itself a piece of news: the fleet may have changed.
func (p *Peers) hear(ctx context.Context, m *member) {
	for wait := reopenFirst; ; wait = min(2*wait, reopenMax) {
		began := time.Now()
		heard, err := p.listen(ctx, m)
		if ctx.Err() != nil {
			return
		}
		p.unheard(m, err)
		if heard {
			p.cfg.Look()
			wait = reopenFirst
		}
		if time.Since(began) > reopenMax || !heard {
			p.cfg.Log.Debug("news of a member ended", "member", m.name, "error", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// listen reads one stream to its end. heard says whether anything came.
func (p *Peers) listen(ctx context.Context, m *member) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.address+pathNews, nil)
	if err != nil {
		return false, fmt.Errorf("listen to member %s: %w", m.name, err)
	}
	res, err := p.web.Do(r)
	if err != nil {
		return false, fmt.Errorf("listen to member %s: %w", m.name, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%w: %w", statusError(res, "listen to", m.name), errNoPeer)
	}
	if res.Header.Get(headerShared) == "h2c" {
		p.work.Go(func() { p.tryShared(ctx, m) })
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 0, 4<<10), newsBytesMax)
	for lines.Scan() {
		watch.Reset(silence)
		var b bulletin
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return heard, fmt.Errorf("read news of member %s: %w: %w", m.name, err, errNoPeer)
		}
		if !heard {
			heard = true
			p.heard(m)
		}
		for id, at := range b.Positions {
			p.cfg.Moved(id, at)
		}
	}
	return heard, lines.Err()
}

// tryShared finds out whether a member that takes HTTP/2 without TLS can be reached by it: what
// stands between the servers may not let it through.
func (p *Peers) tryShared(ctx context.Context, m *member) {
	ctx, cancel := context.WithTimeout(ctx, headerWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.address+pathStatus, nil)
	if err != nil {
		return
	}
	res, err := p.shared["http"].Do(r)
	if err != nil {
		p.cfg.Log.Debug("polls of runners have a connection each to a member", "member", m.name, "error", err)
	} else {
		_ = res.Body.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m.shares = err == nil && res.StatusCode == http.StatusOK
}

// errNoPeer: what answered is no server of this fleet.
var errNoPeer = errors.New("no server of this fleet answered")

// standing is how a peer is, as far as this server can tell. Operators hear of changes only:
// a peer is asked many times a minute.
type standing int

const (
	standingNew      standing = iota // nothing to say of it, yet or any more
	standingHeard                    // its news come
	standingSilent                   // nobody answers, for longer than a change of servers takes
	standingStranger                 // something answers that is no server of this fleet
)

// heard notes that a peer's news come.
func (p *Peers) heard(m *member) {
	if m.stands == standingSilent || m.stands == standingStranger {
		p.cfg.Log.Info("a member answers again", "member", m.name, "address", m.address)
	}
	m.stands = standingHeard
}

// unheard notes that a peer's news ended, or did not come. That a stream was cut, or a peer
// is away for a moment, is no news to anybody: servers restart.
func (p *Peers) unheard(m *member, err error) {
	switch now := time.Now(); {
	case errors.Is(err, errNoPeer):
		if m.stands != standingStranger {
			p.cfg.Log.Warn("a member's address is answered, but not by a server of this fleet: commands for what that "+
				"member owns can't be carried there. Look at its --advertise and at what stands between the servers; "+
				"another --shared folder and another version look the same", "member", m.name, "address", m.address, "error", err)
		}
		m.stands, m.answered = standingStranger, now
	case m.stands == standingHeard:
		m.stands, m.answered = standingNew, now
	case m.stands != standingSilent && now.Sub(m.answered) > silentAfter:
		p.cfg.Log.Warn("a member is live by the database and can't be reached from here: commands for what it owns can't "+
			"be carried there. Look at its --advertise and at the network", "member", m.name, "address", m.address,
			"error", err)
		m.stands = standingSilent
	}
}
