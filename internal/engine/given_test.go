package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
	"github.com/fairlead-ci/fairlead/internal/store/memory"
)

// looks counts how often a store is asked for a batch.
type looks struct {
	store.Store
	n int
}

func (l *looks) BatchAt(ctx context.Context, p domain.PartitionID, at store.Position) (domain.Digest, uint64, error) {
	l.n++
	return l.Store.BatchAt(ctx, p, at)
}

// Every runner presents the token of another commit with each exchange: the store is asked once for
// all that came before, and for what this owner did not commit like that.
func TestTokensOfManyCommitsCostOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &looks{Store: memory.New()}
		h := &house{t: t, engine: New(Config{Store: st, Kinds: []*Kind{tallyKind()}, Partitions: []domain.PartitionID{home},
			Owner: "test", Paranoid: true, Clock: NewClock(), Prover: ours})}
		if err := h.engine.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer h.engine.Close()
		present := func(token domain.Token) error { return h.engine.Present(context.Background(), token) }
		var token domain.Token
		for range 50 {
			token = h.must("x", tallyCommand{do: "add", n: 1}).Token
			synctest.Wait() // until it is published
			if err := present(token); err != nil {
				t.Fatal(err)
			}
		}
		if st.n != 1 {
			t.Errorf("%d looks for 50 tokens", st.n)
		}
		time.Sleep(givenFresh)
		if err := present(token); err != nil || st.n != 2 {
			t.Errorf("later: %d looks, %v", st.n, err)
		}
		other := h.must("x", tallyCommand{do: "add", n: 1}).Token
		other.Digest = token.Digest
		if r, ok := domain.AsRejection(present(other)); !ok || r.Code == "" {
			t.Errorf("a token that no commit has passes: %v", r)
		}
	})
}

func TestAnOwnerKnowsItsLastCommits(t *testing.T) {
	var g given
	token := func(epoch, position uint64) domain.Token {
		return domain.Token{Partition: "p", Epoch: epoch, Position: position,
			Digest: domain.Digest(fmt.Sprint(epoch, position))}
	}
	for at := range uint64(3 * givenMax) {
		g.add(token(1, 2*at+1))
	}
	newest := token(1, 6*givenMax-1)
	if len(g.tokens) > givenMax || g.newest() != newest || !g.has(newest) || !g.has(token(1, newest.Position-2)) {
		t.Errorf("%d are known, the newest %v", len(g.tokens), g.newest())
	}
	other := newest
	other.Digest = "another"
	others := []domain.Token{token(1, 1), token(1, newest.Position-1), token(2, newest.Position), other, {}}
	for _, unknown := range others {
		if g.has(unknown) {
			t.Errorf("%v counts as committed", unknown)
		}
	}
	g.held, g.looked = newest.Position, time.Second
	later := token(1, newest.Position+2)
	g.add(later)
	if !g.sure(newest, time.Hour) || !g.sure(later, time.Second+givenFresh/2) || g.sure(later, time.Second+givenFresh) {
		t.Errorf("believed without a look: %v", g)
	}
	if g.add(token(2, newest.Position+3)); g.held != 0 || len(g.tokens) != 1 {
		t.Errorf("after a change of epoch: %+v", g)
	}
}
