package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	blobmemory "github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/core/codec"
	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/logs"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/projection"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

const (
	home   = domain.PartitionID("main-0")
	away   = domain.PartitionID("main-1")
	tenant = domain.TenantID("tnt_a")
	poolID = domain.PoolID("default")
)

// yard is a server without transport: store, engine, dispatcher and log gateway.
type yard struct {
	t        *testing.T
	store    *memory.Store
	engine   *engine.Engine
	dispatch *Dispatcher
	logs     *logs.Gateway
	stop     context.CancelFunc
	minted   int
}

type plainManifests struct{}

func (plainManifests) Build(_ context.Context, o Order) (*manifest.Manifest, error) {
	return &manifest.Manifest{Version: manifest.Version, Tenant: o.Tenant, Attempt: o.Attempt, Epoch: o.Epoch,
		Runner: o.Runner, Slot: o.Slot}, nil
}

type noSigner struct{}

func (noSigner) Sign([]byte) (string, []byte) { return "k", []byte("s") }

// newYard makes a yard; more are given the dispatcher's configuration, for further ones that
// observe the same engine as if they were other servers'.
func newYard(t *testing.T, st *memory.Store, more ...func(*yard, Config)) *yard {
	t.Helper()
	y := &yard{t: t, store: st}
	clock := engine.NewClock()
	gateway, err := logs.Open(t.Context(), blobmemory.New(), logs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	y.logs = gateway
	y.engine = engine.New(engine.Config{Store: st, Kinds: projection.Kinds(), Format: codec.Format,
		Partitions: []domain.PartitionID{home, away},
		Pools:      []domain.PartitionID{poolID.Partition()}, Clock: clock, Paranoid: true, Hold: 30 * time.Second})
	config := Config{Engine: y.engine, Manifests: plainManifests{}, Signer: noSigner{}, Keys: func() []Key { return nil },
		TokenDigest: func(s string) (domain.Digest, bool) { return domain.DigestOf([]byte(s)), s != "" },
		Logs:        gateway, Clock: clock, Log: slog.New(slog.DiscardHandler), Partitions: 3, Grace: 5 * time.Second,
		Timing: Timing{Poll: 45 * time.Second, Lease: 30 * time.Second, Abandon: 60 * time.Second},
		Locate: func(ctx context.Context, tn domain.TenantID, r domain.RunID) (domain.PartitionID, error) {
			row, err := st.Run(ctx, tn, r)
			if err != nil {
				return "", domain.Reject(domain.CodeAttemptNotFound, "no such attempt")
			}
			return row.Partition, nil
		},
		Mint: func(prefix string) string {
			y.minted++
			return domain.EncodeID(prefix, [16]byte{0: 1, 15: byte(y.minted)})
		}}
	y.dispatch = New(config)
	y.engine.Observe(y.dispatch)
	for _, f := range more {
		f(y, config)
	}
	if err := y.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	y.stop = cancel
	y.dispatch.Start(ctx)
	y.command(
		poolID.Partition(),
		poolID.Stream(),
		pool.CreatePool{Tenant: tenant, Pool: poolID, Config: pool.DefaultConfig()},
	)
	synctest.Wait() // every partition is loaded
	return y
}

func (y *yard) close() {
	y.stop()
	<-y.dispatch.Done()
	y.engine.Close()
	_ = y.logs.Close()
}

func (y *yard) command(p domain.PartitionID, s domain.StreamID, c any) any {
	y.t.Helper()
	ack, err := y.engine.Submit(y.t.Context(), engine.Envelope{Tenant: tenant, Partition: p, Stream: s, Command: c})
	if err != nil {
		y.t.Fatalf("%T: %v", c, err)
	}
	return ack.Reply
}

// request asks for a run of n jobs without needs in a partition.
func (y *yard) request(p domain.PartitionID, seed byte, n int, change func(*run.JobSkeleton)) domain.RunID {
	y.t.Helper()
	id := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{0: 1, 1: seed}))
	q := run.Request{Run: id, Tenant: tenant, Repository: "rep_x", RepositoryName: "x", WorkflowPath: "w.yml", Number: 1,
		Trigger: run.Trigger{
			Event:      "push",
			Key:        string(id),
			ReceivedAt: time.Now(),
		}, Source: run.Source{Commit: strings.Repeat("a", 40)},
		Tier: domain.TierTrusted, Class: domain.ClassInteractive}
	for i := range n {
		k := run.JobSkeleton{Index: i, Key: fmt.Sprint("j", i), Name: "j", TimeoutSeconds: 3600, Steps: []string{"one"},
			Retry: run.Retry{Max: 2, On: []domain.FailureClass{domain.FailureRunnerLost}, BackoffSeconds: 1}}
		if change != nil {
			change(&k)
		}
		q.Skeleton = append(q.Skeleton, k)
	}
	y.command(p, id.Stream(), run.RequestRun{Request: q})
	return id
}

