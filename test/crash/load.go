package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect/v2"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Limits of the load: enough that something is under way wherever the next fault hits, and
// little enough that two cores come to an end.
const (
	openMost   = 14               // runs that are not concluded
	openFew    = 4                // the same in a guest, which has one slow processor
	callTime   = 8 * time.Second  // of one try
	followTime = 45 * time.Second // of one follower
	creators   = 3
	followers  = 2
	readers    = 2
)

// load is what clients do while the siege goes on.
type load struct {
	*Siege
	ctx  context.Context
	work sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	next   int
	open   map[string]bool // runs that nobody has seen concluded
	begun  int             // orders that have no run yet
	recent []string        // runs, newest last
}

// Load starts the clients; the function it returns ends them and waits.
func (s *Siege) Load(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{Siege: s, ctx: ctx, random: rand.New(rand.NewPCG(s.Seed, 0x6c6f6164)), open: map[string]bool{}}
	for range creators {
		l.work.Go(l.create)
	}
	for range followers {
		l.work.Go(l.follow)
	}
	for range readers {
		l.work.Go(l.read)
	}
	l.work.Go(l.change)
	l.work.Go(func() { s.Person(ctx) })
	l.work.Go(l.watchWorld)
	return func() {
		cancel()
		l.work.Wait()
	}
}

func (l *load) openMax() int {
	if os.Getenv(guestVariable) != "" {
		return openFew
	}
	return openMost
}

func (l *load) draw(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(n)
}

// callersEach is how many clients speak with each server: several, so that they hold
// connections and acknowledgements of their own.
const callersEach = 5

// caller gives one of the clients of a server. They have no patience, so that every try is
// one operation of a history.
func (s *Siege) caller(server int) *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers == nil {
		s.callers = make([][]*client.Client, len(s.servers))
	}
	if len(s.callers[server]) < callersEach {
		c, err := s.client(server, client.Options{Patience: -1, HTTP: oneTry()})
		if err != nil {
			panic(err) // the address is ours
		}
		s.callers[server] = append(s.callers[server], c)
		return c
	}
	s.turn++
	return s.callers[server][s.turn%callersEach]
}

// create asks for runs, each with a key of its own, until it is told of one; some keys are
// used by several at once, some again later, some with another body.
func (l *load) create() {
	for l.ctx.Err() == nil {
		l.mu.Lock()
		busy := len(l.open)+l.begun >= l.openMax()
		if !busy {
			l.begun++
		}
		l.mu.Unlock()
		if busy {
			pause(l.ctx, 100*time.Millisecond)
			continue
		}
		o := l.order()
		var beside sync.WaitGroup
		if l.draw(3) == 0 {
			for range 1 + l.draw(2) {
				beside.Go(func() { l.insist(o) })
			}
		}
		l.insist(o)
		beside.Wait()
		l.mu.Lock()
		l.begun--
		l.mu.Unlock()
		switch l.draw(12) {
		case 0, 1, 2:
			l.ask(o, 0) // once more: the answer got lost in somebody's pocket
		case 3:
			l.ask(o, 1)
		}
		if old := l.Book.allOrders(); l.draw(6) == 0 {
			l.ask(old[l.draw(len(old))], 0)
		}
	}
}

func (l *load) order() *order {
	l.mu.Lock()
	l.next++
	o := &order{key: fmt.Sprintf("key-%d-%d", l.Seed, l.next), sort: sortOf(l.random),
		source: l.next % len(l.sources)}
	l.mu.Unlock()
	l.Book.mu.Lock()
	l.Book.orders[o.key] = o
	l.Book.mu.Unlock()
	return o
}

// insist asks until there is an answer, as a client must that wants its run.
func (l *load) insist(o *order) {
	for l.ctx.Err() == nil {
		if l.ask(o, 0) {
			return
		}
		pause(l.ctx, time.Duration(20+l.draw(400))*time.Millisecond)
	}
}

// ask is one try. It reports whether there is nothing left to ask for: a server that can't
// take the order now, because its disk is full, is asked again.
func (l *load) ask(o *order, body int) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), callTime)
	defer cancel()
	server := l.draw(l.Servers)
	call, at := createCall{o.key, body}, span()
	answer, run := l.send(ctx, server, o, body)
	if answer.kind != silent {
		at[1] = int64(now())
	}
	l.Book.createdRun(o, call, answer, at)
	if run != nil {
		l.Book.saw(run, at)
		l.noteRun(run)
	}
	return answer.kind == answered || answer.kind == mismatch
}

// send sends the request and says what the answer means.
func (s *Siege) send(ctx context.Context, server int, o *order, body int) (createAnswer, *fairleadv1.Run) {
	from := s.sources[o.source]
	r := &fairleadv1.CreateRunRequest{Repository: from.repository, Commit: from.commit, Ref: "refs/heads/main",
		Workflow: o.sort.file, Event: "workflow_dispatch", Title: fmt.Sprintf("%s, body %d", o.key, body)}
	answer, err := s.caller(server).Runs.CreateRun(client.WithKey(ctx, o.key), r)
	if err == nil {
		s.Book.token(answer.GetToken())
		return createAnswer{kind: answered, run: answer.GetRun().GetRun(), repeat: answer.GetRepeat()}, answer.GetRun()
	}
	switch kind, code := s.meaning(err); {
	case code == string(domain.CodeIdempotencyMismatch):
		return createAnswer{kind: mismatch}, nil
	default:
		return createAnswer{kind: kind}, nil
	}
}

