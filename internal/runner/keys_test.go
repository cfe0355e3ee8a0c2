package runner

import (
	"crypto/ed25519"
	"slices"
	"testing"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// rotate makes the server sign with another key from now on, and tell it or not.
func (p *peer) rotate(id string, tell bool) {
	p.t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.update(func() {
		p.rotated = nil
		if tell {
			p.rotated = []*runnerv1.SigningKey{{Id: p.keyID, Ed25519: p.public}, {Id: id, Ed25519: public}}
		}
		p.keyID, p.public, p.private = id, public, private
	})
}

// Promises: [ACC-12].
func TestALeaseOfALaterKeyIsTakenAlsoAfterARestart(t *testing.T) {
	p := newPeer(t)
	data := t.TempDir()
	stop := startRunner(t, p, data, isolate.Process)
	wantResult(t, p, p.result(p.start(p.order(plan.Step{Script: "true"}))), domain.OutcomeSuccess, "")

	p.rotate("k2", true)
	wantResult(t, p, p.result(p.start(p.order(plan.Step{Script: "true"}))), domain.OutcomeSuccess, "")
	stop()

	// Whoever starts over the same folder has both keys, without a word from the server.
	p.update(func() { p.rotated = nil })
	c := testConfig(p.url(), data, isolate.Process, nil)
	c.Token = ""
	startWith(t, c)
	wantResult(t, p, p.result(p.start(p.order(plan.Step{Script: "true"}))), domain.OutcomeSuccess, "")

	// A key that nobody told it of proves nothing.
	p.rotate("k3", false)
	a := p.start(p.order(plan.Step{Script: "true"}))
	p.await("the decline", func() bool { return p.attempts[a] != nil && p.attempts[a].declined != "" })
}

// Promises: [ACC-12].
func TestKeysAreNamedInPollsAndKeptWhenTheyChange(t *testing.T) {
	r := newRig(t, 1)
	one := &runnerv1.SigningKey{Id: "one", Ed25519: make([]byte, ed25519.PublicKeySize)}
	two := &runnerv1.SigningKey{Id: "two", Ed25519: make([]byte, ed25519.PublicKeySize)}
	both := []*runnerv1.SigningKey{two, one}
	r.answer(upload, &runnerv1.ExchangeResponse{})
	tell := func(keys ...*runnerv1.SigningKey) (kept int) {
		t.Helper()
		r.pass(pollPause)
		r.m.answered(poll, r.sent[poll], &runnerv1.ExchangeResponse{Keys: keys}, r.now)
		delete(r.sent, poll)
		for _, e := range r.m.take() {
			if _, ok := e.(effKeys); ok {
				kept++
			}
		}
		r.pass(pollPause)
		return kept
	}
	for i, step := range []struct {
		told []*runnerv1.SigningKey
		kept int
		has  []string
	}{
		{[]*runnerv1.SigningKey{one}, 1, []string{"one"}},
		{nil, 0, []string{"one"}},
		{both, 1, []string{"one", "two"}},
		{both, 0, []string{"one", "two"}},
		{[]*runnerv1.SigningKey{{Id: "bad", Ed25519: []byte("short")}}, 0, []string{"one", "two"}},
		{[]*runnerv1.SigningKey{two}, 1, []string{"two"}}, // the first is not published any more
	} {
		if kept := tell(step.told...); kept != step.kept || !slices.Equal(r.sent[poll].GetKnownKeys(), step.has) {
			t.Errorf("step %d: kept %d times, has %v", i, kept, r.sent[poll].GetKnownKeys())
		}
	}
}
