package runner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// instant is the clock of leases; see supervisor.Instant.
type instant = supervisor.Instant

// kind is one of the three conversations with the server that go on side by side. Each
// has at most one exchange in flight.
type kind int

const (
	poll   kind = iota // waits for leases and cancellations
	upload             // carries reports and new offers
	beat               // renews leases; never waits behind the other two
	kinds
)

func (k kind) String() string { return [...]string{"poll", "upload", "beat"}[k] }

// Effects of the machine, carried out by the agent in order.
type (
	effSend struct {
		kind kind
		req  *runnerv1.ExchangeRequest
	}
	effSpawn struct {
		manifest  *manifest.Manifest
		abandonAt instant
	}
	effExtend struct {
		attempt   string
		abandonAt instant
	}
	effCancel struct {
		attempt, reason string
		grace           time.Duration
	}
	effKill struct{ attempt string }
	// effForce ends a supervisor that does not do what it was asked to.
	effForce struct{ attempt string }
	effAck   struct {
		attempt          string
		chunks, progress uint64
	}
	effForget struct{ attempt string }
	// effKeys keeps the keys that the server publishes for the next process of the runner.
	effKeys  struct{ keys []*runnerv1.SigningKey }
	effReady struct{}
	effNote  struct {
		text string
		args []any
	}
)

// slot is one unit of capacity. Its token changes with every use.
type slot struct {
	number uint64
	taken  bool
}

// call is the state of one conversation.
type call struct {
	flying bool
	sent   instant
	notYet instant // no exchange before this
	tries  int     // failures in a row
}

// held is an attempt that this runner answers for.
type held struct {
	attempt   string
	epoch     uint64
	slot      int // -1 when it uses none of ours any more
	observed  string
	adopted   bool // begun by an earlier process: its spool may have lost what was written last
	abandonAt instant
	cancelled bool    // the server's request was passed on
	forceAt   instant // when patience with its supervisor ends; 0: not before abandonAt

	chunks       []*runnerv1.Chunk // not acknowledged, in order
	chunkBytes   int
	chunksSent   int
	progress     []*runnerv1.Progress
	progressSent int
	result       *runnerv1.Result
	resultSent   bool
	resultDone   bool
	acked        uint64  // chunks up to here are durable
	resendAt     instant // 0: nothing waits for an acknowledgement
	gone         bool    // no process and no storage of it is left
	dropped      bool    // refused or lost: nothing is said of it any more
}

// config is what the machine knows from the start.
type config struct {
	runner   string
	session  string
	resume   string
	boot     uint64
	capacity int
	keys     manifest.Keyring
	timing   *runnerv1.Timing
	wall     func() time.Time // only for the expiry that a manifest names
	jitter   func() float64   // in [0, 1)
}

// machine decides what the runner does. It has no goroutine, clock or socket.
type machine struct {
	config
	sequence uint64
	token    domain.Token
	slots    []slot
	held     map[string]*held
	calls    [kinds]call
	declines []*runnerv1.Decline
	vain     int // leases declined in a row
	draining bool
	greeted  bool    // the server has answered once
	offered  bool    // the server knows all open slots
	since    instant // when the oldest report that waits for an upload came; 0: none
	renewed  instant // when the renewals that were last answered were sent
	uploaded instant // when an upload was last answered
	// paused: the next poll waits for pollPause. A poll that names an attempt whose result is on
	// its way is answered with the news that its lease has ended, and this is no reason to wait:
	// the answer to that upload ends the pause, or has come already.
	paused  bool
	effects []any
}

func newMachine(c config) *machine {
	m := &machine{config: c, held: make(map[string]*held), slots: make([]slot, c.capacity)}
	for i := range m.slots {
		m.slots[i].number = c.boot*offersPerBoot + 1
	}
	return m
}

// take returns the effects since the last call.
func (m *machine) take() []any {
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *machine) effect(e any) { m.effects = append(m.effects, e) }

func (m *machine) note(text string, args ...any) { m.effect(effNote{text, args}) }

// each visits what is held in a fixed order.
func (m *machine) each(visit func(*held)) {
	for _, id := range slices.Sorted(maps.Keys(m.held)) {
		visit(m.held[id])
	}
}

func (m *machine) tokenOf(i int) string {
	return m.runner + "/" + strconv.Itoa(i) + "/" + strconv.FormatUint(m.slots[i].number, 10)
}