// meaning says what an error leaves open. Only an answer that the server gave after it
// had decided tells that nothing happened.
func (s *Siege) meaning(err error) (kind, code string) {
	answer := client.Refusal(err)
	if answer == nil {
		s.Book.code("no answer: "+connect.CodeOf(err).String(), err.Error())
		return silent, ""
	}
	code = answer.GetCode()
	s.Book.code(code, answer.GetMessage())
	switch code {
	case "internal", "unavailable", "cancelled", "deadline_exceeded", string(domain.CodeNotOwner):
		return silent, code
	}
	return refused, code
}

// noteRun keeps track of what is open, to throttle and to choose from.
func (l *load) noteRun(run *fairleadv1.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := run.GetRun()
	if run.GetOutcome() == "" {
		l.open[id] = true
	} else {
		delete(l.open, id)
	}
	if !slices.Contains(l.recent, id) {
		l.recent = append(l.recent, id)
		if len(l.recent) > 30 {
			l.recent = l.recent[1:]
		}
	}
}

// some draws a run: open ones rather than others.
func (l *load) some() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var from []string
	for id := range l.open {
		from = append(from, id)
	}
	slices.Sort(from)
	if len(from) == 0 || l.random.IntN(4) == 0 {
		from = l.recent
	}
	if len(from) == 0 {
		return ""
	}
	return from[l.random.IntN(len(from))]
}

// look reads a run once.
func (s *Siege) look(ctx context.Context, server int, id string) (*fairleadv1.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	at := span()
	answer, err := s.caller(server).Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: id})
	if err != nil {
		_, _ = s.meaning(err)
		return nil, err
	}
	at[1] = int64(now())
	s.Book.token(answer.GetToken())
	s.Book.saw(answer.GetRun(), at)
	return answer.GetRun(), nil
}

// read looks at runs again and again.
func (l *load) read() {
	for l.ctx.Err() == nil {
		if id := l.some(); id != "" {
			if run, err := l.look(l.ctx, l.draw(l.Servers), id); err == nil {
				l.noteRun(run)
			}
		}
		pause(l.ctx, time.Duration(50+l.draw(250))*time.Millisecond)
	}
}

// change cancels some runs and retries some that failed. Which ones depends on the run
// alone, so that each is cancelled and retried with one key.
func (l *load) change() {
	for l.ctx.Err() == nil {
		pause(l.ctx, time.Duration(200+l.draw(600))*time.Millisecond)
		id := l.some()
		if id == "" {
			continue
		}
		run, err := l.look(l.ctx, l.draw(l.Servers), id)
		if err != nil {
			continue
		}
		l.noteRun(run)
		kind := l.sortOfRun(id)
		switch last := id[len(id)-1]; {
		case run.GetOutcome() == "" && run.GetSummary().GetRound() == 1 && last%4 == 0 && kind != "fails.yml":
			l.request(id, "cancel", "")
		case run.GetOutcome() == "failure" && run.GetSummary().GetRound() == 1 && kind == "fails.yml":
			for _, j := range run.GetJobs() {
				l.request(id, "retry", j.GetId())
			}
		}
	}
}

func (l *load) sortOfRun(id string) string {
	l.Book.mu.Lock()
	defer l.Book.mu.Unlock()
	if k := l.Book.runs[id]; k != nil {
		return k.sort.file
	}
	return ""
}

// request is one cancel or retry, sent again with its key until there is an answer.
func (l *load) request(id, verb, job string) {
	for l.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), callTime)
		ctx = client.WithKey(ctx, verb+"-"+id)
		call, at := runCall{id, verb}, span()
		c := l.caller(l.draw(l.Servers))
		var run *fairleadv1.Run
		var token string
		var err error
		if verb == "cancel" {
			var a *fairleadv1.CancelRunResponse
			a, err = c.Runs.CancelRun(ctx, &fairleadv1.CancelRunRequest{Run: id, Reason: "nobody needs it"})
			run, token = a.GetRun(), a.GetToken()
		} else {
			var a *fairleadv1.RetryJobResponse
			a, err = c.Runs.RetryJob(ctx, &fairleadv1.RetryJobRequest{Job: job})
			run, token = a.GetRun(), a.GetToken()
		}
		cancel()
		answer := runAnswer{kind: answered}
		if err != nil {
			answer.kind, answer.code = l.meaning(err)
		}
		if answer.kind != silent {
			at[1] = int64(now())
		}
		l.Book.asked(call, answer, at)
		if err == nil {
			l.Book.token(token)
			l.Book.saw(run, at)
			l.noteRun(run)
		}
		if answer.kind != silent {
			return
		}
		pause(l.ctx, time.Duration(50+l.draw(400))*time.Millisecond)
	}
}

