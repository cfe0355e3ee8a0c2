package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
)

// CrowdOptions are those of Crowd.
type CrowdOptions struct {
	Runners int // each with a registration and a session of its own, and one slot
	// Connections carry the polls of all runners, over HTTP/2; 0: each runner has a connection of
	// its own, over HTTP/1.1.
	Connections int
	Servers     int           // of a fleet, which the runners spread over
	Poll        time.Duration // what a poll asks to wait
	Window      time.Duration // that is watched, when all of them wait
	MemberTTL   time.Duration // how long a server of the fleet that says nothing is a member; 0: memberTTL
	Jobs        int           // then so many runners, drawn at random, get a job each
}

const (
	crowdJob    = "crowd.yml"
	chosenLabel = "chosen" // of runners that get a job at the end
	// crowdPatience is how long a runner of the crowd may take to begin its first poll.
	crowdPatience = time.Minute
	// crowdBetween is the part of the crowd that may be between two polls.
	crowdBetween = 50
	// crowdTell is after how many registrations there is word of it.
	crowdTell = 5000
	// crowdAgain is the pause after an exchange that failed.
	crowdAgain = time.Second
)

// Aims of a runner that waits, in KiB of the server's memory (of a connection of its own, and of all
// servers of a fleet, the second), and of all of them.
const (
	crowdAimShared = 20
	crowdAimOwn    = 24
	crowdAimCPU    = 20 // percent of a core
	crowdAimP99    = 50 // ms
)

// crowd is runners that wait.
type crowd struct {
	*stage
	of        CrowdOptions
	chosen    map[int]bool
	servers   []*server
	clients   []runnerv1connect.RunnerServiceClient // over the shared connections, server by server
	waiting   atomic.Int64                          // polls under way
	exchanges atomic.Int64
	orders    chan taken // of the chosen

	mu       sync.Mutex
	failures int
	failure  error // the first
}

// Crowd measures what runners cost a server that have nothing to do: each holds a long poll. Then
// some of them get a job, for the time from ready to a verified manifest.
func Crowd(ctx context.Context, o Options, of CrowdOptions) (*Report, error) {
	over := fmt.Sprintf("HTTP/2, %d connections", of.Connections)
	if of.Connections == 0 {
		over = "HTTP/1.1, a connection each"
	}
	settings := map[string]any{"runners": of.Runners, "transport": over, "poll": of.Poll.String(),
		"window": of.Window.String(), "jobs": of.Jobs}
	o.Pprof = true
	if of.Servers > 1 {
		settings["servers"] = of.Servers
		of.MemberTTL = cmp.Or(of.MemberTTL, memberTTL)
		settings["member-ttl"] = of.MemberTTL.String()
		shared, err := os.MkdirTemp(o.Folder, "fairlead-bench-shared-")
		if err != nil {
			return nil, fmt.Errorf("bench runners: %w", err)
		}
		defer func() { _ = removeAll(shared) }()
		o.Flags = []string{"--shared", shared, "--member-ttl", of.MemberTTL.String(), "--name", "server-0"}
	}
	return measure(ctx, "runners", o, "server", settings, func(ctx context.Context, s *stage) (err error) {
		c := &crowd{stage: s, of: of, chosen: map[int]bool{}, orders: make(chan taken, 1)}
		for _, i := range rand.Perm(of.Runners)[:of.Jobs] {
			c.chosen[i] = true
		}
		defer func() { err = errors.Join(err, c.endFleet()) }()
		if err := c.startFleet(ctx); err != nil {
			return err
		}
		for i := range of.Connections {
			c.clients = append(c.clients, runnerClient(c.serverOf(i).url, sharedTransport()))
		}
		return c.run(ctx)
	})
}

// startFleet starts the servers beside the first.
func (c *crowd) startFleet(ctx context.Context) error {
	c.servers = []*server{c.server}
	for i := 1; i < c.of.Servers; i++ {
		name := fmt.Sprint("server-", i)
		o := c.options
		o.Flags = slices.Concat(o.Flags[:len(o.Flags)-1], []string{name})
		further, err := startServer(ctx, o, "server", filepath.Join(c.folder, name))
		if err != nil {
			return err
		}
		c.servers = append(c.servers, further)
	}
	return nil
}

func (c *crowd) endFleet() (err error) {
	for _, further := range c.servers[1:] {
		err = errors.Join(err, further.stop())
	}
	return err
}

func (c *crowd) serverOf(i int) *server { return c.servers[i%len(c.servers)] }

// taken is what all servers took so far.
func (c *crowd) taken() (sum Usage, err error) {
	for _, s := range c.servers {
		u, err := usageOf(s.pid())
		if err != nil {
			return sum, err
		}
		sum.RSS, sum.RSSPeak, sum.Anonymous = sum.RSS+u.RSS, sum.RSSPeak+u.RSSPeak, sum.Anonymous+u.Anonymous
		sum.CPU, sum.CPUChildren, sum.Written = sum.CPU+u.CPU, sum.CPUChildren+u.CPUChildren, sum.Written+u.Written
		sum.Threads += u.Threads
	}
	return sum, nil
}