func (y *yard) state(id domain.RunID) *run.State {
	y.t.Helper()
	h, err := y.engine.Read(y.t.Context(), tenant, id.Stream(), false)
	if err != nil {
		y.t.Fatal(err)
	}
	return h.State.(*run.State)
}

// hand is a runner's side of the protocol, worked by hand.
type hand struct {
	y        *yard
	runner   string
	session  string
	secret   string
	offer    int
	capacity int
}

func (y *yard) register(name string, capacity int) *hand {
	y.t.Helper()
	y.command(
		poolID.Partition(),
		poolID.Stream(),
		pool.IssueRegistrationToken{Token: domain.DigestOf([]byte("tok-" + name)),
			Expires: time.Now().Add(time.Hour)},
	)
	h := &hand{y: y, secret: "secret-" + name, capacity: capacity}
	sum := sha256.Sum256([]byte(h.secret))
	req := &runnerv1.RegisterRequest{Protocol: Protocol, Token: "tok-" + name, Name: name, Capacity: uint32(capacity),
		Isolation: "process", Os: "linux", Arch: "amd64", ResumeDigest: hex.EncodeToString(sum[:])}
	res, err := y.dispatch.Register(y.t.Context(), req)
	if err != nil {
		y.t.Fatal(err)
	}
	again, err := y.dispatch.Register(y.t.Context(), req)
	if err != nil || again.GetRunner() != res.GetRunner() {
		y.t.Fatalf("registering again: %v, %v", again, err)
	}
	h.runner, h.session = res.GetRunner(), res.GetSession()
	return h
}

func (h *hand) exchange(req *runnerv1.ExchangeRequest) *runnerv1.ExchangeResponse {
	h.y.t.Helper()
	req.Session, req.Resume = h.session, h.secret
	res, err := h.y.dispatch.Exchange(h.y.t.Context(), req)
	if err != nil {
		h.y.t.Fatalf("exchange: %v", err)
	}
	return res
}

// poll offers all slots but those of held leases, and waits.
func (h *hand) poll(held ...*runnerv1.Lease) *runnerv1.ExchangeResponse {
	h.y.t.Helper()
	h.offer++
	req := &runnerv1.ExchangeRequest{WaitMs: 20_000}
	for i := range h.capacity - len(held) {
		req.Offers = append(req.Offers, fmt.Sprintf("%s/%d/%d", h.runner, i, h.offer))
	}
	for _, l := range held {
		req.Renewals = append(
			req.Renewals,
			&runnerv1.Renewal{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Observed: "running"},
		)
	}
	return h.exchange(req)
}

func result(l *runnerv1.Lease, outcome, digest string) *runnerv1.ExchangeRequest {
	return &runnerv1.ExchangeRequest{
		Results: []*runnerv1.Result{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Outcome: outcome,
			Digest: string(domain.DigestOf([]byte(digest))), LogEnd: 0, Effect: "none"}},
	}
}

func inYard(t *testing.T, test func(t *testing.T, y *yard)) {
	synctest.Test(t, func(t *testing.T) {
		y := newYard(t, memory.New())
		defer func() { y.close() }()
		test(t, y)
	})
}

// Promises: [RUN-2].
func TestAWaitingPollGetsTheLeaseAtOnceAndTheResultCommitsOnce(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		got := make(chan *runnerv1.ExchangeResponse, 1)
		go func() { got <- h.poll() }()
		synctest.Wait()
		begin := time.Now()
		id := y.request(home, 1, 1, nil)
		res := <-got
		if len(res.GetLeases()) != 1 || time.Since(begin) > 0 {
			t.Fatalf("leases %v after %v", res.GetLeases(), time.Since(begin))
		}
		l := res.GetLeases()[0]
		for range 2 {
			if ack := h.exchange(result(l, "success", "r")).GetAcks(); len(ack) != 1 || !ack[0].GetResult() {
				t.Fatalf("acks %v", ack)
			}
		}
		s := y.state(id)
		if s.Outcome != domain.OutcomeSuccess || len(s.Jobs[0].Attempts) != 1 {
			t.Fatalf("run %s, %d attempts", s.Outcome, len(s.Jobs[0].Attempts))
		}
		if acks := h.exchange(result(l, "failure", "other")).GetAcks(); len(acks) != 1 {
			t.Fatalf("a contradicting report must be dealt with: %v", acks)
		}
		if s = y.state(id); s.Outcome != domain.OutcomeSuccess || len(s.Jobs[0].Attempts[0].Conflicts) != 1 {
			t.Fatalf("the conflict was not recorded: %+v", s.Jobs[0].Attempts[0])
		}
	})
}

