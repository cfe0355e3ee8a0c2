package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

const (
	// lineBytesMax is where a line of a log is cut into pieces, so that a line without an
	// end needs no memory without an end.
	lineBytesMax = 64 << 10
	// drainPatience is how long the rest of a log is waited for, since its last byte, when
	// what was followed has concluded. A log is sealed right after its attempt.
	drainPatience = 15 * time.Second
	// orderPatience is how long the news of an attempt's end waits for the end of its log.
	orderPatience = time.Second
	// idleAfter is how long nothing happens before a view says what is waited for.
	idleAfter = 2 * time.Second
)

// piece is a line of a log, or a part of a line that is longer than lineBytesMax.
type piece struct {
	text   []byte
	offset int64
	end    bool // a line feed followed
	gap    int64
}

// view shows what happens in a run. Calls never overlap.
type view interface {
	// changed is called with every version of the run; before is nil at the first.
	changed(before, now *fairleadv1.Run)
	// lines gives what came of an attempt's log, in order.
	lines(job *fairleadv1.Job, attempt *fairleadv1.Attempt, pieces []piece)
	// idle is called when nothing happened for a while.
	idle(now *fairleadv1.Run)
	// note is a sentence beside the run.
	note(text string)
	// flush shows what the calls before it gave.
	flush()
}

// errEnough ends following before the run concluded.
var errEnough = errors.New("what was followed concluded")

// follower watches a run and the logs of its attempts until it concluded, and tells one
// view of it. It survives a server that goes away and comes back: the client resumes
// every stream where it was.
type follower struct {
	client *client.Client
	run    string
	view   view
	logs   bool
	job    string // id of the only job to follow; "" for all
	round  int32  // the first round whose logs are shown; 0: the current one
	// ordered shows how an attempt ended after its log.
	ordered bool
	newest  bool // of the attempts that exist already, only each job's newest

	mu      sync.Mutex // guards what is below, and every call of view
	seen    *fairleadv1.Run
	open    map[string]chan struct{} // by attempt: closed when its log was shown; nil: not shown
	lastLog time.Time
	quiet   *time.Timer
	all     sync.WaitGroup
}

