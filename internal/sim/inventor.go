package sim

import (
	"fmt"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [HIST-18].
const checkInvented = "an acknowledgement that nothing proves stops no partition"

// proverOf is what all servers of a world prove with; another seed is another installation.
func proverOf(seed uint64, secret []byte) *credential.Prover {
	return credential.NewProver(fmt.Sprintf("%016x", seed), secret)
}

// invent presents an acknowledgement that nobody gave, of history that nobody wrote, with a
// real session: without a proof, with that of a token that somebody was given, or with one
// that was made with another key.
func (w *world) invent() {
	r := w.stream("inventor")
	m := pick(r, w.machines...)
	p := pick(r, append(append([]domain.PartitionID{}, w.pools...), w.partitions...)...)
	if m.id.session == "" || len(w.book.promises.tokens) == 0 {
		return
	}
	real := pick(r, w.book.promises.tokens...)
	t := domain.Token{Partition: p, Epoch: real.Epoch + uint64(r.IntN(2)),
		Position: real.Position + 1 + uint64(r.IntN(2000)),
		Digest:   domain.DigestOf([]byte(fmt.Sprintf("an invention %d", r.IntN(1000))))}
	switch r.IntN(3) {
	case 0:
		t.Proof = real.Proof
	case 1:
		t.Proof = proverOf(w.seed+1, []byte("of another installation")).Prove(t)
	}
	w.line("liar", "invents", "%s with proof %q as %s", t, t.Proof, m.name)
	req := &runnerv1.ExchangeRequest{Session: m.id.session, Resume: m.id.resume, Sequence: 1, Token: t.String(),
		Proof: string(t.Proof)}
	w.call(call{from: w.clients[0].process, name: "liar", to: pick(r, w.servers...), what: "invention",
		handle: func(s *served) (any, error) { return s.exchange(req) },
		done: func(_ any, err error) {
			if no, ok := domain.AsRejection(err); ok && no.Code == domain.CodeHistoryLost {
				w.violation(checkInvented, "%s was believed: %v", t, err)
			}
		}}, 10*time.Second)
}