// Promises: [LEASE-3].
func TestALeaseWhoseReplyWasLostIsToldAgain(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		first := h.poll()
		second := h.poll()
		if len(first.GetLeases()) != 1 || len(second.GetLeases()) != 1 ||
			first.GetLeases()[0].GetAttempt() != second.GetLeases()[0].GetAttempt() {
			t.Fatalf("first %v, second %v", first.GetLeases(), second.GetLeases())
		}
		if third := h.poll(first.GetLeases()[0]); len(third.GetLeases()) != 0 {
			t.Fatalf("a held lease was told again: %v", third.GetLeases())
		}
	})
}

// Promises: [LEASE-2].
func TestOneRunnerServesSeveralPartitionsWithinItsCapacity(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("two", 2)
		y.request(home, 1, 2, nil)
		y.request(away, 2, 2, nil)
		held := h.poll().GetLeases()
		for len(held) < 2 {
			held = append(held, h.poll(held...).GetLeases()...)
		}
		time.Sleep(time.Minute / 6)
		if more := h.poll(held...).GetLeases(); len(held) != 2 || len(more) != 0 {
			t.Fatalf("%d leases, then %d more with capacity 2", len(held), len(more))
		}
		done := 0
		for len(held) > 0 {
			h.exchange(result(held[0], "success", held[0].GetAttempt()))
			done++
			held = held[1:]
			if done < 4 {
				held = append(held, h.poll(held...).GetLeases()...)
			}
		}
		if done != 4 {
			t.Fatalf("%d of 4 jobs of two partitions ran", done)
		}
	})
}

// Promises: [LEASE-4], [LEASE-5], [ACC-3].
func TestASilentRunnerLosesItsAttemptAndItsLateReportIsRefused(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h, other := y.register("gone", 1), y.register("other", 1)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		time.Sleep(35 * time.Second)
		a := y.state(id).Jobs[0].Attempts[0]
		if a.Observed != domain.ObservedUnreachable || !a.Uncertain || a.Outcome != domain.OutcomeNone {
			t.Fatalf("after the lease lapsed: %+v", a)
		}
		time.Sleep(60*time.Second + run.Skew)
		s := y.state(id)
		if a = s.Jobs[0].Attempts[0]; a.Outcome != domain.OutcomeLost || a.Class != domain.FailureRunnerLost {
			t.Fatalf("after abandonBy: %+v", a)
		}
		next := other.poll()
		if len(next.GetLeases()) != 1 || next.GetLeases()[0].GetEpoch() <= l.GetEpoch() {
			t.Fatalf("second attempt: %v", next)
		}
		acks := h.exchange(result(l, "success", "late")).GetAcks()
		if len(acks) != 1 || acks[0].GetRefused() != string(domain.CodeLeaseEpochStale) {
			t.Fatalf("late report: %v", acks)
		}
		data := []byte("late words")
		acks = h.exchange(&runnerv1.ExchangeRequest{Chunks: []*runnerv1.Chunk{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(),
			Sequence: 1, Stream: 1, Data: data, Checksum: domain.Checksum(data)}}}).GetAcks()
		if len(acks) != 1 || acks[0].GetRefused() != string(domain.CodeLeaseEpochStale) {
			t.Fatalf("late chunk: %v", acks)
		}
		if y.dispatch.MayFetch(t.Context(), tenant, domain.AttemptID(l.GetAttempt()), l.GetEpoch()) {
			t.Fatal("the token of a lost attempt still fetches")
		}
		if n := y.state(id).Jobs[0].Attempts[0].Refused; n != 3 {
			t.Fatalf("%d refusals recorded, want report, chunk and fetch", n)
		}
		if r := h.poll(l).GetRenewals(); len(r) != 1 || r[0].GetLive() {
			t.Fatalf("renewal of a lost attempt: %v", r)
		}
		if n := y.state(id).Jobs[0].Attempts[0].Refused; n != 4 {
			t.Fatalf("%d refusals recorded, want the renewal as well", n)
		}
		for range 196 { // of one kind after the other: ten are kept one by one, and all are counted
			h.exchange(result(l, "success", "late"))
		}
		if a := y.state(id).Jobs[0].Attempts[0]; a.Refused != 200 || a.RefusedKept != refusalsSingle {
			t.Fatalf("%d refusals recorded, %d of them one by one; want 200 and %d", a.Refused, a.RefusedKept, refusalsSingle)
		}
	})
}

