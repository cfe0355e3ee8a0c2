package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// A server that does not lead a pool holds a poll of each of its runners all the same. Passed on as
// requests they would cost both servers a stream and its goroutines for each. So those that bring
// nothing go to the leader over one stream, and wait here as an entry of a table. When the stream
// breaks, or the pool gets another leader, they are sent again: everything that runners say may be
// said twice.

// ErrHere: the pool is led by this server now, which can take the poll in itself.
var ErrHere = errors.New("the pool is led here")

// ErrOrdinary: the poll is to be passed on in the ordinary way, for the rest of its time.
var ErrOrdinary = errors.New("the leader does not take the poll with others")

// relay passes the polls of one partition on.
type relay struct {
	peers     *Peers
	partition domain.PartitionID

	mu    sync.Mutex
	polls map[uint64]*Passed
	last  uint64
	out   []byte          // frames to be sent over the stream
	open  bool            // there is a stream
	deaf  <-chan struct{} // Changed of a holder that takes no polls together
	knock chan struct{}
}

// Passed is a poll that waits for the leader's answer.
type Passed struct {
	relay *relay
	id    uint64
	body  []byte
	until time.Time
	lost  time.Time // since when no leader took it; zero: one has it
	news  chan struct{}

	answer []byte
	err    error
}

// PassOn passes a poll on that brings nothing; nil: the leader takes such polls one by one only.
func (p *Peers) PassOn(partition domain.PartitionID, req *runnerv1.ExchangeRequest, wait time.Duration) *Passed {
	body, err := proto.Marshal(req)
	if err != nil || len(body) > pollBytesMax-binary.MaxVarintLen64 {
		return nil
	}
	p.mu.Lock()
	r := p.relays[partition]
	if r == nil && p.run.Err() == nil {
		r = &relay{peers: p, partition: partition, polls: map[uint64]*Passed{}, knock: make(chan struct{}, 1)}
		p.relays[partition] = r
		p.work.Go(func() { r.serve(p.run) })
	}
	p.mu.Unlock()
	if r == nil || !r.takes(p.Holder(partition)) {
		return nil
	}
	now := time.Now()
	one := &Passed{relay: r, body: body, until: now.Add(wait), lost: now, news: make(chan struct{})}
	r.mu.Lock()
	r.last++
	one.id = r.last
	r.polls[one.id] = one
	if r.open {
		r.send(one, now)
	}
	r.mu.Unlock()
	knock(r.knock)
	return one
}

// Left is how long a poll may still wait for its answer.
func (o *Passed) Left() time.Duration { return time.Until(o.until) + pollSlack }

// News is closed when there is an answer, or none to be waited for.
func (o *Passed) News() <-chan struct{} { return o.news }

// End gives the answer. Nobody waits for it any more when it has not come.
func (o *Passed) End() (*runnerv1.ExchangeResponse, error) {
	if err := o.leave(); err != nil {
		return nil, err
	}
	res := new(runnerv1.ExchangeResponse)
	return res, proto.Unmarshal(o.answer, res)
}

func (o *Passed) leave() error {
	r := o.relay
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.polls[o.id] == o {
		delete(r.polls, o.id)
		o.err = ErrOrdinary
		if r.open && o.lost.IsZero() {
			r.out = appendFrame(r.out, frame{kind: frameLeave, poll: o.id})
			knock(r.knock)
		}
	}
	return o.err
}

// settle ends a poll; mu is held.
func (r *relay) settle(o *Passed, answer []byte, err error) {
	delete(r.polls, o.id)
	o.answer, o.err = answer, err
	close(o.news)
}

// send has a poll sent over the stream; mu is held.
func (r *relay) send(o *Passed, now time.Time) {
	rest := max(o.until.Sub(now).Milliseconds(), 1)
	head := binary.AppendUvarint(nil, uint64(rest))
	r.out = appendFrame(r.out, frame{kind: framePoll, poll: o.id, body: append(head, o.body...)})
	o.lost = time.Time{}
}

// takes reports whether polls wait here for a leader: for one that takes them together, or for one
// that is not known yet.
func (r *relay) takes(h Holder) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return h.Here || h.Address == "" || shares(h) && r.deaf != h.Changed
}