// slotOf finds the slot that a token names, whether or not the token is its current one.
func (m *machine) slotOf(token string) int {
	parts := strings.Split(token, "/")
	if len(parts) != 3 || parts[0] != m.runner {
		return -1
	}
	i, err := strconv.Atoi(parts[1])
	if err != nil || i < 0 || i >= len(m.slots) {
		return -1
	}
	return i
}

// adopt takes over an attempt of an earlier process of this runner.
func (m *machine) adopt(s supervisor.State) {
	h := &held{
		attempt: string(s.Attempt), epoch: s.Epoch, slot: m.slotOf(string(s.Slot)), abandonAt: s.AbandonAt,
		observed: string(domain.ObservedRunning), adopted: true,
	}
	if h.slot >= 0 {
		if m.slots[h.slot].taken {
			h.slot = -1
		} else {
			m.slots[h.slot].taken = true
		}
	}
	m.held[h.attempt] = h
}

// news is what was read from an attempt's spool.
type news struct {
	chunks   []*runnerv1.Chunk
	progress []*runnerv1.Progress
	result   *runnerv1.Result
}

// spooled takes what an attempt has to tell.
func (m *machine) spooled(attempt string, n news, now instant) {
	h := m.held[attempt]
	if h == nil || h.dropped {
		return
	}
	for _, c := range n.chunks {
		h.chunks = append(h.chunks, c)
		h.chunkBytes += weight(c)
	}
	for _, p := range n.progress {
		h.progress = append(h.progress, p)
		h.observed = p.GetObserved()
	}
	if n.result != nil && h.result == nil {
		h.result = n.result
		h.observed = string(domain.ObservedFinishing)
	}
	if m.since == 0 {
		m.since = now
	}
}

// weight is what a chunk costs in memory: tiny ones cost more than their bytes.
func weight(c *runnerv1.Chunk) int { return len(c.GetData()) + chunkOverhead }

// room reports whether more of an attempt's spool should be read into memory.
func (m *machine) room(attempt string) bool {
	h := m.held[attempt]
	return h != nil && (h.dropped || h.chunkBytes < windowBytes)
}

// ended says that nothing of an attempt is left on the machine, and that its spool was
// read to the end. fault is why there may be no result in it.
func (m *machine) ended(attempt string, fault error, now instant) {
	h := m.held[attempt]
	if h == nil {
		return
	}
	h.gone = true
	if h.result == nil && !h.dropped {
		h.result = lostResult(h, fault)
		if m.since == 0 {
			m.since = now
		}
	}
	m.settle(h)
}

// failedToStart says that the attempt never began.
func (m *machine) failedToStart(attempt string, fault error, now instant) {
	m.ended(attempt, fault, now)
}

// settle frees the slot of an attempt and forgets it, as soon as either is right.
func (m *machine) settle(h *held) {
	if h.gone && (h.resultDone || h.dropped) && h.slot >= 0 {
		m.free(h.slot)
		h.slot = -1
	}
	logged := h.dropped || h.result != nil && h.acked >= h.result.GetLogEnd()
	if h.gone && (h.resultDone || h.dropped) && logged {
		delete(m.held, h.attempt)
		m.effect(effForget{h.attempt})
	}
}

// free opens a slot under a new token.
func (m *machine) free(i int) {
	m.slots[i] = slot{number: m.slots[i].number + 1}
	m.offered = false
}

// drop stops answering for an attempt.
func (m *machine) drop(h *held, why string, now instant) {
	if h.dropped {
		return
	}
	h.dropped = true
	h.chunks, h.chunkBytes, h.progress = nil, 0, nil
	m.note("dropped an attempt", "attempt", h.attempt, "epoch", h.epoch, "reason", why)
	m.effect(effKill{h.attempt})
	h.force(now.Add(forceAfter))
	m.settle(h)
}

// force sets when a supervisor that has not ended by itself is ended. It never moves
// back: a second request gives no new patience.
func (h *held) force(at instant) {
	if h.forceAt == 0 || at < h.forceAt {
		h.forceAt = at
	}
}

// deadline is when the supervisor must have ended by itself.
func (h *held) deadline() instant {
	if h.forceAt != 0 {
		return min(h.forceAt, h.abandonAt)
	}
	return h.abandonAt
}

// drain stops offering. What is held goes on.
func (m *machine) drain() {
	m.draining = true
	m.offered = false
}

// refusal says why a lease can't be taken; it goes back to the server.
type refusal struct{ reason string }

func refuse(format string, args ...any) *refusal { return &refusal{fmt.Sprintf(format, args...)} }