// memory is what all servers hold.
func (c *crowd) memory(ctx context.Context) (sum held, err error) {
	for _, s := range c.servers {
		h, err := s.memory(ctx)
		if err != nil {
			return sum, err
		}
		sum.rss, sum.live, sum.stacks = sum.rss+h.rss, sum.live+h.live, sum.stacks+h.stacks
		sum.goroutines += h.goroutines
	}
	return sum, nil
}

// sharedTransport carries many exchanges over one connection, without TLS.
func sharedTransport() http.RoundTripper {
	t := &http.Transport{Protocols: new(http.Protocols)}
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// ownTransport is one connection of one runner.
func ownTransport() http.RoundTripper {
	return &http.Transport{MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1, WriteBufferSize: 1 << 10, ReadBufferSize: 1 << 10}
}

func (c *crowd) run(ctx context.Context) error {
	first, err := c.introduce(ctx, map[string]string{crowdJob: workflowFor(chosenLabel)})
	if err != nil {
		return err
	}
	if err := c.settleFirst(ctx); err != nil {
		return err
	}
	before, err := c.memory(ctx)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	group, work := errgroup.WithContext(work)
	if err := c.gather(ctx, work, group); err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	group.Go(func() error {
		defer stop()
		if err := c.watch(work, before); err != nil {
			return err
		}
		return c.wakeChosen(work, first)
	})
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// settleFirst lets a runner of no further use take the job of the run that introduced the
// repository.
func (c *crowd) settleFirst(ctx context.Context) error {
	a, err := c.enlist(ctx, "first", 1)
	if err != nil {
		return err
	}
	var o order
	if err := c.retries.again(ctx, func() (err error) { o, err = a.wait(ctx); return err }); err != nil {
		return err
	}
	return a.conclude(ctx, o, 0)
}

// gather registers all runners and lets each begin to poll at once.
func (c *crowd) gather(ctx, work context.Context, group *errgroup.Group) error {
	c.progress("registering %d runners", c.of.Runners)
	begun := time.Now()
	used, err := c.taken()
	if err != nil {
		return err
	}
	enlist, enlisting := errgroup.WithContext(ctx)
	enlist.SetLimit(enlistAtOnce)
	desk := runnerClient(c.server.url, &http.Transport{MaxIdleConnsPerHost: enlistAtOnce})
	var slow pace
	var registered atomic.Int64
	for i := range c.of.Runners {
		if enlisting.Err() != nil {
			break
		}
		enlist.Go(func() error {
			var labels []string
			if c.chosen[i] {
				labels = []string{chosenLabel}
			}
			// A runner registers over a connection that it needs no more, and polls over another.
			pause(enlisting, slow.next())
			before, _ := c.retries.count()
			began := time.Now()
			a, err := c.enlistOver(enlisting, desk, fmt.Sprint("agent-", i), 1, labels)
			if err != nil {
				return err
			}
			tries, _ := c.retries.count()
			slow.answered(began, time.Now(), tries > before)
			if done := registered.Add(1); done%crowdTell == 0 {
				c.progress("%d runners are registered, %d wait; the rest between two registrations is %s", done,
					c.waiting.Load(), slow.next().Round(time.Millisecond))
			}
			if c.of.Connections > 0 {
				a.client = c.clients[i%len(c.clients)]
			} else {
				a.client = runnerClient(c.serverOf(i).url, ownTransport())
			}
			group.Go(func() error { return c.serve(work, a, c.chosen[i]) })
			return nil
		})
	}
	if err := enlist.Wait(); err != nil {
		return err
	}
	took := time.Since(begun).Seconds()
	now, err := c.taken()
	if err != nil {
		return err
	}
	c.report.value("registration", "token and identity, eight beside each other, while those before poll",
		float64(c.of.Runners)/took, "runners/s")
	if slow.most > 0 {
		c.report.value("· longest rest", "between two registrations of one of the eight: the machine was behind",
			float64(slow.most.Milliseconds()), "ms")
	}
	c.report.value("· server's processor time", "of a registration, and the polls meanwhile",
		now.since(used).CPU/float64(c.of.Runners)*1e6, "us")
	// Some are always between two polls.
	all := int64(c.of.Runners - c.of.Runners/crowdBetween)
	for deadline := time.Now().Add(crowdPatience); c.waiting.Load() < all; {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d runners wait after %s: %w", c.waiting.Load(), c.of.Runners, crowdPatience, c.first())
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// serve polls until work ends. A chosen runner takes one job and offers its slot no more.
func (c *crowd) serve(ctx context.Context, a *agent, chosen bool) error {
	offers := []string{fmt.Sprintf("%s/0/%d", a.runner, a.offer)}
	// Polls begin as they would if the runners had come over a whole poll's time.
	a.patience = c.of.Poll/10 + rand.N(c.of.Poll)
	for ctx.Err() == nil {
		c.waiting.Add(1)
		answer, err := a.exchange(ctx, &runnerv1.ExchangeRequest{WaitMs: a.patience.Milliseconds(), Offers: offers})
		c.waiting.Add(-1)
		c.exchanges.Add(1)
		a.patience = c.of.Poll
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			c.failed(err)
			pause(ctx, crowdAgain)
		case len(answer.GetLeases()) == 0:
		case !chosen:
			return fmt.Errorf("runner %s got a job that another was to have", a.runner)
		default:
			o, err := a.verify(answer, offers[0])
			if err != nil {
				return err
			}
			if err := a.conclude(ctx, o, 0); err != nil {
				return err
			}
			offers = nil
			select {
			case c.orders <- taken{string(o.manifest.Run), string(o.manifest.Job), o.at}:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

func (c *crowd) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures++; c.failure == nil {
		c.failure = err
	}
}

func (c *crowd) first() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// watch takes what the server holds and does while everybody waits.
func (c *crowd) watch(ctx context.Context, before held) error {
	c.progress("%d runners wait; watching for %s", c.of.Runners, c.of.Window)
	begun, exchanges := time.Now(), c.exchanges.Load()
	used, err := c.taken()
	if err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	profile := errgroup.Group{}
	if c.options.Profile != "" {
		profile.Go(func() error { return c.profile(ctx, c.of.Window) })
	}
	var most int64
	for time.Since(begun) < c.of.Window {
		if pause(ctx, time.Second); ctx.Err() != nil {
			return ctx.Err()
		}
		now, err := c.taken()
		if err != nil {
			return err
		}
		most = max(most, now.RSS)
	}
	took := time.Since(begun).Seconds()
	if err := errors.Join(c.end(), profile.Wait()); err != nil {
		return err
	}
	now, err := c.taken()
	if err != nil {
		return err
	}
	c.report.Server.Usage = now.since(used)
	exchanges = c.exchanges.Load() - exchanges
	after, err := c.memory(ctx)
	if err != nil {
		return err
	}
	c.tell(before, after, most, exchanges, took)
	return nil
}

func (c *crowd) tell(before, after held, most, exchanges int64, took float64) {
	r, n := c.report, float64(c.of.Runners)
	each := func(bytes int64) float64 { return float64(bytes) / n / 1024 }
	aim := float64(crowdAimShared)
	if c.of.Connections == 0 || c.of.Servers > 1 {
		aim = crowdAimOwn
	}
	r.value("memory of a runner", "resident memory at most in the window, less that before, by runners",
		each(most-before.rss), "KiB")
	r.aim(aim)
	r.value("· of it live objects", "heap after a collection, less that before", each(after.live-before.live), "KiB")
	r.value("· of it stacks", "of goroutines", each(after.stacks-before.stacks), "KiB")
	r.value("resident memory before", "without runners", float64(before.rss)/mebi, "MiB")
	r.value("resident memory", "at most in the window", float64(most)/mebi, "MiB")
	r.value("goroutines of a runner", "", float64(after.goroutines-before.goroutines)/n, "")
	r.value("processor", "share of one core in the window", 100*r.Server.Usage.CPU/took, "%")
	r.aim(crowdAimCPU)
	r.value("exchanges", "polls answered and begun again", float64(exchanges)/took, "/s")
	r.value("· processor time of one", "everything else that the server does included",
		r.Server.Usage.CPU/max(float64(exchanges), 1)*1e6, "us")
	r.value("failures", "exchanges without an answer", float64(c.failures), "")
	if c.failure != nil {
		r.note("the first failure: %v", c.failure)
	}
	if c.of.Servers > 1 {
		c.tellLapses()
	}
}

// tellLapses counts leases that ran out, of servers that all live: the machine had more to do than it
// can.
func (c *crowd) tellLapses() {
	sum := 0
	for i, s := range c.servers {
		n, said := s.lapsesOf()
		sum += n
		for _, words := range said {
			c.report.note("server-%d said: %s", i, words)
		}
	}
	c.report.value("leases that ran out", "of the servers' memberships, since they were started", float64(sum), "")
}

// wakeChosen gives every chosen runner a job, one after the other.
func (c *crowd) wakeChosen(ctx context.Context, first accepted) error {
	if c.of.Jobs == 0 {
		return nil
	}
	c.progress("%d jobs, one at a time, for runners drawn at random", c.of.Jobs)
	ready := newTimes()
	for range c.of.Jobs {
		// One that a server refused did not happen; of one without an answer the client knows by its key.
		if err := c.retries.again(ctx, func() error { _, err := c.ask(ctx, first, crowdJob); return err }); err != nil {
			return err
		}
		var got taken
		select {
		case got = <-c.orders:
		case <-ctx.Done():
			return ctx.Err()
		}
		var at time.Time
		err := c.retries.again(ctx, func() (err error) { at, err = c.readyAt(ctx, got); return err })
		if err != nil {
			return err
		}
		if err := ready.add(gap(at, got.at)); err != nil {
			return err
		}
	}
	c.report.spread("ready until manifest", "of a runner drawn at random, which has verified it", ready)
	if s := ready.spread(); s.P99 > crowdAimP99 {
		c.report.note("p99 of ready until manifest is to be %d ms at most", crowdAimP99)
	}
	return nil
}
