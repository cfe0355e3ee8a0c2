package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Decision is what a stream's Decide answers when it does not reject.
type Decision struct {
	Events  []any
	Reply   any
	Refusal *domain.Rejection
}

// Place says where a stream's state stands; projections need it.
type Place struct {
	Partition domain.PartitionID
	Tenant    domain.TenantID
	Stream    domain.StreamID
	Version   uint64
	At        time.Time
	// Events led from the row before to this one. nil: they are not known, and all rows of the
	// state are wanted.
	Events []any
}

// Rows are the list rows that commit with a stream's events.
type Rows struct {
	Runs         []store.RunRow
	Repositories []store.RepositoryRow
	Runners      []store.RunnerRow
}

// Kind teaches the engine one kind of stream: the four functions of the core, the codec
// and the inline projection. All functions are pure.
type Kind struct {
	Name     string
	Encoding uint32 // of checkpoints; older ones are dropped

	New      func() any
	Decide   func(state, command any, now time.Time) (Decision, *domain.Rejection)
	Evolve   func(state, event any)
	NextWake func(state any) (time.Time, bool)
	// Early reports whether a Wake that comes early could do harm, since somebody may still act
	// by what he was promised before. Its owner waits for longer when it can't know whether the
	// clock was set. nil: never.
	Early func(state any) bool
	Check func(state any) error
	Live  func(state any) bool // is there anything still to happen?
	// Intern lets a state that was read from the store hold what many have in common once; it
	// means the same afterwards. Several goroutines call it. nil: nothing is shared.
	Intern func(state any)

	// Begins reports whether a command asks for new work: of which repository, and of how many
	// jobs. New work waits behind what serves running work, and may be refused; nil: none does.
	Begins func(command any) (of domain.RepositoryID, jobs int, ok bool)
	// Open is how many jobs of a stream have no outcome, and whose they are; Opens is how many an
	// event adds, less than 0 when it ends some. They go with Begins.
	Open  func(state any) (of domain.RepositoryID, jobs int)
	Opens func(event any) int

	EncodeEvents func(events []any, format uint32) ([]byte, error)
	DecodeEvents func(data []byte) ([]any, error)
	EncodeState  func(state any) ([]byte, error)
	DecodeState  func(data []byte) (any, error)

	// Commands and replies between servers. A kind without them is not forwarded.
	EncodeCommand func(command any) ([]byte, error)
	DecodeCommand func(data []byte) (any, error)
	EncodeReply   func(reply any) ([]byte, error)
	DecodeReply   func(data []byte) (any, error)
	// Lower turns an event into one that readers of an older format understand, or fails
	// when there is none; then the command that led to it is refused. nil: all formats
	// read all events.
	Lower func(event any, format uint32) (any, error)
	// LowerCommand does the same with a command before it goes to another server.
	LowerCommand func(command any, format uint32) (any, error)

	Wake func(cause domain.Cause) any // the command that says: look at the clock
	Rows func(state any, at Place) Rows
}

// Typed is a kind in the types of its core package; Erase makes the engine's form of it.
type Typed[S, C, E any] struct {
	Name         string
	Encoding     uint32
	New          func() *S
	Decide       func(s *S, c C, now time.Time) ([]E, any, *domain.Rejection, *domain.Rejection)
	Evolve       func(s *S, e E)
	NextWake     func(s *S) (time.Time, bool)
	Early        func(s *S) bool // may be nil
	Check        func(s *S) error
	Live         func(s *S) bool
	Intern       func(s *S)                                            // may be nil
	Begins       func(c C) (of domain.RepositoryID, jobs int, ok bool) // may be nil, and then so are Open and Opens
	Open         func(s *S) (of domain.RepositoryID, jobs int)
	Opens        func(e E) int
	EncodeEvents func(events []E, format uint32) ([]byte, error)
	DecodeEvents func([]byte) ([]E, error)
	EncodeState  func(*S) ([]byte, error)
	DecodeState  func([]byte) (*S, error)
	Wake         func(cause domain.Cause) C
	Rows         func(s *S, at Place) Rows

	EncodeCommand func(C) ([]byte, error)
	DecodeCommand func([]byte) (C, error)
	EncodeReply   func(any) ([]byte, error)
	DecodeReply   func([]byte) (any, error)
	Lower         func(e E, format uint32) (E, error)
	LowerCommand  func(c C, format uint32) (C, error)
}

