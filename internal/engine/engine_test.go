package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// The tally is the smallest stream kind with everything: it counts, can be asked to ring
// later, can be finished, and has an invariant that can be broken.
type tally struct {
	Total  int       `json:"total"`
	Number uint64    `json:"number"`
	Ring   time.Time `json:"ring"`
	Rung   int       `json:"rung"`
	Done   bool      `json:"done"`
}

type tallyCommand struct {
	do     string // add, ring, done, wake, reject, refuse, break, panic
	n      int
	at     time.Time
	number uint64
}

func (c tallyCommand) WithNumber(n uint64) any { c.number = n; return c }

type tallyEvent struct {
	Do     string    `json:"do"`
	N      int       `json:"n,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Number uint64    `json:"number,omitempty"`
	Hue    string    `json:"hue,omitempty"`
}

func decideTally(s *tally, c tallyCommand, now time.Time) ([]tallyEvent, any, *domain.Rejection, *domain.Rejection) {
	switch c.do {
	case "add":
		return []tallyEvent{{Do: "add", N: c.n, Number: c.number}}, s.Total + c.n, nil, nil
	case "ring":
		return []tallyEvent{{Do: "ring", At: c.at}}, nil, nil, nil
	case "wake":
		if s.Ring.IsZero() || now.Before(s.Ring) {
			return nil, nil, nil, nil
		}
		return []tallyEvent{{Do: "rung"}}, nil, nil, nil
	case "done", "break":
		return []tallyEvent{{Do: c.do}}, nil, nil, nil
	case "refuse":
		return []tallyEvent{{Do: "refused"}}, nil, domain.Reject(domain.CodeLeaseEpochStale, "stale"), nil
	case "panic":
		panic("the decision blew up")
	}
	return nil, nil, nil, domain.Reject(domain.CodeInvalidArgument, "rejected")
}

func tallyKind() *Kind {
	return Typed[tally, tallyCommand, tallyEvent]{
		Name: "tally", Encoding: 1, New: func() *tally { return &tally{} }, Decide: decideTally,
		Evolve: func(s *tally, e tallyEvent) {
			switch e.Do {
			case "add":
				s.Total += e.N
				s.Number = max(s.Number, e.Number)
			case "ring":
				s.Ring = e.At
			case "rung":
				s.Ring = time.Time{}
				s.Rung++
			case "done":
				s.Done = true
			case "break":
				s.Total = -1
			}
		},
		NextWake: func(s *tally) (time.Time, bool) { return s.Ring, !s.Ring.IsZero() },
		Check: func(s *tally) error {
			if s.Total < 0 {
				return errors.New("total is negative")
			}
			return nil
		},
		Live:         func(s *tally) bool { return !s.Done },
		EncodeEvents: func(e []tallyEvent, _ uint32) ([]byte, error) { return json.Marshal(e) },
		DecodeEvents: func(b []byte) (e []tallyEvent, err error) { return e, json.Unmarshal(b, &e) },
		EncodeState:  func(s *tally) ([]byte, error) { return json.Marshal(s) },
		DecodeState:  func(b []byte) (*tally, error) { s := &tally{}; return s, json.Unmarshal(b, s) },
		Wake:         func(domain.Cause) tallyCommand { return tallyCommand{do: "wake"} },
		EncodeCommand: func(c tallyCommand) ([]byte, error) {
			return json.Marshal(tallyWire{c.do, c.n, c.at, c.number})
		},
		DecodeCommand: func(data []byte) (tallyCommand, error) {
			var w tallyWire
			dec := json.NewDecoder(bytes.NewReader(data))
			dec.DisallowUnknownFields()
			err := dec.Decode(&w)
			return tallyCommand{w.Do, w.N, w.At, w.Number}, err
		},
		EncodeReply: func(reply any) ([]byte, error) {
			if reply == nil {
				return nil, nil
			}
			return json.Marshal(reply)
		},
		DecodeReply: func(data []byte) (any, error) {
			if len(data) == 0 {
				return nil, nil
			}
			var n int
			err := json.Unmarshal(data, &n)
			return n, err
		},
	}.Erase()
}

type tallyWire struct {
	Do     string
	N      int
	At     time.Time
	Number uint64
}

const home = domain.PartitionID("home")

type house struct {
	t      *testing.T
	store  *memory.Store
	engine *Engine
	fatal  error
}

func newHouse(t *testing.T, st *memory.Store, prepare func(*Engine)) *house {
	t.Helper()
	h := &house{t: t, store: st}
	h.engine = New(Config{Store: st, Kinds: []*Kind{tallyKind()}, Partitions: []domain.PartitionID{home},
		Owner: "test", Paranoid: true, Fatal: func(err error) { h.fatal = err }, Clock: NewClock(), Prover: ours})
	if prepare != nil {
		prepare(h.engine)
	}
	if err := h.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

func envelope(stream string, c tallyCommand) Envelope {
	return Envelope{Tenant: "tnt_a", Partition: home, Stream: domain.StreamID("tally/" + stream), Command: c}
}

func (h *house) submit(stream string, c tallyCommand) (Ack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return h.engine.Submit(ctx, envelope(stream, c))
}

func (h *house) must(stream string, c tallyCommand) Ack {
	h.t.Helper()
	ack, err := h.submit(stream, c)
	if err != nil {
		h.t.Fatalf("%s %s: %v", stream, c.do, err)
	}
	return ack
}

func (h *house) total(stream string) int {
	h.t.Helper()
	got, err := h.engine.Read(context.Background(), "tnt_a", domain.StreamID("tally/"+stream), false)
	if err != nil {
		h.t.Fatalf("read %s: %v", stream, err)
	}
	return got.State.(*tally).Total
}

// Promises: [CMD-1].
func TestACommandIsAnsweredOnlyAfterItsBatchIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		defer h.engine.Close()
		gate := make(chan struct{})
		st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op == "append" {
				<-gate
			}
			return nil
		}})
		answered := make(chan Ack, 1)
		go func() { answered <- h.must("x", tallyCommand{do: "add", n: 1}) }()
		select {
		case <-answered:
			t.Fatal("answered before the append came back")
		case <-time.After(time.Second):
		}
		close(gate)
		if ack := <-answered; ack.Token.Position != 1 || ack.Version != 1 {
			t.Fatalf("ack %+v", ack)
		}
	})
}

// A store that hangs must not, when it comes back, carry out what everybody has given up.
// Promises: [CMD-14].
func TestACommandThatNobodyWaitsForAnyMoreIsNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		defer h.engine.Close()
		st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
			if c.Op == "append" {
				time.Sleep(20 * time.Second)
			}
			return nil
		}})
		begun := make(chan struct{})
		go func() {
			h.must("x", tallyCommand{do: "add", n: 1})
			close(begun)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_, err := h.engine.Submit(ctx, envelope("x", tallyCommand{do: "add", n: 10}))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the command that was given up: %v", err)
		}
		<-begun
		time.Sleep(time.Minute)
		if got := h.total("x"); got != 1 {
			t.Errorf("the total is %d: a command was carried out that nobody waited for", got)
		}
	})
}

// What a leader said before is refused once the next one has spoken, and leaves nothing.
// Promises: [CMD-15].
func TestACommandOfAnEarlierTermIsRefused(t *testing.T) {
	h := newHouse(t, memory.New(), nil)
	defer h.engine.Close()
	say := func(epoch uint64) error {
		env := envelope("x", tallyCommand{do: "add", n: 1})
		env.Term = Term{Of: "pools", Epoch: epoch}
		_, err := h.engine.Submit(t.Context(), env)
		return err
	}
	for _, epoch := range []uint64{0, 3, 3, 5, 0} {
		if err := say(epoch); err != nil {
			t.Errorf("term %d: %v", epoch, err)
		}
	}
	if r, ok := domain.AsRejection(say(4)); !ok || r.Code != domain.CodeNotOwner {
		t.Errorf("an earlier term was answered with %v", r)
	}
	if got := h.total("x"); got != 5 {
		t.Errorf("the total is %d", got)
	}
}

// Promises: [CMD-15].
func TestACommandThatComesTooLateIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, memory.New(), nil)
		defer h.engine.Close()
		env := envelope("x", tallyCommand{do: "add", n: 1})
		env.Before = h.engine.Now().Add(time.Second)
		if _, err := h.engine.Submit(t.Context(), env); err != nil {
			t.Errorf("in time: %v", err)
		}
		time.Sleep(time.Second)
		_, err := h.engine.Submit(t.Context(), env)
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner || h.total("x") != 1 {
			t.Errorf("too late: %v, and the total is %d", err, h.total("x"))
		}
	})
}

func TestWaitingCommandsShareABatch(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	defer h.engine.Close()
	appends := 0
	st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "append" {
			appends++
			time.Sleep(time.Millisecond)
		}
		return nil
	}})
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() { h.must(fmt.Sprint("s", i%7), tallyCommand{do: "add", n: 1}) })
	}
	wg.Wait()
	sum := 0
	for i := range 7 {
		sum += h.total(fmt.Sprint("s", i))
	}
	if sum != 400 || appends >= 200 {
		t.Fatalf("sum %d in %d appends", sum, appends)
	}
}

// Promises: [CMD-2], [CMD-3].
func TestAKeyActsOnceAlsoWithinABatchAndAfterTakeOver(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	env := envelope("x", tallyCommand{do: "add", n: 5})
	env.Key = &Key{Scope: ClientScope("p", "Add"), Key: "k1", Body: domain.DigestOf([]byte("five"))}
	var wg sync.WaitGroup
	var mu sync.Mutex
	repeats := 0
	for range 20 {
		wg.Go(func() {
			ack, err := h.engine.Submit(context.Background(), env)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if ack.Repeat {
				repeats++
				if string(ack.Stored) != "5" {
					t.Errorf("stored reply %q", ack.Stored)
				}
			}
		})
	}
	wg.Wait()
	h.engine.Close()
	if got := h.total("x"); got != 5 || repeats != 19 {
		t.Fatalf("total %d, repeats %d", got, repeats)
	}
	h = newHouse(t, st, nil)
	defer h.engine.Close()
	if ack, err := h.engine.Submit(context.Background(), env); err != nil || !ack.Repeat {
		t.Fatalf("after take-over: %+v, %v", ack, err)
	}
	env.Key.Body = domain.DigestOf([]byte("six"))
	_, err := h.engine.Submit(context.Background(), env)
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeIdempotencyMismatch {
		t.Fatalf("another body: %v", err)
	}
}

// Promises: [CMD-5].
func TestARejectionStoresNothingAndARefusalKeepsItsEvidence(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	defer h.engine.Close()
	env := envelope("x", tallyCommand{do: "reject"})
	env.Key = &Key{Scope: ClientScope("p", "Add"), Key: "k", Body: domain.DigestOf(nil)}
	if _, err := h.engine.Submit(context.Background(), env); err == nil {
		t.Fatal("accepted")
	}
	env.Command = tallyCommand{do: "add", n: 1} // the same key may now act
	if ack, err := h.engine.Submit(context.Background(), env); err != nil || ack.Repeat {
		t.Fatalf("%+v, %v", ack, err)
	}
	ack := h.must("x", tallyCommand{do: "refuse"})
	if ack.Refusal == nil || ack.Version != 2 {
		t.Fatalf("refusal %+v", ack)
	}
}

// Promises: [CMD-6].
func TestALostReplyOfTheStoreIsSettledNotRepeated(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	defer h.engine.Close()
	h.must("x", tallyCommand{do: "add", n: 1})
	lose := true
	st.SetHooks(memory.Hooks{After: func(c memory.Call) error {
		if c.Op == "append" && lose {
			lose = false
			return store.ErrUnknown
		}
		return nil
	}})
	ack := h.must("x", tallyCommand{do: "add", n: 1})
	if got := h.total("x"); got != 2 {
		t.Fatalf("total %d", got)
	}
	if ack.Token.Epoch != 2 {
		t.Fatalf("the epoch was not raised: %+v", ack.Token)
	}
	fail := true
	st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "append" && fail {
			fail = false
			return store.ErrUnknown // and it never arrived
		}
		return nil
	}})
	h.must("x", tallyCommand{do: "add", n: 1})
	if got := h.total("x"); got != 3 {
		t.Fatalf("total %d after an append that never arrived", got)
	}
}

// Promises: [CMD-9].
func TestAFullStoreRefusesAndRecovers(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	defer h.engine.Close()
	h.must("x", tallyCommand{do: "add", n: 1})
	st.SetHooks(memory.Hooks{Before: func(c memory.Call) error {
		if c.Op == "append" {
			return store.ErrFull
		}
		return nil
	}})
	_, err := h.submit("x", tallyCommand{do: "add", n: 10})
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStorageFull {
		t.Fatalf("full: %v", err)
	}
	st.SetHooks(memory.Hooks{})
	h.must("x", tallyCommand{do: "add", n: 1})
	if got := h.total("x"); got != 2 {
		t.Fatalf("total %d: what was refused must not have happened", got)
	}
}

// Promises: [HIST-3].
func TestAFencedOwnerStops(t *testing.T) {
	st := memory.New()
	old := newHouse(t, st, nil)
	defer old.engine.Close()
	old.must("x", tallyCommand{do: "add", n: 1})
	next := newHouse(t, st, nil)
	defer next.engine.Close()
	_, err := old.submit("x", tallyCommand{do: "add", n: 100})
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner {
		t.Fatalf("old owner: %v", err)
	}
	next.must("x", tallyCommand{do: "add", n: 1})
	if got := next.total("x"); got != 2 {
		t.Fatalf("total %d", got)
	}
}

// Promises: [HIST-8].
func TestABrokenInvariantQuarantinesOneStreamOnly(t *testing.T) {
	for _, how := range []string{"break", "panic"} {
		st := memory.New()
		h := newHouse(t, st, nil)
		h.must("sick", tallyCommand{do: "add", n: 1})
		for range 2 {
			_, err := h.submit("sick", tallyCommand{do: how})
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeStreamQuarantined {
				t.Fatalf("%s: %v", how, err)
			}
		}
		h.must("well", tallyCommand{do: "add", n: 1})
		if got := h.total("sick"); got != 1 {
			t.Fatalf("%s: total of the sick stream %d", how, got)
		}
		if p := h.engine.Status()[0].Problems; len(p) != 1 || !strings.Contains(p[0], "tally/sick") {
			t.Fatalf("problems %v", p)
		}
		h.engine.Close()
	}
}

// An owner whose clock was read first a moment ago can't know whether it was set before that: what
// could do harm when it comes early waits, and nothing else does.
//
// Promises: [LEASE-4].
func TestAYoungClockFiresNothingThatCouldBeEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		h.must("x", tallyCommand{do: "add", n: 7})
		for _, id := range []string{"x", "y"} {
			h.must(id, tallyCommand{do: "ring", at: time.Now().Add(time.Hour)})
		}
		h.engine.Close()
		time.Sleep(2 * time.Hour) // or somebody set the clock
		h = newHouse(t, st, func(e *Engine) {
			e.cfg.Hold = time.Minute
			e.kinds["tally"].Early = func(state any) bool { return state.(*tally).Total == 7 }
		})
		defer h.engine.Close()
		for _, want := range []struct {
			after time.Duration
			x, y  int
		}{{time.Second, 0, 1}, {58 * time.Second, 0, 1}, {2 * time.Second, 1, 1}} {
			time.Sleep(want.after)
			synctest.Wait()
			for id, rung := range map[domain.StreamID]int{"tally/x": want.x, "tally/y": want.y} {
				got, err := h.engine.Read(context.Background(), "tnt_a", id, false)
				if err != nil || got.State.(*tally).Rung != rung {
					t.Errorf("%s after %s more: %+v, want %d, %v", id, want.after, got.State, rung, err)
				}
			}
		}
	})
}

// Promises: [HIST-10].
func TestTimersFireOnceAndSurviveATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		h := newHouse(t, st, nil)
		h.must("x", tallyCommand{do: "ring", at: time.Now().Add(time.Hour)})
		h.must("y", tallyCommand{do: "ring", at: time.Now().Add(2 * time.Hour)})
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		h.engine.Close()
		h = newHouse(t, st, nil)
		defer h.engine.Close()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for _, id := range []domain.StreamID{"tally/x", "tally/y"} {
			got, err := h.engine.Read(context.Background(), "tnt_a", id, false)
			if err != nil || got.State.(*tally).Rung != 1 {
				t.Fatalf("%s: %+v, %v", id, got.State, err)
			}
		}
	})
}

// recorder is a reactor and an observer that notes what it saw.
type recorder struct {
	mu     sync.Mutex
	rows   []string
	loaded []string
	fail   int
	ready  bool
}

func (r *recorder) Name() string { return "recorder" }

func (r *recorder) React(_ context.Context, row Committed) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail > 0 {
		r.fail--
		return errors.New("not now")
	}
	r.rows = append(r.rows, fmt.Sprintf("%d:%s@%d", row.Position, row.Stream.ID(), row.Version))
	return nil
}

func (r *recorder) Loaded(l Live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded = append(r.loaded, l.Stream.ID())
}
func (r *recorder) Committed([]Committed)   {}
func (r *recorder) Lost(domain.PartitionID) {}
func (r *recorder) Ready(domain.PartitionID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = true
}

func (r *recorder) seen() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.rows, " ")
}

// Promises: [HIST-11].
func TestAReactorSeesEveryRowInOrderAndGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		r := &recorder{fail: 3}
		h := newHouse(t, st, func(e *Engine) { e.React(r) })
		for _, s := range []string{"a", "b", "a"} {
			h.must(s, tallyCommand{do: "add", n: 1})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.seen(); got != "1:a@1 2:b@1 3:a@2" {
			t.Fatalf("rows %q", got)
		}
		h.engine.Close()
		again := &recorder{}
		h = newHouse(t, st, func(e *Engine) { e.React(again); e.Observe(again) })
		defer h.engine.Close()
		h.must("b", tallyCommand{do: "done"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := again.seen(); got != "4:b@2" {
			t.Fatalf("after the restart %q", got)
		}
		if !again.ready || !slices.Contains(again.loaded[:2], "a") || !slices.Contains(again.loaded[:2], "b") {
			t.Fatalf("ready %t, loaded %v", again.ready, again.loaded)
		}
		if n := h.engine.Status()[0].Live; n != 1 {
			t.Fatalf("%d streams in memory, want the live one only", n)
		}
	})
}

// Promises: [CMD-12].
func TestANumberIsTakenOnlyWhenSomethingHappened(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	defer h.engine.Close()
	numbered := func(do string) error {
		env := envelope("n", tallyCommand{do: do})
		env.Counter = "runs"
		_, err := h.engine.Submit(context.Background(), env)
		return err
	}
	for _, do := range []string{"add", "reject", "add", "add"} {
		if err := numbered(do); err != nil && do != "reject" {
			t.Fatal(err)
		}
	}
	got, _ := h.engine.Read(context.Background(), "tnt_a", "tally/n", false)
	if n := got.State.(*tally).Number; n != 3 {
		t.Fatalf("number %d", n)
	}
}

// Promises: [HIST-14].
func TestACheckpointShortensTheWayAndAnUnknownOneIsIgnored(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	for range checkpointEvents + 5 {
		h.must("long", tallyCommand{do: "add", n: 1})
	}
	h.engine.Close()
	for _, encoding := range []uint32{1, 2} {
		got, err := st.Load(context.Background(), "tnt_a", "tally/long", true, encoding)
		if err != nil || (got.Checkpoint != nil) != (encoding == 1) {
			t.Fatalf("encoding %d: %+v %v", encoding, got.Checkpoint, err)
		}
	}
	h = newHouse(t, st, nil)
	defer h.engine.Close()
	h.must("long", tallyCommand{do: "add", n: 1})
	if got := h.total("long"); got != checkpointEvents+6 {
		t.Fatalf("total %d", got)
	}
}

// Promises: [HIST-6].
func TestATokenFromTheFutureStopsThePartition(t *testing.T) {
	st := memory.New()
	h := newHouse(t, st, nil)
	h.must("x", tallyCommand{do: "add", n: 1})
	h.engine.Close()
	old := st.Clone()
	h = newHouse(t, st, nil)
	ack := h.must("x", tallyCommand{do: "add", n: 1})
	if err := h.engine.Present(context.Background(), ack.Token); err != nil {
		t.Fatalf("an honest token: %v", err)
	}
	h.engine.Close()

	restored := newHouse(t, old, nil) // came back with less than was acknowledged
	defer restored.engine.Close()
	err := restored.engine.Present(context.Background(), ack.Token)
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
		t.Fatalf("present: %v", err)
	}
	_, err = restored.submit("x", tallyCommand{do: "add", n: 1})
	if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeHistoryLost {
		t.Fatalf("submit to a stopped partition: %v", err)
	}
}

// Promises: [HIST-7].
func TestATokenPresentedAtOnceIsNeverAheadOfItsServer(t *testing.T) {
	h := newHouse(t, memory.New(), nil)
	defer h.engine.Close()
	for range 300 {
		ack := h.must("x", tallyCommand{do: "add", n: 1})
		if err := h.engine.Present(context.Background(), ack.Token); err != nil {
			t.Fatal(err)
		}
	}
}

// Servers whose wall clocks are minutes apart judge each other's leases: by one clock.
func TestTheClocksOfAFleetAreTheStores(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	mono := time.Duration(0)
	clock := func(skew time.Duration) *Clock {
		return NewClockFrom(func() time.Time { return t0.Add(mono + skew) }, func() time.Duration { return mono })
	}
	ahead, behind := clock(5*time.Minute), clock(-5*time.Minute)
	steer := func(c *Clock, delay time.Duration) {
		now := t0.Add(mono)
		mono += delay
		c.Steer(now, delay)
	}
	for _, c := range []*Clock{behind, ahead} {
		steer(c, time.Millisecond)
		mono += 20 * time.Minute
		steer(c, 2*time.Second) // on its way for long: no better than what is known
	}
	a, _ := ahead.Now()
	b, _ := behind.Now()
	if d := a.Sub(b).Abs(); d > 2*time.Millisecond || a.Sub(t0.Add(mono)).Abs() > 2*time.Millisecond {
		t.Errorf("the store's clock shows %s, one server %s and another %s", t0.Add(mono), a, b)
	}
	_, before := behind.Now()
	behind.Steer(t0.Add(mono+time.Hour), 0)
	if now, jumps := behind.Now(); jumps != before+1 || now.Before(t0.Add(mono+time.Hour)) {
		t.Errorf("after a jump of the store's clock: %s, %d jumps", now, jumps)
	}
}

// A machine's clock that runs a little fast is corrected by every reading, and one that is ahead
// because the store's went back comes back too, without a time that is given out twice.
//
// Promises: [HIST-12].
func TestAClockThatRunsFastStaysWithTheStores(t *testing.T) {
	t0 := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	passed, back := time.Duration(0), time.Duration(0)
	truth := func() time.Time { return t0.Add(passed - back) }
	const fast = 1 + 100e-6 // of the machine's
	c := NewClockFrom(time.Now, func() time.Duration { return time.Duration(float64(passed) * fast) })
	apart := func(took time.Duration) time.Duration {
		now := truth()
		passed += took
		c.Steer(now, took)
		given, _ := c.Now()
		return given.Sub(truth())
	}
	for i := range 30 * 24 * 360 { // a month of readings, every ten seconds
		took := time.Duration(1+i%20) * time.Millisecond
		if d := apart(took); d > 25*time.Millisecond || d < -25*time.Millisecond {
			t.Fatalf("after %s the clock is %s from the store's", passed, d)
		}
		passed += 10 * time.Second
	}
	back = time.Minute
	last, _ := c.Now()
	for range 300 {
		passed += time.Second
		d := apart(time.Millisecond)
		now, _ := c.Now()
		if !now.After(last) {
			t.Fatalf("time went from %s to %s", last, now)
		}
		if last = now; d < 25*time.Millisecond {
			return
		}
	}
	t.Errorf("five minutes after the store's clock went back by one the clock is still ahead")
}

// Promises: [HIST-12].
func TestTheClockNeverGoesBackAndNoticesJumps(t *testing.T) {
	wall, mono := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
	c := NewClockFrom(func() time.Time { return wall }, func() time.Duration { return mono })
	step := func(w, m time.Duration) (time.Time, uint64) {
		wall, mono = wall.Add(w), mono+m
		return c.Now()
	}
	first, _ := c.Now()
	if at, jumped := step(time.Second, time.Second); jumped != 0 || at.Sub(first) != time.Second {
		t.Fatalf("ordinary second: %v %d", at, jumped)
	}
	if at, jumped := step(-5*time.Minute, time.Second); jumped != 0 || at.Sub(first) != 2*time.Second {
		t.Fatalf("jump back: %v %d", at.Sub(first), jumped)
	}
	if at, _ := step(time.Second, time.Second); at.Sub(first) != 3*time.Second {
		t.Fatalf("time must go on after a jump back: %v", at.Sub(first))
	}
	if at, jumped := step(time.Hour, time.Second); jumped != 1 || at != wall {
		t.Fatalf("jump forward: %v %d", at, jumped)
	}
	if _, jumped := step(time.Second, time.Second); jumped != 1 {
		t.Fatalf("the second reader after a jump is told of %d jumps", jumped)
	}
}
