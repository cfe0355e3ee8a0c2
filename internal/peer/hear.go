package peer

import (
	"bufio"
	"context"
	"encoding/json"
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
		return false, statusError(res, "listen to", m.name)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 0, 4<<10), newsBytesMax)
	for lines.Scan() {
		watch.Reset(silence)
		var b bulletin
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return heard, fmt.Errorf("read news of member %s: %w", m.name, err)
		}
		heard = true
		for id, at := range b.Positions {
			p.cfg.Moved(id, at)
		}
	}
	return heard, lines.Err()
}
