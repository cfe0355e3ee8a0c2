package runner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// rig drives a machine by hand: time is a number, and exchanges are in its hands.
type rig struct {
	t     *testing.T
	m     *machine
	now   instant
	next  instant
	sent  map[kind]*runnerv1.ExchangeRequest
	other []string
}

func newRig(t *testing.T, capacity int) *rig {
	r := &rig{t: t, now: 1_000_000_000, sent: make(map[kind]*runnerv1.ExchangeRequest)}
	r.m = newMachine(config{
		runner: "rnr_1", session: "ses_1", resume: "secret", boot: 4, capacity: capacity, keys: manifest.Keyring{},
		timing: &runnerv1.Timing{PollMs: 10_000, RenewMs: 1000, LeaseMs: 3000, AbandonMs: 6000, GraceMs: 500},
		wall:   time.Now, jitter: func() float64 { return 0.5 },
	})
	r.settle()
	return r
}

func (r *rig) settle() {
	for {
		r.next = r.m.plan(r.now)
		effects := r.m.take()
		if len(effects) == 0 {
			return
		}
		for _, e := range effects {
			switch e := e.(type) {
			case effSend:
				r.sent[e.kind] = e.req
			case effNote:
			default:
				r.other = append(r.other, fmt.Sprintf("%T%v", e, e))
			}
		}
	}
}

func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	r.settle()
}

func (r *rig) answer(k kind, resp *runnerv1.ExchangeResponse) {
	r.t.Helper()
	req := r.sent[k]
	if req == nil {
		r.t.Fatalf("no %v is in flight", k)
	}
	delete(r.sent, k)
	r.m.answered(k, req, resp, r.now)
	r.settle()
}

func (r *rig) fail(k kind) {
	r.t.Helper()
	req := r.sent[k]
	if req == nil {
		r.t.Fatalf("no %v is in flight", k)
	}
	delete(r.sent, k)
	r.m.failed(k, req, fmt.Errorf("connection refused"), r.now)
	r.settle()
}

// effects returns what was done besides sending, since the last call.
func (r *rig) effects() string {
	out := strings.ReplaceAll(strings.Join(r.other, "; "), "runner.", "")
	r.other = nil
	return out
}

// running makes the machine hold an attempt in slot 0.
func (r *rig) running(attempt string) {
	r.m.adopt(supervisor.State{
		Attempt: domain.AttemptID(attempt), Epoch: 2, Slot: "rnr_1/0/17", AbandonAt: r.now.Add(6 * time.Second),
	})
	r.settle()
}

func TestTheFirstExchangeOffersAndGreets(t *testing.T) {
	r := newRig(t, 2)
	first := r.sent[upload]
	if first == nil || r.sent[poll] != nil || !slices.Equal(first.GetOffers(), []string{"rnr_1/0/4000000001",
		"rnr_1/1/4000000001"}) {
		t.Fatalf("first exchange %v", first)
	}
	r.answer(upload, &runnerv1.ExchangeResponse{})
	if r.effects() != "effReady{}" || r.sent[poll].GetWaitMs() != 10_000 || len(r.sent[poll].GetOffers()) != 2 {
		t.Errorf("poll %v", r.sent[poll])
	}
}

func TestADeclineIsSaidUntilItIsHeardAndItsTokenIsSpent(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.answer(poll, &runnerv1.ExchangeResponse{Leases: []*runnerv1.Lease{{
		Attempt: "att_x", Epoch: 1, Slot: "rnr_1/0/4000000001", Manifest: []byte("{}"), KeyId: "k",
	}}})
	up := r.sent[upload]
	if len(up.GetDeclines()) != 1 || !slices.Equal(up.GetOffers(), []string{"rnr_1/0/4000000002"}) {
		t.Fatalf("upload %v", up)
	}
	r.fail(upload)
	r.pass(time.Second)
	if len(r.sent[upload].GetDeclines()) != 1 {
		t.Error("the decline was forgotten")
	}
	r.answer(upload, &runnerv1.ExchangeResponse{})
	if r.sent[upload] != nil {
		t.Errorf("said again: %v", r.sent[upload])
	}
}

