package peer

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// diary is a log that a test reads while it is written, and waits for.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func newDiary() *diary { return &diary{news: make(chan struct{}, 1)} }

func (d *diary) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
	return d.text.Write(line)
}

func (d *diary) count(word string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Count(d.text.String(), word)
}

func (d *diary) wait(t *testing.T, word string, times int) {
	t.Helper()
	for limit := time.After(20 * time.Second); d.count(word) < times; {
		select {
		case <-d.news:
		case <-limit:
			t.Fatalf("the log never says %q %d times:\n%s", word, times, d.text.String())
		}
	}
}

// TestAStrangerAtAMembersAddressIsToldOnce: what answers in a member's place is a warning
// when it begins and a word when it ends, not one for every try.
func TestAStrangerAtAMembersAddressIsToldOnce(t *testing.T) {
	o := newOffice(t, nil)
	var away atomic.Bool
	asked := make(chan struct{}, 1000)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !away.Load() {
			o.server.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
		asked <- struct{}{}
	}))
	t.Cleanup(func() { o.server.Drain(); front.CloseClientConnections(); front.Close() })
	said := newDiary()
	away.Store(true)
	p := New(Config{Self: "me", Secret: word("secret"), Log: slog.New(slog.NewTextHandler(said, nil)),
		Moved: func(domain.PartitionID, store.Position) {}, Look: func() {}})
	t.Cleanup(p.Close)
	p.See(picture(front.URL, "other", 1))
	for turn := 1; turn <= 2; turn++ {
		for range 4 {
			<-asked
		}
		said.wait(t, "not by a server of this fleet", turn)
		away.Store(false)
		said.wait(t, "a member answers again", turn)
		away.Store(true)
		front.CloseClientConnections()
		said.wait(t, "not by a server of this fleet", turn+1)
	}
	for word, want := range map[string]int{"level=WARN": 3, "address=" + front.URL: 5, "member=other": 5,
		"404 Not Found": 3} {
		if got := said.count(word); got != want {
			t.Errorf("%s is there %d times, not %d:\n%s", word, got, want, said.text.String())
		}
	}
}

// TestAMemberThatNobodyReachesIsToldOnce: a moment without a peer is no news, a longer one is.
func TestAMemberThatNobodyReachesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := newDiary()
		p := &Peers{cfg: Config{Log: slog.New(slog.NewTextHandler(said, nil))}}
		m := &member{name: "other", address: "http://there", answered: time.Now()}
		refused := http.ErrServerClosed // any error that is no answer
		p.heard(m)
		p.unheard(m, nil)
		for range 10 {
			time.Sleep(silentAfter / 10)
			p.unheard(m, refused)
		}
		if got := said.count("level="); got != 0 {
			t.Errorf("a restart is told of: %s", said.text.String())
		}
		for range 10 {
			time.Sleep(silentAfter)
			p.unheard(m, refused)
		}
		if got := said.count("level=WARN"); got != 1 || said.count("address=http://there") != 1 {
			t.Errorf("%d warnings: %s", got, said.text.String())
		}
		p.heard(m)
		if got := said.count("answers again"); got != 1 {
			t.Errorf("its return is told %d times", got)
		}
	})
}

// TestAServerKnowsItselfByItsSession: not by its name, which an earlier process had too, and
// not by the fleet's secret, which all members have.
func TestAServerKnowsItselfByItsSession(t *testing.T) {
	o := newOffice(t, func(c *ServerConfig) { c.Name, c.Session = "me", "s1" })
	p := newPeers(t, "secret", o)
	for name, c := range map[string]struct {
		self  store.Member
		peers *Peers
		want  string
	}{
		"itself":             {store.Member{Name: "me", Session: "s1", Address: o.web.URL + "/"}, p, ""},
		"an earlier process": {store.Member{Name: "me", Session: "s2", Address: o.web.URL}, p, `the member "me"`},
		"another member":     {store.Member{Name: "you", Session: "s1", Address: o.web.URL}, p, ErrAnother.Error()},
		"another fleet":      {store.Member{Name: "me", Session: "s1", Address: o.web.URL}, newPeers(t, "other", o), "404"},
		"nobody":             {store.Member{Name: "me", Session: "s1", Address: "http://127.0.0.1:1"}, p, "nobody answers"},
	} {
		err := c.peers.GreetSelf(t.Context(), &c.self)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
