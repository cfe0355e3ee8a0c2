package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// chair is a leader of pools that peers pass polls on to.
type chair struct {
	leads, moved atomic.Bool // moved: whatever ends has another leader
	took         atomic.Int32
	ended        atomic.Int32

	mu    sync.Mutex
	polls map[string]*seat
}

// seat is one poll, by what it says.
type seat struct {
	chair *chair
	until time.Time

	mu   sync.Mutex
	ring func()
	said string
}

func (c *chair) take(_ context.Context, req *runnerv1.ExchangeRequest) (Poll, error) {
	switch req.GetSession() {
	case "stranger":
		return nil, domain.Reject(domain.CodeInvalidArgument, "Who is that?")
	case "panic":
		panic("this poll")
	}
	s := &seat{chair: c, until: time.Now().Add(time.Duration(req.GetWaitMs()) * time.Millisecond)}
	c.mu.Lock()
	c.polls[req.GetSession()] = s
	c.mu.Unlock()
	c.took.Add(1)
	return s, nil
}

func (c *chair) say(to, what string) {
	c.mu.Lock()
	s := c.polls[to]
	c.mu.Unlock()
	s.mu.Lock()
	s.said = what
	ring := s.ring
	s.mu.Unlock()
	ring()
}

func (s *seat) Ring(ring func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring = ring
}

func (s *seat) Look(context.Context) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := time.Until(s.until)
	return left, s.said != "" || left <= 0
}