// follow returns the last version of the run that was seen. With an error that may be an
// unfinished one, or nil.
func (f *follower) follow(ctx context.Context) (*fairleadv1.Run, error) {
	f.open = map[string]chan struct{}{}
	logs, stop := context.WithCancel(ctx)
	defer stop()
	f.quiet = time.AfterFunc(idleAfter, f.idle)
	defer f.quiet.Stop()
	err := f.client.FollowRun(ctx, &fairleadv1.WatchRunRequest{Run: f.run}, func(r *fairleadv1.GetRunResponse) error {
		return f.next(logs, r.GetRun())
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil {
		f.drain(ctx)
	}
	stop()
	f.all.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.flush()
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return f.seen, err
}

// next takes a version of the run.
func (f *follower) next(logs context.Context, run *fairleadv1.Run) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.seen
	f.seen = run
	f.quiet.Reset(idleAfter)
	if f.round == 0 {
		f.round = run.GetSummary().GetRound()
	}
	concluded, late := f.openLogs(logs, before, run)
	if f.ordered && len(late) > 0 {
		// A person reads the log first and then how it ended, as it happened.
		begun := unfinished(run, late)
		f.view.changed(before, begun)
		f.view.flush()
		before = begun
		f.mu.Unlock()
		f.settle(logs, late)
		f.mu.Lock()
	}
	f.view.changed(before, run)
	f.view.flush()
	if concluded {
		return errEnough
	}
	return nil
}

// openLogs starts to follow the logs of new attempts. late are those of attempts that
// concluded while their log is still coming; concluded says that the one job that is
// followed did.
func (f *follower) openLogs(ctx context.Context, before, run *fairleadv1.Run) (concluded bool,
	late map[string]chan struct{}) {
	late = map[string]chan struct{}{}
	for _, job := range run.GetJobs() {
		if f.job != "" && job.GetId() != f.job {
			continue
		}
		concluded = concluded || (f.job != "" && job.GetOutcome() != "")
		for n, attempt := range job.GetAttempts() {
			id := attempt.GetId()
			if before == nil && f.newest && n < len(job.GetAttempts())-1 {
				f.open[id] = nil
			}
			done, known := f.open[id]
			if !known && f.logs && attempt.GetRound() >= f.round {
				done = make(chan struct{})
				f.open[id] = done
				f.all.Go(func() {
					defer close(done)
					f.followLog(ctx, job, attempt)
				})
			}
			if done != nil && attempt.GetOutcome() != "" && !closed(done) {
				late[id] = done
			}
		}
	}
	return concluded, late
}

func closed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// settle waits for logs, for a moment.
func (f *follower) settle(ctx context.Context, late map[string]chan struct{}) {
	timer := time.NewTimer(orderPatience)
	defer timer.Stop()
	for _, done := range late {
		select {
		case <-done:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// unfinished is the run as it was before these attempts concluded.
func unfinished(run *fairleadv1.Run, attempts map[string]chan struct{}) *fairleadv1.Run {
	out := proto.CloneOf(run)
	for _, job := range out.GetJobs() {
		for _, attempt := range job.GetAttempts() {
			if _, ok := attempts[attempt.GetId()]; ok {
				attempt.Outcome, attempt.FailureClass, attempt.Concluded, attempt.Message = "", "", "", ""
				job.Outcome, job.Concluded, job.State = "", "", "active"
			}
		}
	}
	return out
}

func (f *follower) idle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen != nil {
		f.view.idle(f.seen)
		f.view.flush()
	}
}

// drain waits for the rest of the logs, but not for ever: a log that can't be sealed now
// (its store is full, say) must not hold the result back.
func (f *follower) drain(ctx context.Context) {
	done := make(chan struct{})
	go func() { f.all.Wait(); close(done) }()
	f.mu.Lock()
	f.lastLog = time.Now()
	f.mu.Unlock()
	for {
		f.mu.Lock()
		left := drainPatience - time.Since(f.lastLog)
		f.mu.Unlock()
		if left <= 0 {
			f.mu.Lock()
			f.view.note("The end of a log has not come yet. See it later with: fairlead logs " + f.run)
			f.mu.Unlock()
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-done:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// followLog shows one attempt's log until it is sealed.
func (f *follower) followLog(ctx context.Context, job *fairleadv1.Job, attempt *fairleadv1.Attempt) {
	split := &splitter{}
	show := func(pieces []piece) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lastLog = time.Now()
		f.quiet.Reset(idleAfter)
		if len(pieces) > 0 {
			f.view.lines(job, attempt, pieces)
			f.view.flush()
		}
	}
	_, err := f.client.FollowLog(ctx, &fairleadv1.FollowLogRequest{Attempt: attempt.GetId()},
		func(content []byte, offset int64) error {
			show(split.add(content, offset))
			return nil
		})
	show(split.rest())
	if err != nil && ctx.Err() == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.view.note(fmt.Sprintf("The log of %s, attempt %d, can't be followed: %s", job.GetKey(), attempt.GetNumber(),
			client.Explain(err)))
	}
}

// splitter makes lines of the pieces in which a log arrives.
type splitter struct {
	held   []byte
	offset int64 // of held's first byte
	next   int64 // offset that should come next
}

// add takes content. A jump in offsets is a place where the server's record is damaged.
func (s *splitter) add(content []byte, offset int64) []piece {
	var out []piece
	if offset > s.next {
		out = append(s.rest(), piece{offset: s.next, gap: offset - s.next, end: true})
	}
	s.next = offset + int64(len(content))
	if len(s.held) == 0 {
		s.offset = offset
	}
	s.held = append(s.held, content...)
	rest := s.held
	for len(rest) > 0 {
		n := bytes.IndexByte(rest, '\n')
		if n < 0 && len(rest) < lineBytesMax {
			break
		}
		p := piece{offset: s.offset, end: n >= 0 && n <= lineBytesMax}
		taken := lineBytesMax
		if p.end {
			p.text, taken = rest[:n], n+1
		} else {
			p.text = rest[:lineBytesMax]
		}
		out = append(out, p)
		rest = rest[taken:]
		s.offset += int64(taken)
	}
	// What is left starts a buffer of its own: the pieces keep the old one.
	s.held = append([]byte(nil), rest...)
	return out
}

// rest gives what is left when no more comes.
func (s *splitter) rest() []piece {
	if len(s.held) == 0 {
		return nil
	}
	p := piece{text: s.held, offset: s.offset}
	s.held = nil
	return []piece{p}
}