// A runner that must decline everything, as with a clock that is wrong, asks ever less often: each
// decline costs a job an attempt.
func TestWhoDeclinesEverythingAsksLessOften(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	waited := time.Duration(0)
	for n := range 10 {
		if r.sent[poll] == nil {
			t.Fatalf("no poll after %d declines", n)
		}
		r.answer(poll, &runnerv1.ExchangeResponse{Leases: []*runnerv1.Lease{{Attempt: "att_x", Epoch: uint64(n + 1),
			Slot: fmt.Sprintf("rnr_1/0/%d", 4000000001+n), Manifest: []byte("{}"), KeyId: "k"}}})
		r.answer(upload, &runnerv1.ExchangeResponse{})
		last := waited
		for waited = 0; r.sent[poll] == nil && waited < time.Minute; waited += 50 * time.Millisecond {
			r.pass(50 * time.Millisecond)
		}
		if waited < last || waited == 0 || waited > 6*time.Second {
			t.Errorf("after %d declines it asked after %v, before that after %v", n+1, waited, last)
		}
	}
	if waited < 4*time.Second {
		t.Errorf("it asks after %v", waited)
	}
}

func TestLeasesCountFromWhenTheQuestionWasSent(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	sent := r.now
	if len(r.sent[beat].GetRenewals()) != 1 {
		t.Fatalf("beat %v", r.sent[beat])
	}
	r.pass(2 * time.Second)
	r.answer(beat, &runnerv1.ExchangeResponse{Renewals: []*runnerv1.RenewalReply{{Attempt: "att_a", Epoch: 2,
		Live: true, AbandonMs: 6500}}})
	want := fmt.Sprintf("effExtend{att_a %d}", sent.Add(6500*time.Millisecond))
	if got := r.effects(); !strings.Contains(got, want) {
		t.Errorf("effects %s, want %s", got, want)
	}
	// An older answer never takes time away.
	r.pass(2 * time.Second)
	r.answer(beat, &runnerv1.ExchangeResponse{Renewals: []*runnerv1.RenewalReply{{Attempt: "att_a", Epoch: 2,
		Live: true, AbandonMs: 1}}})
	if got := r.effects(); strings.Contains(got, "effExtend") {
		t.Errorf("effects %s", got)
	}
}

func TestHeartbeatsDoNotWaitForUploads(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	r.answer(beat, &runnerv1.ExchangeResponse{})
	r.m.spooled("att_a", news{chunks: []*runnerv1.Chunk{{Sequence: 1, Data: []byte("x")}}}, r.now)
	r.settle()
	if r.sent[upload] != nil {
		t.Error("a chunk did not wait for company")
	}
	r.pass(uploadDelay)
	if len(r.sent[upload].GetChunks()) != 1 {
		t.Fatalf("upload %v", r.sent[upload])
	}
	r.pass(time.Second) // the upload hangs
	if r.sent[beat] == nil {
		t.Error("no heartbeat")
	}
	r.fail(beat)
	if wait := time.Duration(r.next - r.now); wait > 300*time.Millisecond {
		t.Errorf("the next heartbeat waits %v", wait)
	}
}

// Promises: [RNR-1].
func TestWhatWasNotAcknowledgedIsSentAgain(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	r.answer(beat, &runnerv1.ExchangeResponse{})
	result := &runnerv1.Result{Attempt: "att_a", Epoch: 2, LogEnd: 2}
	r.m.spooled("att_a", news{
		chunks: []*runnerv1.Chunk{{Sequence: 1, Data: []byte("a")}, {Sequence: 2, Data: []byte("b")}}, result: result,
	}, r.now)
	r.settle()
	up := r.sent[upload]
	if len(up.GetChunks()) != 2 || len(up.GetResults()) != 1 {
		t.Fatalf("upload %v", up)
	}
	// Half of it is durable; the rest is neither forgotten nor repeated at once.
	r.answer(upload, &runnerv1.ExchangeResponse{Acks: []*runnerv1.Ack{{Attempt: "att_a", Epoch: 2, Chunks: 1}}})
	if r.sent[upload] != nil {
		t.Errorf("repeated at once: %v", r.sent[upload])
	}
	r.pass(resendSoon)
	up = r.sent[upload]
	if len(up.GetChunks()) != 1 || up.GetChunks()[0].GetSequence() != 2 || len(up.GetResults()) != 1 {
		t.Fatalf("upload %v", up)
	}
	r.effects()
	r.answer(upload, &runnerv1.ExchangeResponse{Acks: []*runnerv1.Ack{{Attempt: "att_a", Epoch: 2, Chunks: 1,
		Result: true}}})
	r.m.ended("att_a", nil, r.now)
	r.settle()
	if got := r.effects(); strings.Contains(got, "effForget") {
		t.Errorf("forgotten with a chunk not acknowledged: %s", got)
	}
	// The slot is free all the same, under a new token.
	if up = r.sent[upload]; !slices.Equal(up.GetOffers(), []string{"rnr_1/0/4000000002"}) {
		t.Errorf("offers %v", up.GetOffers())
	}
	r.answer(upload, &runnerv1.ExchangeResponse{Acks: []*runnerv1.Ack{{Attempt: "att_a", Epoch: 2, Chunks: 2}}})
	if got := r.effects(); got != "effForget{att_a}" {
		t.Errorf("effects %s", got)
	}
}