// follow follows logs as they are written, through whatever happens.
func (l *load) follow() {
	var followers []*client.Client // patient ones: they come back when the stream was cut
	for server := range l.servers {
		c, err := l.client(server, client.Options{})
		if err != nil {
			l.Book.finding("%v", err)
			return
		}
		followers = append(followers, c)
	}
	for l.ctx.Err() == nil {
		attempt := l.attemptToFollow()
		if attempt == "" {
			pause(l.ctx, 200*time.Millisecond)
			continue
		}
		ctx, cancel := context.WithTimeout(l.ctx, followTime)
		note := func(content []byte, offset int64) error {
			l.Book.logged(attempt, content, offset)
			return nil
		}
		request := &fairleadv1.FollowLogRequest{Attempt: attempt}
		_, err := followers[l.draw(l.Servers)].FollowLog(ctx, request, note)
		if answer := client.Refusal(err); answer != nil {
			l.Book.code(answer.GetCode(), answer.GetMessage())
		}
		cancel()
	}
}

func (l *load) attemptToFollow() string {
	id := l.some()
	if id == "" {
		return ""
	}
	run, err := l.look(l.ctx, l.draw(l.Servers), id)
	if err != nil {
		return ""
	}
	for _, j := range run.GetJobs() {
		if n := len(j.GetAttempts()); n > 0 && j.GetState() == "active" {
			return j.GetAttempts()[n-1].GetId()
		}
	}
	return ""
}

// stillMost is how long the observer may stand still, on a busy machine. One that was
// stopped for longer has seen nothing and asked nothing meanwhile, so what it thinks of
// others' delays is worth nothing.
const stillMost = 15 * time.Second

// watchWorld reads the marks soon after they were made, and notices when nobody did.
func (l *load) watchWorld() {
	for l.ctx.Err() == nil {
		begun := now()
		if err := l.world.read(); err != nil {
			l.Book.finding("%v", err)
			return
		}
		pause(l.ctx, 50*time.Millisecond)
		l.Siege.mu.Lock()
		l.still = max(l.still, begun.since())
		l.Siege.mu.Unlock()
	}
}

// Person looks at attempts that nobody knows the end of, as an operator does: only when no
// process of the attempt is left anywhere it looks at what the outside shows, and decides.
func (s *Siege) Person(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		s.decideAll(ctx)
	}
}

// decideAll settles what can be settled, and says how much waits for a decision.
func (s *Siege) decideAll(ctx context.Context) (waiting int) {
	list, err := s.list(ctx, "open")
	if err != nil {
		return 0
	}
	for _, summary := range list {
		run, err := s.look(ctx, 0, summary.GetRun())
		if err != nil || !run.GetAttention() {
			continue
		}
		for _, j := range run.GetJobs() {
			for _, a := range j.GetAttempts() {
				if a.GetUncertain() && a.GetOutcome() == "" && j.GetEffectful() {
					waiting++
					s.decide(ctx, a.GetId())
				}
			}
		}
	}
	return waiting
}

func (s *Siege) decide(ctx context.Context, attempt string) {
	if len(processesWith("FAIRLEAD_ATTEMPT="+attempt)) > 0 {
		return
	}
	if s.world.read() != nil {
		return
	}
	effect, then := "none", "retry"
	for _, m := range s.world.of(domain.AttemptID(attempt)) {
		if m.Verb == "effect" {
			effect, then = "confirmed", "success"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	s.Book.deciding(attempt) // it may act although the answer gets lost
	answer, err := s.caller(0).Runs.SettleAttempt(client.WithKey(ctx, "settle-"+attempt+"-"+then),
		&fairleadv1.SettleAttemptRequest{Attempt: attempt, Effect: effect, Then: then, Note: "looked at the world"})
	if err != nil {
		_, _ = s.meaning(err) // not yet, or no answer: the next look tells
		return
	}
	s.Book.token(answer.GetToken())
	s.Book.settled(attempt)
}

// list gives all runs in a state ("open", "" for all), newest first.
func (s *Siege) list(ctx context.Context, state string) (out []*fairleadv1.RunSummary, err error) {
	for before := ""; ; {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		page, err := s.caller(0).Runs.ListRuns(ctx, &fairleadv1.ListRunsRequest{Limit: 500, Before: before})
		cancel()
		if err != nil {
			_, _ = s.meaning(err)
			return nil, err
		}
		for _, r := range page.GetRuns() {
			if state == "" || r.GetOutcome() == "" {
				out = append(out, r)
			}
		}
		if before = page.GetNext(); before == "" {
			return out, nil
		}
	}
}

// lastJSON reads the last line of a program's output.
func lastJSON(out []byte, into any) error {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) == 0 {
		return errors.New("there is none")
	}
	return json.Unmarshal(lines[len(lines)-1], into)
}

// revision is the commit of the source under test, with a mark when it has changes.
func revision() string {
	out, err := run(".", os.Environ(), "git", "describe", "--always", "--dirty", "--abbrev=12")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
