package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Poll is a poll of another server's runner, as whoever leads the pool has it.
type Poll interface {
	// Ring has news told: ring may be called with locks held, so it neither waits nor calls back.
	Ring(ring func())
	Look(ctx context.Context) (limit time.Duration, over bool)
	// End gives the answer. It is called once.
	End() (*runnerv1.ExchangeResponse, error)
}

// guests are the polls of one stream of a peer. They wait without a goroutine each: news and the end
// of their time lead to another look, on one that is there for a moment.
type guests struct {
	server *Server
	ctx    context.Context
	turns  chan struct{} // of polls that are taken in
	work   sync.WaitGroup

	mu      sync.Mutex
	polls   map[uint64]*guest
	due     []*guest // whose time is over
	late    chan struct{}
	out     []byte // frames to be written
	written chan struct{}
	closed  bool
}

// guest is one poll. Whoever has set looking is the only one that calls the poll.
type guest struct {
	of    *guests
	id    uint64
	poll  Poll
	timer *time.Timer

	looking, again, left bool // guarded by of.mu
}

// guestTurns is how many polls of a stream are taken in at a time. Those of a runner that holds the
// proof of a commit may wait for the store.
const guestTurns = 4

// takePolls serves one stream of polls until the peer leaves, this server drains, or it leads no more.
func (s *Server) takePolls(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.ProtoMajor < 2 || s.cfg.Take == nil:
		http.NotFound(w, r) // as one of an older version answers
		return
	case !s.cfg.Leads(domain.PartitionID(r.URL.Query().Get("partition"))):
		http.Error(w, "it is not led here", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if err := control.Flush(); err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	g := &guests{server: s, ctx: ctx, turns: make(chan struct{}, guestTurns), polls: map[uint64]*guest{},
		late: make(chan struct{}, 1), written: make(chan struct{}, 1)}
	stop := context.AfterFunc(s.drained, cancel)
	defer stop()
	g.work.Go(func() {
		<-ctx.Done()
		_ = control.SetReadDeadline(time.Unix(1, 0)) // whoever reads hears no more
	})
	g.work.Go(g.endLate)
	g.work.Go(func() { defer cancel(); g.write(w, control) })
	g.read(bufio.NewReader(r.Body))
	cancel()
	g.close()
	g.work.Wait()
}

func (g *guests) read(from *bufio.Reader) {
	for g.ctx.Err() == nil {
		f, err := readFrame(from, pollBytesMax)
		if err != nil {
			return
		}
		switch f.kind {
		case framePoll:
			select {
			case g.turns <- struct{}{}:
				g.work.Go(func() {
					defer func() { <-g.turns }()
					g.take(f)
				})
			case <-g.ctx.Done():
			}
		case frameLeave:
			g.mu.Lock()
			one := g.polls[f.poll]
			if one != nil {
				one.left = true
			}
			g.mu.Unlock()
			if one != nil {
				one.wake()
			}
		default:
			return
		}
	}
}

// take takes a poll in and looks at it for the first time.
func (g *guests) take(f frame) {
	defer g.barrier(f.poll)
	wait, n := binary.Uvarint(f.body)
	req := new(runnerv1.ExchangeRequest)
	if n <= 0 || proto.Unmarshal(f.body[n:], req) != nil {
		g.say(frame{kind: frameRefused, poll: f.poll})
		return
	}
	req.WaitMs = int64(min(max(wait, 1), pollMsMax))
	poll, err := g.server.cfg.Take(g.ctx, req)
	if err != nil {
		g.say(frame{kind: refusal(err), poll: f.poll})
		return
	}
	one := &guest{of: g, id: f.poll, poll: poll, looking: true}
	g.mu.Lock()
	g.polls[f.poll] = one
	g.mu.Unlock()
	poll.Ring(one.wake)
	one.look()
}

// refusal tells apart what the next leader may do.
func refusal(err error) byte {
	if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeNotOwner {
		return frameMoved
	}
	return frameRefused
}

// wake has a poll looked at on a goroutine of the moment, or once more by whoever looks at it now.
func (o *guest) wake() {
	g := o.of
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.claim() {
		g.work.Go(o.look)
	}
}

// claim reports whether the caller is to look at it; mu is held.
func (o *guest) claim() bool {
	if o.looking || o.of.closed {
		o.again = true
		return false
	}
	o.looking = true
	if o.timer != nil {
		o.timer.Stop()
	}
	return true
}

// look goes on until there is nothing to say, and the poll waits, or it has said all.
func (o *guest) look() {
	defer o.of.barrier(o.id)
	for {
		limit, over := o.poll.Look(o.of.ctx)
		switch o.next(limit, over) {
		case rests:
			return
		case ends:
			o.end()
			return
		}
	}
}

// What a poll does after a look.
type step int

const (
	rests step = iota // until news or its time
	looks             // again: there was news meanwhile
	ends
)

func (o *guest) next(limit time.Duration, over bool) step {
	g := o.of
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case over || o.left || g.closed:
		return ends
	case o.again:
		o.again = false
		return looks
	case o.timer == nil:
		o.timer = time.AfterFunc(limit, o.expire)
	default:
		o.timer.Reset(limit)
	}
	o.looking = false
	return rests
}