func TestALostLeaseKillsButAResultIsStillReported(t *testing.T) {
	dead := &runnerv1.ExchangeResponse{Renewals: []*runnerv1.RenewalReply{{Attempt: "att_a", Epoch: 2, Live: false,
		Code: "lease_not_live"}}}
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	r.answer(beat, dead)
	if got := r.effects(); !strings.Contains(got, "effKill{att_a}") {
		t.Errorf("effects %s", got)
	}
	r.pass(forceAfter)
	if got := r.effects(); !strings.Contains(got, "effForce{att_a}") {
		t.Errorf("a supervisor that does not end: %s", got)
	}

	r = newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	r.m.spooled("att_a", news{result: &runnerv1.Result{Attempt: "att_a", Epoch: 2}}, r.now)
	r.settle()
	r.answer(beat, dead)
	if got := r.effects(); strings.Contains(got, "effKill") || len(r.sent[upload].GetResults()) != 1 {
		t.Errorf("effects %s, upload %v", got, r.sent[upload])
	}
	r.m.ended("att_a", nil, r.now)
	r.answer(upload, &runnerv1.ExchangeResponse{Acks: []*runnerv1.Ack{{Attempt: "att_a", Epoch: 2,
		Refused: "lease_epoch_stale"}}})
	if got := r.effects(); !strings.Contains(got, "effForget{att_a}") {
		t.Errorf("effects %s", got)
	}
}

// A machine that lost its power has lost what was written last: a spool whose last word is
// "preparing" is no evidence that the step never began.
func TestWhatAnEarlierBootLeftMayHaveActed(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	said := &runnerv1.Progress{Sequence: 1, Observed: string(domain.ObservedPreparing)}
	r.m.spooled("att_a", news{progress: []*runnerv1.Progress{said}}, r.now)
	r.m.ended("att_a", nil, r.now)
	r.settle()
	up := r.sent[upload].GetResults()
	if len(up) != 1 || up[0].GetEffect() != string(domain.EffectUnknown) {
		t.Errorf("results %v", up)
	}
}

func TestCancellationsAreTakenOnceAndForced(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	x := &runnerv1.ExchangeResponse{Cancels: []*runnerv1.Cancel{{Attempt: "att_a", Epoch: 2, GraceMs: 700},
		{Attempt: "att_b", Epoch: 1}}}
	r.effects()
	r.answer(poll, x)
	r.answer(poll, x)
	if got := r.effects(); got != "effCancel{att_a cancelled 700000000}" {
		t.Errorf("effects %s", got)
	}
	if !slices.Equal(r.sent[upload].GetKnownCancels(), []string{"att_a"}) {
		t.Errorf("upload %v", r.sent[upload])
	}
	// Renewals go on; a supervisor that hangs is ended all the same.
	for range 40 {
		if r.sent[beat] != nil {
			r.answer(beat, &runnerv1.ExchangeResponse{Renewals: []*runnerv1.RenewalReply{{Attempt: "att_a", Epoch: 2,
				Live: true}}})
		}
		r.pass(time.Second)
	}
	if got := r.effects(); strings.Count(got, "effForce{att_a}") != 1 {
		t.Errorf("effects %s", got)
	}
}

// Promises: [RNR-13].
func TestADrainingRunnerOffersNothing(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.m.drain()
	r.settle()
	if up := r.sent[upload]; len(up.GetOffers()) != 0 || !up.GetDraining() {
		t.Errorf("upload %v", up)
	}
	r.answer(poll, &runnerv1.ExchangeResponse{Leases: []*runnerv1.Lease{{Attempt: "att_x", Slot: "rnr_1/0/4000000001"}}})
	r.answer(upload, &runnerv1.ExchangeResponse{})
	if d := r.sent[upload].GetDeclines(); len(d) != 1 || !strings.Contains(d[0].GetReason(), "ending") {
		t.Errorf("declines %v", d)
	}
}