// Erase turns the typed kind into the engine's form. Decide answers events, reply,
// refusal, rejection in that order.
func (t Typed[S, C, E]) Erase() *Kind {
	k := t.erase()
	k.EncodeReply, k.DecodeReply = t.EncodeReply, t.DecodeReply
	if t.EncodeCommand != nil && t.DecodeCommand != nil {
		k.EncodeCommand = func(command any) ([]byte, error) { return t.EncodeCommand(command.(C)) }
		k.DecodeCommand = func(data []byte) (any, error) { return t.DecodeCommand(data) }
	}
	if t.Early != nil {
		k.Early = func(state any) bool { return t.Early(state.(*S)) }
	}
	if t.Begins != nil {
		k.Begins = func(command any) (domain.RepositoryID, int, bool) {
			c, ok := command.(C)
			if !ok {
				return "", 0, false // Decide says what is wrong
			}
			return t.Begins(c)
		}
		k.Open = func(state any) (domain.RepositoryID, int) { return t.Open(state.(*S)) }
		k.Opens = func(event any) int { return t.Opens(event.(E)) }
	}
	if t.Intern != nil {
		k.Intern = func(state any) { t.Intern(state.(*S)) }
	}
	if t.Lower != nil {
		k.Lower = func(event any, format uint32) (any, error) { return t.Lower(event.(E), format) }
	}
	if t.LowerCommand != nil {
		k.LowerCommand = func(c any, format uint32) (any, error) { return t.LowerCommand(c.(C), format) }
	}
	return k
}

func (t Typed[S, C, E]) erase() *Kind {
	return &Kind{
		Name: t.Name, Encoding: t.Encoding,
		New: func() any { return t.New() },
		Decide: func(state, command any, now time.Time) (Decision, *domain.Rejection) {
			c, ok := command.(C)
			if !ok {
				panic(fmt.Sprintf("stream kind %s got a command of type %T", t.Name, command))
			}
			events, reply, refusal, rejection := t.Decide(state.(*S), c, now)
			return Decision{Events: widen(events), Reply: reply, Refusal: refusal}, rejection
		},
		Evolve:   func(state, event any) { t.Evolve(state.(*S), event.(E)) },
		NextWake: func(state any) (time.Time, bool) { return t.NextWake(state.(*S)) },
		Check:    func(state any) error { return t.Check(state.(*S)) },
		Live:     func(state any) bool { return t.Live(state.(*S)) },
		EncodeEvents: func(events []any, format uint32) ([]byte, error) {
			return t.EncodeEvents(narrow[E](events), format)
		},
		DecodeEvents: func(data []byte) ([]any, error) {
			events, err := t.DecodeEvents(data)
			return widen(events), err
		},
		EncodeState: func(state any) ([]byte, error) { return t.EncodeState(state.(*S)) },
		DecodeState: func(data []byte) (any, error) { return t.DecodeState(data) },
		Wake:        func(cause domain.Cause) any { return t.Wake(cause) },
		Rows: func(state any, at Place) Rows {
			if t.Rows == nil {
				return Rows{}
			}
			return t.Rows(state.(*S), at)
		},
	}
}

func widen[E any](events []E) []any {
	if len(events) == 0 {
		return nil
	}
	out := make([]any, len(events))
	for i, e := range events {
		out[i] = e
	}
	return out
}

func narrow[E any](events []any) []E {
	out := make([]E, len(events))
	for i, e := range events {
		out[i] = e.(E)
	}
	return out
}

// lower makes events fit for the format that may be written now.
func (k *Kind) lower(events []any, format uint32) ([]any, error) {
	if k.Lower == nil {
		return events, nil
	}
	for i, e := range events {
		lowered, err := k.Lower(e, format)
		if err != nil {
			return nil, err
		}
		events[i] = lowered
	}
	return events, nil
}

// errUnreadable: what is stored of a stream can't be understood. Asking again won't help.
var errUnreadable = errors.New("stored history can't be read")

// rebuild makes a stream's state from its history. A checkpoint that can't be read is
// ignored by the caller loading without it.
//
// A state that can't take an event panics, as it would at its owner; here that is damage.
func (k *Kind) rebuild(h store.History) (state any, version uint64, err error) {
	defer func() {
		if r := recover(); r != nil {
			state, version, err = nil, 0, fmt.Errorf("read stream %s after version %d: %v: %w",
				h.Head.Stream, version, r, errUnreadable)
		}
	}()
	state = k.New()
	if h.Checkpoint != nil {
		saved, err := k.DecodeState(h.Checkpoint.State)
		if err != nil {
			return nil, 0, fmt.Errorf("decode checkpoint %s: %w: %w", h.Head.Stream, errUnreadable, err)
		}
		state, version = saved, h.Checkpoint.Version
	}
	for i := range h.Rows {
		row := &h.Rows[i]
		events, err := k.DecodeEvents(row.Events)
		if err != nil {
			return nil, 0, fmt.Errorf("decode events %s at version %d: %w: %w", row.Stream, row.Version, errUnreadable, err)
		}
		if version+uint64(len(events)) != row.Version {
			return nil, 0, fmt.Errorf("read stream %s: version %d follows %d with %d events: %w",
				row.Stream, row.Version, version, len(events), errUnreadable)
		}
		for _, e := range events {
			k.Evolve(state, e)
		}
		version = row.Version
	}
	return state, version, nil
}