func (o *guest) end() {
	g := o.of
	res, err := o.poll.End()
	var answer []byte
	if err == nil {
		answer, err = proto.Marshal(res)
	}
	g.mu.Lock()
	silent := o.left
	delete(g.polls, o.id)
	g.mu.Unlock()
	switch {
	case silent:
	case err != nil:
		g.say(frame{kind: refusal(err), poll: o.id})
	default:
		g.say(frame{kind: frameAnswer, poll: o.id, body: answer})
	}
}

// barrier keeps a panic to its poll, which then goes the ordinary way.
func (g *guests) barrier(poll uint64) {
	problem := recover()
	if problem == nil {
		return
	}
	g.server.cfg.Log.Error("poll of a peer panicked", "panic", problem, "stack", string(debug.Stack()))
	g.mu.Lock()
	delete(g.polls, poll)
	g.mu.Unlock()
	g.say(frame{kind: frameRefused, poll: poll})
}

// expire lines a poll up whose time is over: those that have nothing to say end one after another,
// so that a job's way does not lead past thousands of them.
func (o *guest) expire() {
	g := o.of
	g.mu.Lock()
	g.due = append(g.due, o)
	g.mu.Unlock()
	knock(g.late)
}

func (g *guests) endLate() {
	for {
		select {
		case <-g.late:
		case <-g.ctx.Done():
			return
		}
		g.mu.Lock()
		due := g.due
		g.due = nil
		g.mu.Unlock()
		for _, one := range due {
			g.mu.Lock()
			mine := one.claim()
			g.mu.Unlock()
			if mine {
				one.look()
			}
		}
	}
}

// say has a frame written.
func (g *guests) say(f frame) {
	g.mu.Lock()
	g.out = appendFrame(g.out, f)
	g.mu.Unlock()
	knock(g.written)
}

// write writes what there is to say, as much at once as there is.
func (g *guests) write(w http.ResponseWriter, control *http.ResponseController) {
	for {
		select {
		case <-g.written:
		case <-g.ctx.Done():
			return
		}
		g.mu.Lock()
		out := g.out
		g.out = nil
		g.mu.Unlock()
		_ = control.SetWriteDeadline(time.Now().Add(writeWait))
		if _, err := w.Write(out); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// close ends all polls. Their server asks the next leader about them.
func (g *guests) close() {
	g.mu.Lock()
	var resting []*guest
	for _, one := range g.polls {
		if one.timer != nil {
			one.timer.Stop()
		}
		if !one.looking {
			one.looking = true
			resting = append(resting, one)
		}
	}
	g.closed = true
	g.mu.Unlock()
	for _, one := range resting {
		_, _ = one.poll.End()
	}
}

// knock leaves a word with whoever waits.
func knock(at chan struct{}) {
	select {
	case at <- struct{}{}:
	default:
	}
}