func TestTheHighestTokenIsPresented(t *testing.T) {
	token := func(position uint64) string {
		return domain.Token{Partition: "p1", Epoch: 3, Position: position, Digest: domain.DigestOf(nil)}.String()
	}
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{Token: token(9)})
	r.answer(poll, &runnerv1.ExchangeResponse{Token: token(7)})
	r.pass(pollPause)
	if got := r.sent[poll].GetToken(); got != token(9) || r.sent[poll].GetProof() != "" {
		t.Errorf("token %s, proof %q", got, r.sent[poll].GetProof())
	}
	const proof = "0123456789abcdef.AAAAAAAAAAAAAAAAAAAAAA"
	r.answer(poll, &runnerv1.ExchangeResponse{Token: token(10), Proof: proof})
	r.pass(pollPause)
	sent := r.sent[poll]
	if sent.GetToken() != token(10) || sent.GetProof() != proof {
		t.Errorf("token %s, proof %q", sent.GetToken(), sent.GetProof())
	}
	// A server that does not hold it, and that nothing proves it to, refuses all that comes
	// with it: the runner goes on without.
	r.m.disown(&runnerv1.ExchangeRequest{Token: token(9)})
	if r.m.token.Position != 10 {
		t.Error("the refusal of an earlier token counts for this one")
	}
	r.m.disown(sent)
	r.answer(poll, &runnerv1.ExchangeResponse{})
	r.pass(pollPause)
	if got := r.sent[poll]; got.GetToken() != "" || got.GetProof() != "" {
		t.Errorf("after the refusal: token %s, proof %q", got.GetToken(), got.GetProof())
	}
}

func TestAnUploadIsBoundedAndAResultComesAfterItsLog(t *testing.T) {
	r := newRig(t, 1)
	r.answer(upload, &runnerv1.ExchangeResponse{})
	r.running("att_a")
	r.answer(beat, &runnerv1.ExchangeResponse{})
	n := news{result: &runnerv1.Result{Attempt: "att_a", Epoch: 2, LogEnd: uploadCountMax + 5}}
	for i := range uint64(uploadCountMax + 5) {
		n.chunks = append(n.chunks, &runnerv1.Chunk{Sequence: i + 1, Data: []byte("x")})
	}
	r.m.spooled("att_a", n, r.now)
	r.settle()
	if up := r.sent[upload]; len(up.GetChunks()) != uploadCountMax || len(up.GetResults()) != 0 {
		t.Fatalf("%d chunks, %d results", len(up.GetChunks()), len(up.GetResults()))
	}
	r.answer(
		upload,
		&runnerv1.ExchangeResponse{Acks: []*runnerv1.Ack{{Attempt: "att_a", Epoch: 2, Chunks: uploadCountMax}}},
	)
	if up := r.sent[upload]; len(up.GetChunks()) != 5 || len(up.GetResults()) != 1 {
		t.Fatalf("%d chunks, %d results", len(up.GetChunks()), len(up.GetResults()))
	}
}

// TestAPollThatAReportOvertookDoesNotPause: the poll named an attempt that a report beside it
// ended, and was answered with just that. The next job must not wait for it.
func TestAPollThatAReportOvertookDoesNotPause(t *testing.T) {
	over := &runnerv1.ExchangeResponse{Renewals: []*runnerv1.RenewalReply{{Attempt: "att_a", Epoch: 2}}}
	for _, first := range []kind{poll, upload} {
		r := newRig(t, 2)
		r.answer(upload, &runnerv1.ExchangeResponse{})
		r.running("att_a")
		r.answer(poll, &runnerv1.ExchangeResponse{Cancels: []*runnerv1.Cancel{{Attempt: "att_other"}}})
		r.m.spooled("att_a", news{result: &runnerv1.Result{Attempt: "att_a", Epoch: 2}}, r.now)
		r.settle()
		r.pass(time.Millisecond)
		answers := map[kind]*runnerv1.ExchangeResponse{
			poll:   over,
			upload: {Acks: []*runnerv1.Ack{{Attempt: "att_a", Epoch: 2, Result: true}}},
		}
		r.answer(first, answers[first])
		if waits := r.sent[poll] == nil; first == poll && !waits {
			t.Error("nothing had changed, and the poll was said again at once")
		}
		r.pass(time.Millisecond)
		second := poll + upload - first
		r.answer(second, answers[second])
		if r.sent[poll] == nil {
			t.Errorf("%v first: no poll waits after the report was taken", first)
		}
		// A server that answers nothing at once is not asked in a tight loop.
		r.pass(time.Millisecond)
		r.answer(poll, &runnerv1.ExchangeResponse{})
		if r.sent[poll] != nil {
			t.Errorf("%v first: the poll was said again at once", first)
		}
		r.pass(pollPause)
		if r.sent[poll] == nil {
			t.Errorf("%v first: no poll after the pause", first)
		}
	}
}
