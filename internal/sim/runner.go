package sim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/runner"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// machine is where a runner runs. Its agent comes and goes; supervisors and their jobs live
// beside it; the disk outlives both.
type machine struct {
	world    *world
	name     string
	capacity int
	labels   []string
	skew     time.Duration
	rate     float64

	// On disk:
	id       identity
	boot     uint64
	attempts map[string]*attempt

	agent *process // the runner
	jobs  *process // supervisors, and everything below them
	steps *runner.Steps
	at    int    // the server it speaks with
	plans uint64 // stale timers are told by it
	lied  bool   // vanished for good

	second time.Duration // of the world, and the exchanges in it that said nothing
	idle   int
	stays  bool // never vanishes: the pool would have nobody left
}

// identity is what a runner keeps of its registration.
type identity struct {
	token, resume   string
	runner, session string
	pool            string
	keys            []*runnerv1.SigningKey
	timing          *runnerv1.Timing
}

func (m *machine) now() supervisor.Instant {
	return supervisor.Instant(paced(m.world.sched.now, m.rate)) + 1
}

// when is the world's time at an instant of the machine.
func (m *machine) when(at supervisor.Instant) time.Duration {
	if m.rate == 1 {
		return time.Duration(at - 1)
	}
	return time.Duration(math.Ceil(float64(at-1) / m.rate))
}

func (m *machine) wall() time.Time { return m.world.wall().Add(m.skew) }

// turnOn boots the machine and starts its runner.
func (m *machine) turnOn() {
	m.jobs = m.world.sched.process(m.name + "-jobs").on(m.rate)
	for _, id := range slices.Sorted(maps.Keys(m.attempts)) {
		m.attempts[id].alive = false
	}
	m.startAgent()
}

func (m *machine) startAgent() {
	m.boot++
	m.steps = nil
	m.agent = m.world.sched.process(fmt.Sprintf("%s.%d", m.name, m.boot)).on(m.rate)
	m.world.line(m.name, "+agent", "boot %d", m.boot)
	m.world.sched.after(0, m.agent, m.enrol)
}

// enrol registers, or goes on with the registration there is.
func (m *machine) enrol() {
	w := m.world
	if m.id.runner != "" {
		m.begin()
		return
	}
	req := &runnerv1.RegisterRequest{Protocol: runner.Protocol, Token: m.id.token, Name: m.name, Labels: m.labels,
		Capacity: uint32(m.capacity), Isolation: "process", Version: "sim", Os: "linux", Arch: "amd64",
		ResumeDigest: domain.DigestOf([]byte(m.id.resume)).Hex()}
	w.call(call{from: m.agent, name: m.name, to: m.server(), what: "register",
		handle: func(s *served) (any, error) { return s.register(req) },
		done: func(answer any, err error) {
			if err != nil {
				m.at++
				w.sched.after(between(w.stream(m.name), 100*time.Millisecond, 3*time.Second), m.agent, m.enrol)
				return
			}
			resp, _ := answer.(*runnerv1.RegisterResponse)
			m.id.runner, m.id.session, m.id.pool = resp.GetRunner(), resp.GetSession(), resp.GetPool()
			m.id.keys, m.id.timing = resp.GetKeys(), resp.GetTiming()
			w.line(m.name, "registered", "%s capacity %d", short(m.id.runner), m.capacity)
			m.begin()
		}}, 10*time.Second)
}

func (m *machine) server() *server { return m.world.servers[m.at%len(m.world.servers)] }

// begin makes the runner's step function, with what an earlier process of it left.
func (m *machine) begin() {
	steps, err := runner.NewSteps(runner.StepsConfig{Runner: m.id.runner, Session: m.id.session, Resume: m.id.resume,
		Boot: m.boot, Capacity: m.capacity, Keys: m.id.keys, Timing: m.id.timing, Wall: m.wall,
		Jitter: m.world.stream(m.name).Float64})
	if err != nil {
		panic(fmt.Sprintf("start runner %s: %v", m.name, err)) // the keys are the world's own
	}
	m.steps = steps
	for _, id := range slices.Sorted(maps.Keys(m.attempts)) {
		a := m.attempts[id]
		a.read = a.kept()
		m.world.line(m.name, "adopts", "%s alive %t", short(a.id), a.alive)
		steps.Adopt(supervisor.State{Attempt: domain.AttemptID(id), Epoch: a.order.Epoch, Slot: a.order.Slot,
			AbandonAt: a.abandonAt})
	}
	m.settle()
}

// settle plans and carries out until nothing more is due.
func (m *machine) settle() {
	for m.steps != nil {
		told := m.tell()
		effects, next := m.steps.Plan(m.now())
		for _, e := range effects {
			m.do(e)
		}
		if len(effects) == 0 && !told {
			m.plans++
			plan := m.plans
			m.world.sched.at(m.when(next), m.agent, func() {
				if m.plans == plan {
					m.settle()
				}
			})
			return
		}
	}
}