// Promises: [RUN-7].
func TestAnEffectfulAttemptThatStartedIsHeldForAPerson(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("gone", 1)
		id := y.request(home, 1, 1, func(k *run.JobSkeleton) { k.Effectful = true })
		l := h.poll().GetLeases()[0]
		h.exchange(&runnerv1.ExchangeRequest{Progress: []*runnerv1.Progress{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(),
			Sequence: 1, Observed: "running", Steps: []*runnerv1.Step{{Index: 0, StartedUs: time.Now().UnixMicro()}}}}})
		time.Sleep(10 * time.Minute)
		s := y.state(id)
		if a := s.Jobs[0].Attempts[0]; !a.Held || a.Outcome != domain.OutcomeNone || !run.Attention(s) {
			t.Fatalf("not held: %+v", a)
		}
	})
}

// Nobody acts on an attempt that waits for a person, and that may take days: meanwhile its runner
// has work to do.
//
// Promises: [LEASE-13].
func TestAnAttemptThatWaitsForAPersonHasNoSlot(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				y := newYard(t, st)
				defer func() { y.close() }()
				h := y.register("one", 1)
				held := y.request(home, 1, 1, func(k *run.JobSkeleton) { k.Effectful = true })
				l := h.poll().GetLeases()[0]
				h.exchange(&runnerv1.ExchangeRequest{Progress: []*runnerv1.Progress{{Attempt: l.GetAttempt(),
					Epoch: l.GetEpoch(), Sequence: 1, Observed: "running",
					Steps: []*runnerv1.Step{{Index: 0, StartedUs: time.Now().UnixMicro()}}}}})
				time.Sleep(10 * time.Minute)
				if !y.state(held).Jobs[0].Attempts[0].Held {
					t.Fatal("the attempt does not wait for a person")
				}
				if restart {
					y.close()
					y = newYard(t, st)
					h.y = y
				}
				next := y.request(home, 2, 1, nil)
				leases := h.poll().GetLeases()
				if len(leases) != 1 || domain.AttemptID(leases[0].GetAttempt()).Run() != next {
					t.Fatalf("beside an attempt that waits for a person the runner gets %v", leases)
				}
				// What it finds out late still counts, and takes nothing from the lease that it has.
				h.exchange(result(l, "success", "r"))
				if s := y.state(held); s.Outcome != domain.OutcomeSuccess {
					t.Errorf("the late report made it %q", s.Outcome)
				}
				y.request(home, 3, 1, nil)
				if more := h.poll(leases...).GetLeases(); len(more) != 0 {
					t.Errorf("a runner with one slot got another lease: %v", more)
				}
			})
		})
	}
}

// Promises: [LEASE-6].
func TestARunnerThatComesBackInTimeKeepsItsLease(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("slow", 1)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		time.Sleep(40 * time.Second)
		if !y.state(id).Jobs[0].Attempts[0].Uncertain {
			t.Fatal("not uncertain")
		}
		res := h.exchange(
			&runnerv1.ExchangeRequest{Renewals: []*runnerv1.Renewal{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch()}}},
		)
		if r := res.GetRenewals(); len(r) != 1 || !r[0].GetLive() {
			t.Fatalf("renewal: %v", r)
		}
		h.exchange(result(l, "success", "r"))
		if s := y.state(id); s.Outcome != domain.OutcomeSuccess || len(s.Jobs[0].Attempts) != 1 {
			t.Fatalf("run %s", s.Outcome)
		}
	})
}

