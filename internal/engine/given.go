package engine

import (
	"sort"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// givenMax is how many of its last commits an owner knows by their tokens. Who was told of an older
// one presents it rarely, and it is looked up.
const givenMax = 1024

// givenFresh is how long after a look at the store the commits that followed are believed without
// another: the store itself said that it has them. An owner whose store goes back in time finds out
// with its next commit in any case.
const givenFresh = 100 * time.Millisecond

// given are the tokens of what this owner committed last, in order of position, and how far the
// store was seen to hold them. Tokens are presented with every exchange and every request, each
// that of another commit: one look at the newest answers for all before it, since every batch
// holds the digest of the one before. Who uses it holds the driver's lock.
type given struct {
	tokens []domain.Token
	held   uint64        // the store held this position, and so all before it
	looked time.Duration // when it was seen to
}

// add notes a commit.
func (g *given) add(t domain.Token) {
	if n := len(g.tokens); n > 0 && (g.tokens[n-1].Position >= t.Position || g.tokens[n-1].Epoch != t.Epoch) {
		*g = given{} // what was committed under another epoch, or was not
	}
	if len(g.tokens) == givenMax {
		g.tokens = append(g.tokens[:0], g.tokens[givenMax/2:]...)
	}
	g.tokens = append(g.tokens, t)
}

// has reports whether a token is that of a commit that is known here.
func (g *given) has(t domain.Token) bool {
	i := sort.Search(len(g.tokens), func(i int) bool { return g.tokens[i].Position >= t.Position })
	return i < len(g.tokens) && same(g.tokens[i], t)
}

// sure reports whether a known token needs no look.
func (g *given) sure(t domain.Token, now time.Duration) bool {
	return t.Position <= g.held || g.held > 0 && now-g.looked < givenFresh
}

// newest is the token of the last commit.
func (g *given) newest() domain.Token {
	if len(g.tokens) == 0 {
		return domain.Token{}
	}
	return g.tokens[len(g.tokens)-1]
}

// same compares what the store can compare, and the epoch. The proof is somebody else's business.
func same(a, b domain.Token) bool {
	return a.Partition == b.Partition && a.Epoch == b.Epoch && a.Position == b.Position && a.Digest == b.Digest
}