// tell hands over what attempts have spooled, as far as there is room for it.
func (m *machine) tell() (told bool) {
	for _, id := range slices.Sorted(maps.Keys(m.attempts)) {
		a := m.attempts[id]
		for !a.ended && m.steps.Room(id) {
			chunks, progress, result := a.next()
			if len(chunks)+len(progress) == 0 && result == nil {
				break
			}
			told = true
			m.steps.Spooled(id, chunks, progress, result, m.now())
		}
		if !a.alive && !a.ended && a.read == len(a.frames) {
			a.ended, told = true, true
			var fault error
			if !a.concluded {
				fault = errors.New("the supervisor left no result")
			}
			m.world.line(m.name, "job-gone", "%s result %t", short(a.id), a.concluded)
			m.steps.Ended(id, fault, m.now())
		}
	}
	return told
}

// tidy:long a switch over the effects of the runner
func (m *machine) do(e any) {
	w := m.world
	switch e := e.(type) {
	case runner.Send:
		m.send(e)
	case runner.Spawn:
		if w.chance(spawnFails) {
			id := string(e.Manifest.Attempt)
			w.line(m.name, "!"+string(spawnFails), "%s", short(id))
			m.steps.Ended(id, errors.New("the machine has no process left"), m.now())
			return
		}
		m.spawn(e)
	case runner.Extend:
		if a := m.attempts[e.Attempt]; a != nil {
			a.extend(e.AbandonAt)
		}
	case runner.Cancel:
		if a := m.attempts[e.Attempt]; a != nil {
			a.cancel(e.Reason, e.Grace)
		}
	case runner.Kill:
		if a := m.attempts[e.Attempt]; a != nil {
			w.line(m.name, "kills", "%s force %t", short(e.Attempt), e.Force)
			a.kill()
		}
	case runner.Acknowledge:
		if a := m.attempts[e.Attempt]; a != nil {
			a.chunksAcked, a.progressAcked = max(a.chunksAcked, e.Chunks), max(a.progressAcked, e.Progress)
		}
	case runner.Forget:
		w.line(m.name, "forgets", "%s", short(e.Attempt))
		delete(m.attempts, e.Attempt)
	case runner.Note:
		w.line(m.name, "note", "%s", e.Text)
	}
}

// idleMax is how many exchanges of a runner that hand nothing over may begin in one second. A
// runner that is answered at once although there is nothing new makes hundreds.
const idleMax = 40

// send is one exchange with a server.
func (m *machine) send(e runner.Send) {
	w, steps := m.world, m.steps
	if second := w.sched.now / time.Second; second != m.second {
		m.second, m.idle = second, 0
	}
	if len(e.Request.GetChunks())+len(e.Request.GetProgress())+len(e.Request.GetResults())+
		len(e.Request.GetDeclines()) == 0 {
		m.idle++
	}
	if m.idle > idleMax {
		w.violation("nothing goes round in circles", "%s asked %d times within a second", m.name, m.idle)
	}
	req, _ := proto.Clone(e.Request).(*runnerv1.ExchangeRequest)
	w.book.said(m, req)
	w.call(call{from: m.agent, name: m.name, to: m.server(), what: string(e.Conversation),
		handle: func(s *served) (any, error) {
			asked, _ := proto.Clone(req).(*runnerv1.ExchangeRequest)
			resp, err := s.exchange(asked)
			if err != nil {
				return nil, err
			}
			return proto.Clone(resp), nil
		},
		done: func(answer any, err error) {
			if m.steps != steps {
				return
			}
			if err != nil {
				m.at++
				w.line(m.name, "no-answer", "%s: %v", e.Conversation, err)
				if steps.Failed(e, err, m.now()) && !m.lied {
					w.violation("a registered runner is known", "%s was told that it is not: %v", m.name, err)
				}
				m.settle()
				return
			}
			resp, _ := answer.(*runnerv1.ExchangeResponse)
			w.book.heard(m, req, resp)
			steps.Answered(e, resp, m.now())
			m.settle()
		}}, e.Patience)
}

func (m *machine) spawn(e runner.Spawn) {
	id := string(e.Manifest.Attempt)
	a := newAttempt(m, e.Manifest, e.AbandonAt)
	m.attempts[id] = a
	m.world.line(m.name, "spawns", "%s epoch %d", short(id), e.Manifest.Epoch)
	a.start()
}

// news is called by an attempt that has something to tell.
func (m *machine) news() {
	m.world.sched.after(time.Millisecond, m.agent, func() {
		if m.steps != nil {
			m.settle()
		}
	})
}

// die ends the agent; whole takes everything on the machine with it.
func (m *machine) die(whole bool, why fault) {
	w := m.world
	w.line(m.name, "!"+string(why), "")
	m.steps = nil
	m.agent.kill()
	back := between(w.stream(m.name), 500*time.Millisecond, 20*time.Second)
	if whole {
		m.jobs.kill()
		for _, id := range slices.Sorted(maps.Keys(m.attempts)) {
			m.attempts[id].stopped("the machine died")
		}
	}
	if why == runnerVanishes {
		m.lied = true
		return
	}
	w.sched.after(back, nil, func() {
		if whole {
			m.turnOn()
		} else {
			m.startAgent()
		}
	})
}