// Promises: [LEASE-7].
func TestARestartedServerKeepsLeasesAndSaysNothingItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		y := newYard(t, st)
		h := y.register("one", 1)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		y.close()
		time.Sleep(20 * time.Second)
		y = newYard(t, st)
		defer func() { y.close() }()
		h.y = y
		time.Sleep(15 * time.Second) // longer than the lease, if the new owner gave no grace
		res := h.poll(l)
		if r := res.GetRenewals(); len(r) != 1 || !r[0].GetLive() {
			t.Fatalf("renewal after the restart: %v", res)
		}
		h.exchange(result(l, "success", "r"))
		if s := y.state(id); s.Outcome != domain.OutcomeSuccess || len(s.Jobs[0].Attempts) != 1 {
			t.Fatalf("run %s with %d attempts", s.Outcome, len(s.Jobs[0].Attempts))
		}
	})
}

// Promises: [CANCEL-1].
func TestACancelReachesTheRunnerAndIsNotATermination(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		got := make(chan *runnerv1.ExchangeResponse, 1)
		go func() { got <- h.poll(l) }()
		synctest.Wait()
		y.command(home, id.Stream(), run.RequestCancel{Reason: "enough"})
		res := <-got
		if c := res.GetCancels(); len(c) != 1 || c[0].GetReason() != "cancelled" || c[0].GetGraceMs() <= 0 {
			t.Fatalf("cancels %v", c)
		}
		if a := y.state(id).Jobs[0].Attempts[0]; a.Desired != domain.DesiredCancel || a.Outcome != domain.OutcomeNone {
			t.Fatalf("%+v", a)
		}
		h.exchange(&runnerv1.ExchangeRequest{KnownCancels: []string{l.GetAttempt()}})
		req := result(l, "cancelled", "c")
		req.Results[0].FailureClass = "cancelled"
		h.exchange(req)
		if s := y.state(id); s.Outcome != domain.OutcomeCancelled {
			t.Fatalf("run %s", s.Outcome)
		}
	})
}

// A runner that does not name an attempt has nothing to stop: its polls wait all the same.
//
// Promises: [LEASE-14].
func TestAPollIsNotAnsweredForWhatTheRunnerDoesNotHold(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 2)
		id := y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		h.poll(l) // it is held, and then the runner forgets it: another machine under its identity
		y.command(home, id.Stream(), run.RequestCancel{Reason: "enough"})
		begun := time.Now()
		if res := h.poll(); len(res.GetCancels())+len(res.GetLeases()) != 0 {
			t.Errorf("told of what it does not hold: %v", res)
		}
		if waited := time.Since(begun); waited < time.Second {
			t.Errorf("the poll was answered after %s", waited)
		}
		if c := h.poll(l).GetCancels(); len(c) != 1 {
			t.Errorf("cancels of what it names: %v", c)
		}
	})
}

// A lease that was told and not named is told again, for the answer may be lost, but not in
// every answer: the runner may have declined it, and nobody could record that yet.
//
// Promises: [LEASE-14].
func TestALeaseIsToldAgainAfterAWhile(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		first := h.poll().GetLeases()[0]
		begun := time.Now()
		again := h.poll().GetLeases()
		if len(again) != 1 || again[0].GetAttempt() != first.GetAttempt() {
			t.Fatalf("leases %v", again)
		}
		if waited := time.Since(begun); waited < tellAgain || waited > 2*tellAgain {
			t.Errorf("told again after %s", waited)
		}
		if res := h.poll(first); len(res.GetLeases()) != 0 {
			t.Errorf("told again although it is held: %v", res)
		}
	})
}

// Promises: [ACC-2].
func TestStrangersAndWrongSecretsGetTheSameAnswer(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		var texts []string
		for _, req := range []*runnerv1.ExchangeRequest{
			{Session: h.session, Resume: "guess"}, {Session: "ses_unknown", Resume: h.secret}, {},
		} {
			_, err := y.dispatch.Exchange(t.Context(), req)
			if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeUnauthenticated {
				t.Fatalf("%v: %v", req, err)
			}
			texts = append(texts, err.Error())
		}
		if texts[0] != texts[1] || texts[1] != texts[2] {
			t.Fatalf("answers differ: %q", texts)
		}
	})
}

