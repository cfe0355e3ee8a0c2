package reactor

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/host"
	"github.com/fairlead-ci/fairlead/internal/logs"
)

// recorded takes what the sealer tells the run.
type recorded chan run.RecordLog

func (r recorded) Submit(_ context.Context, e engine.Envelope) (engine.Ack, error) {
	r <- e.Command.(run.RecordLog)
	return engine.Ack{}, nil
}

func (recorded) Read(context.Context, domain.TenantID, domain.StreamID, bool) (engine.History, error) {
	return engine.History{}, domain.Reject(domain.CodeNotFound, "There is no such thing.")
}

// A server that dies after the sealed object is durable and before the run knows of it must
// not, after its restart, wait for chunks that are in that object already.
func TestALogThatWasSealedBeforeACrashIsRecordedAtOnce(t *testing.T) {
	ctx, store := t.Context(), memory.New()
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1}))
	attempt := id.Job(0).Attempt(1)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before, err := logs.Open(ctx, store, logs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var chunks []logs.Chunk
	for n := range uint64(3) {
		text := []byte("a line\n")
		chunks = append(chunks, logs.Chunk{Tenant: domain.DefaultTenant, Attempt: attempt, Epoch: 1, Sequence: n + 1,
			Stream: logs.StreamOut, At: now, Data: text, Checksum: domain.Checksum(text)})
	}
	if _, err := before.Append(ctx, chunks); err != nil {
		t.Fatal(err)
	}
	want, err := before.Seal(ctx, domain.DefaultTenant, attempt, domain.ClassBatch, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil { // the record of it was never written
		t.Fatal(err)
	}

	after, err := logs.Open(ctx, store, logs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = after.Close() }()
	told := make(recorded, 1)
	sealer := NewSealer(told, after, slog.New(slog.DiscardHandler), func() time.Time { return now })
	sealer.Loaded(engine.Live{Tenant: domain.DefaultTenant, Stream: id.Stream(), State: &run.State{
		Request: run.Request{Run: id}, Jobs: []*run.Job{{Attempts: []run.Attempt{{Number: 1, Epoch: 1,
			Outcome: domain.OutcomeSuccess, Report: domain.DigestOf([]byte("report")), LogEnd: 3, ConcludedAt: now}}}},
	}})
	select {
	case got := <-told:
		if got.Log.Digest != want.Digest || got.Log.Bytes != want.Bytes || got.Log.Gaps != 0 {
			t.Errorf("recorded %+v, sealed was %+v", got.Log, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("the log is not recorded: the sealer waits for chunks that will never come")
	}
}

// broken is a gateway that can't seal; it counts how often it was asked.
type broken struct{ asked chan struct{} }

func (b broken) Seal(context.Context, domain.TenantID, domain.AttemptID, domain.Class, uint64) (logs.Ref, error) {
	b.asked <- struct{}{}
	return logs.Ref{}, errors.New("the store is away")
}

func (broken) Through(domain.TenantID, domain.AttemptID) uint64 { return 0 }

func (broken) Sealed(context.Context, domain.TenantID, domain.AttemptID) (bool, error) {
	return false, nil
}

func (broken) Recorded(domain.TenantID, domain.AttemptID, logs.Ref) {}

func (broken) Live() []logs.LiveLog { return nil }

// byHand is this machine, where the test lets the timers of new tries go off.
type byHand struct {
	host.Host
	timers chan func()
}

func (b byHand) After(d time.Duration, f func()) {
	if d == sealAgain {
		b.timers <- f
	}
}

// Sweeps ask for everything that is due, however often that was asked before. A log that
// can't be sealed must not gain another chain of tries with each of them.
func TestALogThatCantBeSealedHasOneTimerHoweverOftenSweepsAsk(t *testing.T) {
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1}))
	live := engine.Live{Tenant: domain.DefaultTenant, Stream: id.Stream(), State: &run.State{
		Request: run.Request{Run: id}, Jobs: []*run.Job{{Attempts: []run.Attempt{{Number: 1, Epoch: 1,
			Outcome: domain.OutcomeLost, ConcludedAt: time.Now()}}}},
	}}
	gateway := broken{make(chan struct{}, 1000)}
	here := byHand{host.Machine(), make(chan func(), 1000)}
	sealer := NewSealer(make(recorded), gateway, slog.New(slog.DiscardHandler), time.Now).On(here)
	sealer.Loaded(live)
	for range 3 {
		<-gateway.asked
		again := <-here.timers
		for range 100 {
			sealer.Loaded(live)
		}
		time.Sleep(10 * time.Millisecond) // what began wrongly gets a chance to show
		if tries, timers := len(gateway.asked), len(here.timers); tries != 0 || timers != 0 {
			t.Fatalf("a hundred sweeps made %d more tries and %d more timers", tries, timers)
		}
		again()
	}
}

// many is a gateway with live logs of which history knows nothing, and one of which it does.
type many struct {
	broken
	live []logs.LiveLog
	told chan domain.AttemptID
}

func (m *many) Live() []logs.LiveLog { return m.live }

func (m *many) Recorded(_ domain.TenantID, a domain.AttemptID, _ logs.Ref) { m.told <- a }

// knows is a history with one sealed log.
type knows struct {
	recorded
	run domain.RunID
}

func (k knows) Read(_ context.Context, _ domain.TenantID, id domain.StreamID, _ bool) (engine.History, error) {
	if id != k.run.Stream() {
		return engine.History{}, domain.Reject(domain.CodeNotFound, "There is no such thing.")
	}
	return engine.History{State: &run.State{Request: run.Request{Run: k.run}, Jobs: []*run.Job{{Attempts: []run.Attempt{
		{Number: 1, Epoch: 1, Outcome: domain.OutcomeSuccess, Log: &run.Log{Object: "o"}}}}}}}, nil
}

// Logs that history will never know must not keep the sweep from those behind them.
func TestASweepGoesOnBehindTheOneBefore(t *testing.T) {
	gateway := &many{told: make(chan domain.AttemptID, 10)}
	var last domain.RunID
	for i := range sweepMost + 10 {
		last = domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 14: byte(i >> 8), 15: byte(i)}))
		gateway.live = append(gateway.live, logs.LiveLog{Tenant: domain.DefaultTenant, Attempt: last.Job(0).Attempt(1)})
	}
	sealer := NewSealer(knows{run: last}, gateway, slog.New(slog.DiscardHandler), time.Now)
	sealer.sweep()
	if n := len(gateway.told); n != 0 {
		t.Fatalf("the first sweep told of %d logs", n)
	}
	sealer.sweep()
	if n := len(gateway.told); n != 1 || <-gateway.told != last.Job(0).Attempt(1) {
		t.Errorf("the second sweep told of %d logs", n)
	}
}