func shares(h Holder) bool {
	return strings.HasPrefix(h.Address, "https:") || strings.HasPrefix(h.Address, "http:") && h.Shares
}

// serve passes polls on until ctx ends.
func (r *relay) serve(ctx context.Context) {
	for ctx.Err() == nil {
		h := r.peers.Holder(r.partition)
		switch {
		case r.empty():
			select {
			case <-r.knock:
			case <-ctx.Done():
			}
			continue
		case r.peers.cfg.Leads != nil && r.peers.cfg.Leads(r.partition):
			r.settleAll(ErrHere, time.Time{})
			continue
		case !r.takes(h):
			r.settleAll(ErrOrdinary, time.Time{})
			continue
		case !h.Here && h.Address != "":
			err := r.stream(ctx, h)
			if r.broken(h, err) {
				r.peers.cfg.Log.Debug("stream of polls ended", "member", h.Name, "error", err)
			}
		}
		r.settleAll(ErrOrdinary, time.Now().Add(-pollLost))
		timer := time.NewTimer(leaderAgain)
		select {
		case <-h.Changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	r.settleAll(ErrOrdinary, time.Time{})
}

func (r *relay) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.polls) == 0
}

// settleAll ends polls that have had no leader since before then; zero: all.
func (r *relay) settleAll(err error, then time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.polls {
		if then.IsZero() || !one.lost.IsZero() && one.lost.Before(then) {
			r.settle(one, nil, err)
		}
	}
}

// broken notes that a stream ended: its polls have no leader.
func (r *relay) broken(h Holder, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, errDeaf) {
		r.deaf = h.Changed
	}
	r.open, r.out = false, nil
	now := time.Now()
	for _, one := range r.polls {
		if one.lost.IsZero() {
			one.lost = now
		}
	}
	return err != nil
}

var (
	errDeaf  = errors.New("it takes polls one by one")
	errMoved = errors.New("it leads no more")
)

// stream passes all polls on over one stream, until it breaks or the partition has another owner.
func (r *relay) stream(ctx context.Context, h Holder) error {
	ctx, cancel := While(ctx, h)
	defer cancel()
	scheme, _, _ := strings.Cut(h.Address, ":")
	from, to := io.Pipe()
	// The transport notices the context's end only when it has nothing to read any more.
	shut := context.AfterFunc(ctx, func() { _ = to.CloseWithError(context.Cause(ctx)) })
	defer shut()
	defer func() { _ = to.Close() }()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		h.Address+pathPolls+"?partition="+url.QueryEscape(string(r.partition)), from)
	if err != nil {
		return fmt.Errorf("pass polls on to member %s: %w", h.Name, err)
	}
	res, err := r.peers.streams[scheme].Do(request)
	if err != nil {
		return fmt.Errorf("pass polls on to member %s: %w", h.Name, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", statusError(res, "pass polls on to", h.Name), errDeaf)
	case res.StatusCode != http.StatusOK:
		return statusError(res, "pass polls on to", h.Name)
	}
	r.sendAll()
	var sending sync.WaitGroup
	sending.Go(func() { r.write(ctx, to); cancel() })
	err = r.read(bufio.NewReader(res.Body))
	cancel()
	_ = from.Close()
	sending.Wait()
	return err
}

func (r *relay) sendAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open, r.out = true, nil
	now := time.Now()
	for _, one := range r.polls {
		r.send(one, now)
	}
	knock(r.knock)
}

func (r *relay) write(ctx context.Context, to *io.PipeWriter) {
	for {
		r.mu.Lock()
		out := r.out
		r.out = nil
		r.mu.Unlock()
		if len(out) > 0 {
			if _, err := to.Write(out); err != nil {
				return
			}
		}
		select {
		case <-r.knock:
		case <-ctx.Done():
			return
		}
	}
}

// read takes answers in until the stream ends.
func (r *relay) read(from *bufio.Reader) error {
	for {
		f, err := readFrame(from, passBytesMax)
		if err != nil {
			return fmt.Errorf("read answers: %w", err)
		}
		r.mu.Lock()
		one := r.polls[f.poll]
		switch {
		case f.kind == frameMoved:
			err = errMoved
		case one == nil: // it has left
		case f.kind == frameAnswer:
			r.settle(one, f.body, nil)
		default:
			r.settle(one, nil, ErrOrdinary)
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