// Promises: [LEASE-3].
func TestASlotThatIsOfferedTwiceKeepsNoJobFromOthers(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		bad := y.register("bad", 1)
		id := y.request(home, 1, 1, nil)
		slot := fmt.Sprintf("%s/0/7", bad.runner)
		offer := func() *runnerv1.ExchangeResponse {
			return bad.exchange(&runnerv1.ExchangeRequest{WaitMs: 2000, Offers: []string{slot}})
		}
		l := offer().GetLeases()[0]
		bad.exchange(&runnerv1.ExchangeRequest{
			Declines: []*runnerv1.Decline{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Reason: "no"}}})
		if n := len(offer().GetLeases()); n != 0 {
			t.Fatalf("%d leases for a slot that was used", n)
		}
		good := y.register("good", 1)
		if n := len(good.poll().GetLeases()); n != 1 {
			t.Fatalf("%d leases for a good runner; the job is %s: %q", n, y.state(id).Jobs[0].State,
				y.dispatch.Explain(id.Job(0)))
		}
	})
}

func TestOnlyPlainTokensAreSlots(t *testing.T) {
	const runner = domain.RunnerID("rnr_a")
	for text, want := range map[string]bool{
		"rnr_a/0/1": true, "rnr_a/999/18446744073709551615": true,
		"rnr_b/0/1": false, "rnr_a/": false, "rnr_a/0": false, "rnr_a/0/x": false, "rnr_a/0/1/2": false, "rnr_a/-1/1": false,
		"rnr_a/0/" + strings.Repeat("0", 5000): false, "rnr_a/0/\x00": false,
	} {
		if offerOf(runner, text) != want {
			t.Errorf("%.40q: want %v", text, want)
		}
	}
}

// Promises: [LEASE-5].
func TestARunnerCanNotReportForAnother(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		holder, thief := y.register("holder", 1), y.register("thief", 1)
		id := y.request(home, 1, 1, nil)
		l := holder.poll().GetLeases()[0]
		for name, req := range map[string]*runnerv1.ExchangeRequest{
			"result":  result(l, "success", "stolen"),
			"decline": {Declines: []*runnerv1.Decline{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Reason: "no"}}},
			"progress": {Progress: []*runnerv1.Progress{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Sequence: 1,
				Observed: "exited"}}},
		} {
			acks := thief.exchange(req).GetAcks()
			if len(acks) != 1 || acks[0].GetRefused() != string(domain.CodeLeaseEpochStale) || acks[0].GetResult() {
				t.Errorf("%s of another runner: %v", name, acks)
			}
		}
		a := y.state(id).Jobs[0].Attempts[0]
		if a.Outcome != domain.OutcomeNone || a.Observed != domain.ObservedLeased || a.Refused != 3 {
			t.Fatalf("after reports of another runner: %+v", a)
		}
		if acks := holder.exchange(result(l, "success", "own")).GetAcks(); len(acks) != 1 || !acks[0].GetResult() {
			t.Fatalf("report of the holder: %v", acks)
		}
	})
}

// Promises: [RUN-17].
func TestAJobThatNobodyCanTakeSaysWhy(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		go h.poll()
		synctest.Wait()
		id := y.request(home, 1, 1, func(k *run.JobSkeleton) { k.RunsOn = []string{"gpu"} })
		synctest.Wait()
		if why := y.dispatch.Explain(id.Job(0)); !strings.Contains(why, `"gpu"`) {
			t.Fatalf("why: %q", why)
		}
		alias := y.request(home, 2, 1, func(k *run.JobSkeleton) { k.RunsOn = []string{"ubuntu-latest"} })
		synctest.Wait()
		if a := y.state(alias).Jobs[0].Attempts; len(a) != 1 || a[0].Alias != "ubuntu-latest" {
			t.Fatalf("alias: %+v", a)
		}
	})
}

func TestASlotThatOpensBesideAWaitingPollIsUsedAtOnce(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		y.request(home, 1, 2, nil)
		l := h.poll().GetLeases()[0]
		got := make(chan *runnerv1.ExchangeResponse, 1)
		go func() { got <- h.poll(l) }() // offers nothing: its slot is taken
		synctest.Wait()
		h.exchange(result(l, "success", "r"))
		begin := time.Now()
		h.exchange(&runnerv1.ExchangeRequest{Sequence: 99, Offers: []string{h.runner + "/0/99"}})
		res := <-got
		if time.Since(begin) > 0 || len(res.GetLeases()) != 1 {
			t.Fatalf("after %v: %v", time.Since(begin), res.GetLeases())
		}
	})
}

