package runner

import (
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect/v2"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// Steps is what decides in a runner, without the agent around it: whoever drives it brings
// the network, the supervisors and the time. A simulation does; a runner itself is Run.
type Steps struct{ m *machine }

// StepsConfig is what a runner knows when it starts.
type StepsConfig struct {
	Runner, Session, Resume string // from the registration
	Boot                    uint64 // starts of this runner so far, this one included
	Capacity                int
	Keys                    []*runnerv1.SigningKey
	Timing                  *runnerv1.Timing
	Wall                    func() time.Time // for the expiry that a manifest names
	Jitter                  func() float64   // in [0, 1)
}

// NewSteps makes a runner that holds nothing. An error says which key can't be used.
func NewSteps(c StepsConfig) (*Steps, error) {
	ring, err := keyring(c.Keys)
	if err != nil {
		return nil, fmt.Errorf("start runner %s: %w", c.Runner, err)
	}
	return &Steps{newMachine(config{
		runner: c.Runner, session: c.Session, resume: c.Resume, boot: c.Boot, capacity: c.Capacity,
		keys: ring, timing: c.Timing, wall: c.Wall, jitter: c.Jitter,
	})}, nil
}

// Conversation is one of the runner's dialogues with its server: "poll", "upload" or "beat".
// Each has at most one exchange in flight.
type Conversation string

// Effects of a step, in the order in which they are to be carried out.
type (
	// Send is an exchange to begin. Its end is told by Answered or Failed.
	Send struct {
		Conversation Conversation
		Request      *runnerv1.ExchangeRequest
		Patience     time.Duration // without an answer by then it has failed

		kind kind
	}
	// Spawn starts an attempt's supervisor.
	Spawn struct {
		Manifest  *manifest.Manifest
		AbandonAt supervisor.Instant
	}
	// Extend moves the instant at which the supervisor kills its attempt.
	Extend struct {
		Attempt   string
		AbandonAt supervisor.Instant
	}
	// Cancel asks the supervisor to stop its attempt within Grace.
	Cancel struct {
		Attempt, Reason string
		Grace           time.Duration
	}
	// Kill ends the attempt now; Force ends a supervisor that does not do what it was asked to.
	Kill struct {
		Attempt string
		Force   bool
	}
	// Acknowledge says what the server has for good.
	Acknowledge struct {
		Attempt          string
		Chunks, Progress uint64
	}
	// Forget erases the attempt's folder.
	Forget struct{ Attempt string }
	// Note is for the log.
	Note struct{ Text string }
)

// Plan takes the time, and gives what is to be done now and when to plan again if nothing
// happens before. It is called after every input.
func (s *Steps) Plan(now supervisor.Instant) (effects []any, next supervisor.Instant) {
	next = s.m.plan(now)
	for _, e := range s.m.take() {
		if e = shown(e); e != nil {
			effects = append(effects, e)
		}
	}
	return effects, next
}

func shown(e any) any {
	switch e := e.(type) {
	case effSend:
		wait := time.Duration(e.req.GetWaitMs()) * time.Millisecond
		return Send{Conversation(e.kind.String()), e.req, wait + callSlack, e.kind}
	case effSpawn:
		return Spawn{e.manifest, e.abandonAt}
	case effExtend:
		return Extend{e.attempt, e.abandonAt}
	case effCancel:
		return Cancel{e.attempt, e.reason, e.grace}
	case effKill:
		return Kill{Attempt: e.attempt}
	case effForce:
		return Kill{Attempt: e.attempt, Force: true}
	case effAck:
		return Acknowledge{e.attempt, e.chunks, e.progress}
	case effForget:
		return Forget{e.attempt}
	case effNote:
		return Note{fmt.Sprint(append([]any{e.text}, e.args...)...)}
	}
	return nil // effReady and effKeys: nobody waits for them here
}

// Answered takes the answer to an exchange.
func (s *Steps) Answered(to Send, resp *runnerv1.ExchangeResponse, now supervisor.Instant) {
	s.m.answered(to.kind, to.Request, resp, now)
}

// Failed takes the failure of an exchange. It reports true when the server does not know
// this runner, so that going on is of no use.
func (s *Steps) Failed(to Send, err error, now supervisor.Instant) (unregistered bool) {
	s.m.failed(to.kind, to.Request, err, now)
	if r, ok := domain.AsRejection(err); ok && r.Code == domain.CodeUnauthenticated {
		return true
	}
	var coded *connect.Error
	return errors.As(err, &coded) && final(err)
}

// Spooled takes what an attempt has to tell, in the order in which it was told.
func (s *Steps) Spooled(attempt string, chunks []*runnerv1.Chunk, progress []*runnerv1.Progress,
	result *runnerv1.Result, now supervisor.Instant) {
	s.m.spooled(attempt, news{chunks, progress, result}, now)
}

// Ended says that nothing of an attempt is left on the machine and that all it had to tell
// was told; fault is why there may be no result.
func (s *Steps) Ended(attempt string, fault error, now supervisor.Instant) {
	s.m.ended(attempt, fault, now)
}

// Adopt takes up an attempt that an earlier process of this runner left.
func (s *Steps) Adopt(state supervisor.State) { s.m.adopt(state) }

// Room reports whether more of an attempt's spool may be told.
func (s *Steps) Room(attempt string) bool { return s.m.room(attempt) }

// Drain stops offering. What is held goes on.
func (s *Steps) Drain() { s.m.drain() }