func (s *seat) End() (*runnerv1.ExchangeResponse, error) {
	s.chair.ended.Add(1)
	if s.chair.moved.Load() {
		return nil, domain.Reject(domain.CodeNotOwner, "Not here.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runnerv1.ExchangeResponse{Token: s.said}, nil
}

// newChair is a leader with a server of its own; it speaks HTTP/2 without TLS.
func newChair(t *testing.T) (*chair, *office, *httptest.Server) {
	c := &chair{polls: map[string]*seat{}}
	c.leads.Store(true)
	o := newOffice(t, func(s *ServerConfig) {
		s.Shares, s.Take = true, c.take
		s.Leads = func(domain.PartitionID) bool { return c.leads.Load() }
	})
	web := httptest.NewUnstartedServer(o.server)
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetHTTP1(true)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(o.server.Drain)
	return c, o, web
}

// follower passes polls on to a leader.
func follower(t *testing.T, o *office, web *httptest.Server) *Peers {
	p := newPeers(t, "secret", o)
	p.See(picture(web.URL, "other", 2))
	within(t, "the member says how it is", func() bool { return p.Holder(home).Shares })
	return p
}

func passed(t *testing.T, p *Peers, session string, wait time.Duration) *Passed {
	t.Helper()
	one := p.PassOn(home, &runnerv1.ExchangeRequest{Session: session}, wait)
	if one == nil {
		t.Fatal("the poll is to go the ordinary way")
	}
	return one
}

func answerOf(t *testing.T, one *Passed) (string, error) {
	t.Helper()
	select {
	case <-one.News():
	case <-time.After(20 * time.Second):
		t.Fatal("no answer came")
	}
	answer, err := one.End()
	return answer.GetToken(), err
}

func TestPollsArePassedOnOverOneStream(t *testing.T) {
	c, o, web := newChair(t)
	p := follower(t, o, web)
	news, quiet := passed(t, p, "news", time.Hour), passed(t, p, "quiet", 50*time.Millisecond)
	gone, stranger := passed(t, p, "gone", time.Hour), passed(t, p, "stranger", time.Hour)
	fault := passed(t, p, "panic", time.Hour)
	if answer, err := answerOf(t, quiet); answer != "" || err != nil {
		t.Errorf("a poll whose time is over: %q, %v", answer, err)
	}
	if _, err := answerOf(t, stranger); !errors.Is(err, ErrOrdinary) {
		t.Errorf("a poll that is refused: %v", err)
	}
	if _, err := answerOf(t, fault); !errors.Is(err, ErrOrdinary) {
		t.Errorf("a poll that broke: %v", err)
	}
	within(t, "all others wait", func() bool { return c.took.Load() == 3 })
	c.say("news", "a job")
	if answer, err := answerOf(t, news); answer != "a job" || err != nil {
		t.Errorf("news: %q, %v", answer, err)
	}
	if _, err := gone.End(); !errors.Is(err, ErrOrdinary) {
		t.Errorf("a poll whose runner left: %v", err)
	}
	within(t, "the leader knows that the runner left", func() bool { return c.ended.Load() == 3 })
}

// A leader that goes away, or leads no more, takes no poll with it: the next one has it.
func TestAPollGoesOnWithTheNextLeader(t *testing.T) {
	first, o, web := newChair(t)
	p := follower(t, o, web)
	second, _, next := newChair(t)
	both := func(owner string, epoch uint64) store.Picture {
		out := picture(web.URL, owner, epoch)
		out.Members = append(out.Members, store.Member{Name: "third", Live: true, Address: next.URL})
		return out
	}
	p.See(both("other", 2))
	within(t, "the second member says how it is", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.members["third"].shares
	})
	one := passed(t, p, "one", time.Hour)
	within(t, "the first leader has it", func() bool { return first.took.Load() == 1 })
	first.leads.Store(false)
	first.moved.Store(true)
	first.say("one", "too late")
	two := passed(t, p, "two", time.Hour) // between two leaders
	p.See(both("third", 3))
	within(t, "the second leader has both", func() bool { return second.took.Load() == 2 })
	for poll, say := range map[*Passed]string{one: "one", two: "two"} {
		second.say(say, "job for "+say)
		if answer, err := answerOf(t, poll); answer != "job for "+say || err != nil {
			t.Errorf("%s: %q, %v", say, answer, err)
		}
	}
	three := passed(t, p, "three", time.Hour)
	within(t, "the second leader has the third", func() bool { return second.took.Load() == 3 })
	next.CloseClientConnections()
	within(t, "it is sent again over another connection", func() bool { return second.took.Load() == 4 })
	second.say("three", "a job")
	if answer, err := answerOf(t, three); answer != "a job" || err != nil {
		t.Errorf("behind a broken stream: %q, %v", answer, err)
	}
}

func TestAServerThatLeadsTakesItsPollsItself(t *testing.T) {
	c, o, web := newChair(t)
	var here atomic.Bool
	p := newPeers(t, "secret", o)
	p.cfg.Leads = func(domain.PartitionID) bool { return here.Load() }
	p.See(picture(web.URL, "other", 2))
	within(t, "the member says how it is", func() bool { return p.Holder(home).Shares })
	one := passed(t, p, "one", time.Hour)
	within(t, "the leader has it", func() bool { return c.took.Load() == 1 })
	here.Store(true)
	p.See(picture(web.URL, p.cfg.Self, 3))
	if _, err := answerOf(t, one); !errors.Is(err, ErrHere) {
		t.Errorf("a poll of a pool that is led here: %v", err)
	}
}

// A member of an older version knows nothing of it.
func TestAnOlderMemberGetsPollsOneByOne(t *testing.T) {
	c, o, web := newChair(t)
	o.server.cfg.Take = nil
	p := follower(t, o, web)
	one := passed(t, p, "one", time.Hour)
	if _, err := answerOf(t, one); !errors.Is(err, ErrOrdinary) {
		t.Errorf("a poll that the leader can't take: %v", err)
	}
	if p.PassOn(home, &runnerv1.ExchangeRequest{Session: "two"}, time.Hour) != nil || c.took.Load() != 0 {
		t.Error("it was tried once more")
	}
	o.server.cfg.Take = c.take // it is replaced by a later version
	p.See(picture(web.URL, "other", 3))
	passed(t, p, "three", time.Hour)
	within(t, "the later version has it", func() bool { return c.took.Load() == 1 })
}

// What a poll takes that is passed on, in both servers together, without what its leader's pool keeps.
func TestAPollThatIsPassedOnHoldsLittle(t *testing.T) {
	const polls, bytesMost, goroutinesMost = 5000, 1900, 40
	c, o, web := newChair(t)
	p := follower(t, o, web)
	held := func() (bytes, goroutines int) {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
	}
	passed(t, p, "warm", time.Hour)
	within(t, "the stream is there", func() bool { return c.took.Load() == 1 })
	bytes, goroutines := held()
	body := strings.Repeat("x", 200)
	all := make([]*Passed, polls)
	for i := range all {
		all[i] = passed(t, p, fmt.Sprint(body, i), time.Hour)
	}
	within(t, "all wait", func() bool { return c.took.Load() == polls+1 })
	bytesThen, goroutinesThen := held()
	if each := (bytesThen - bytes) / polls; each > bytesMost {
		t.Errorf("%d bytes for each; at most %d", each, bytesMost)
	}
	if more := goroutinesThen - goroutines; more > goroutinesMost {
		t.Errorf("%d goroutines more", more)
	}
	t.Logf("%d bytes for each, %d goroutines more", (bytesThen-bytes)/polls, goroutinesThen-goroutines)
	runtime.KeepAlive(all)
}