func TestWorkThatLostItsCauseGetsItBack(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		id := y.request(home, 1, 1, nil)
		y.dispatch.mu.Lock()
		y.dispatch.board.dropHead(id.Job(0)) // as if the news had never come
		y.dispatch.mu.Unlock()
		if y.dispatch.Explain(id.Job(0)) != "" {
			t.Fatal("the job was not lost")
		}
		time.Sleep(time.Minute) // the reconciler passes by
		h := y.register("one", 1)
		l := h.poll().GetLeases()
		if len(l) != 1 {
			t.Fatal("a ready job that dispatch had forgotten was never leased")
		}
		y.dispatch.mu.Lock()
		y.dispatch.board.dropLease(domain.AttemptID(l[0].GetAttempt())) // and a lease that the keeper lost
		y.dispatch.mu.Unlock()
		time.Sleep(3 * time.Minute)
		s := y.state(id)
		if s.Jobs[0].Attempts[0].Outcome != domain.OutcomeLost || y.dispatch.repairs < 1 {
			t.Fatalf("%d repairs, attempt %+v", y.dispatch.repairs, s.Jobs[0].Attempts[0])
		}
	})
}

// An attempt that has ended is acknowledged only what is durable, whatever memory knows of
// it: nothing, when its lease was dropped before the news of the end came, or the news has
// still to come.
func TestTheLastChunksAreStoredThoughMemoryHasNoPlaceForThem(t *testing.T) {
	for _, forget := range []func(b *board, att domain.AttemptID){
		func(*board, domain.AttemptID) {},
		func(b *board, att domain.AttemptID) { delete(b.closing, att) },
	} {
		inYard(t, func(t *testing.T, y *yard) {
			h := y.register("one", 1)
			y.request(home, 1, 1, nil)
			l := h.poll().GetLeases()[0]
			att := domain.AttemptID(l.GetAttempt())
			y.dispatch.mu.Lock()
			y.dispatch.board.dropLease(att)
			y.dispatch.mu.Unlock()
			report := result(l, "success", "r")
			report.Results[0].LogEnd = 1
			h.exchange(report)
			y.dispatch.mu.Lock()
			if y.dispatch.board.closing[att] == nil {
				t.Error("an attempt without a lease ended, and its last chunks have no place")
			}
			forget(y.dispatch.board, att)
			y.dispatch.mu.Unlock()
			data := []byte("last words")
			acks := h.exchange(&runnerv1.ExchangeRequest{Chunks: []*runnerv1.Chunk{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(),
				Sequence: 1, Stream: 1, Data: data, Checksum: domain.Checksum(data)}}}).GetAcks()
			if len(acks) != 1 || acks[0].GetChunks() != 1 || acks[0].GetRefused() != "" {
				t.Errorf("the last chunk: %v", acks)
			}
			if got := y.logs.Through(tenant, att); got != 1 {
				t.Errorf("chunk 1 was acknowledged, durable through %d", got)
			}
		})
	}
}

// Promises: [LEASE-11].
func TestAReportThatMemoryCanNotPlaceYetIsRefusedAsAWhole(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		y.request(home, 1, 1, nil)
		l := h.poll().GetLeases()[0]
		y.dispatch.mu.Lock()
		delete(y.dispatch.board.ready, home) // as right after a start
		y.dispatch.mu.Unlock()
		data := []byte("words")
		_, err := y.dispatch.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: h.session, Resume: h.secret,
			Chunks: []*runnerv1.Chunk{{Attempt: l.GetAttempt(), Epoch: l.GetEpoch(), Sequence: 1, Stream: 1, Data: data,
				Checksum: domain.Checksum(data)}}})
		if r, ok := domain.AsRejection(err); !ok || r.Code != domain.CodeNotOwner {
			t.Fatalf("a silent answer would leave a hole in the log: %v", err)
		}
	})
}

// A leader that has not loaded every partition does not know which slots are lent there.
func TestNothingIsPlacedBeforeAllLeasesAreKnown(t *testing.T) {
	inYard(t, func(t *testing.T, y *yard) {
		h := y.register("one", 1)
		y.dispatch.mu.Lock()
		delete(y.dispatch.board.ready, away)
		y.dispatch.mu.Unlock()
		y.request(home, 1, 1, nil)
		if l := h.poll().GetLeases(); len(l) > 0 {
			t.Fatalf("placed while %s is not loaded: %v", away, l)
		}
		y.dispatch.Ready(away, true)
		if l := h.poll().GetLeases(); len(l) != 1 {
			t.Fatalf("placed once it is loaded: %v", l)
		}
	})
}
