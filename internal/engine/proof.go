package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Prover makes the proofs of acknowledgement tokens and says what one is worth. All servers
// of an installation share what it proves with. It is asked on many goroutines at once.
type Prover interface {
	Prove(token domain.Token) domain.Proof
	Examine(token domain.Token) domain.Standing
	// Key is the id of the key that proves now, for people.
	Key() string
}

// believesNobody proves nothing, so no token can stop a partition.
type believesNobody struct{}

func (believesNobody) Prove(domain.Token) domain.Proof      { return "" }
func (believesNobody) Examine(domain.Token) domain.Standing { return domain.StandingUnproved }
func (believesNobody) Key() string                          { return "" }

// Claim is an acknowledgement that somebody presented, that the store does not hold, and that
// nothing proves: it was refused, and the partition goes on. People want to see it, since
// after keys were lost a claim may be true.
type Claim struct {
	Holder   string          `json:"holder"` // who, in words
	Epoch    uint64          `json:"epoch"`
	Position uint64          `json:"position"`
	Held     store.Position  `json:"held"` // what the store held
	Standing domain.Standing `json:"standing"`
	Key      string          `json:"key,omitempty"` // that the proof names
	Current  string          `json:"current"`       // that this installation proves with
	At       time.Time       `json:"at"`
}

// Sentence says it all to a person.
func (c *Claim) Sentence() string {
	why := "it has no proof: a version before proofs gave it, or nobody did"
	switch c.Standing {
	case domain.StandingForeign:
		why = fmt.Sprintf("its proof is of key %s, which this installation does not have (it proves with %s): "+
			"keys were lost or not restored, or the acknowledgement is another installation's", c.Key, c.Current)
	case domain.StandingForged:
		why = fmt.Sprintf("its proof names key %s and was not made with it: it is invented", c.Key)
	}
	return fmt.Sprintf("%s presented an acknowledgement of position %d under epoch %d, which is not held (the end is %d)"+
		", and %s. It was refused, and nothing is stopped for it.", c.Holder, c.Position, c.Epoch, c.Held, why)
}

// weight orders claims by how likely they are to be true: the shown one is not hidden by
// invented ones.
func (c *Claim) weight() int {
	switch {
	case c == nil:
		return 0
	case c.Standing == domain.StandingForged:
		return 1
	case c.Standing == domain.StandingUnproved:
		return 2
	}
	return 3
}

// doubt judges a token that the store does not hold: nil means that it is proved. Otherwise
// the refusal is for who presented it, and whoever looks after the installation is told.
func (e *Engine) doubt(ctx context.Context, s *seat, token domain.Token, held store.Position) *domain.Rejection {
	standing := e.cfg.Prover.Examine(token)
	if standing == domain.StandingProved {
		return nil
	}
	now, _ := e.cfg.Clock.Now()
	claim := &Claim{Holder: holderOf(ctx), Epoch: token.Epoch, Position: token.Position, Held: held, Standing: standing,
		Key: token.Proof.Key(), Current: e.cfg.Prover.Key(), At: now}
	e.cfg.Doubted(standing)
	s.claim(claim)
	if e.doubts.first(doubted{s.partition, claim.Holder, standing}, e.cfg.Host.Elapsed()) {
		e.cfg.Log.Warn("acknowledgement that nothing proves was refused; the partition goes on", "partition", s.partition,
			"by", claim.Holder, "position", token.Position, "epoch", token.Epoch, "held", held, "proof", string(standing),
			"key", claim.Key, "our_key", claim.Current)
		e.cfg.Host.Go(func() { e.report(HeldBy(e.run, claim.Holder), s, Wire{Claim: claim}) })
	}
	return &domain.Rejection{Code: domain.CodeTokenUnproved, Field: fmt.Sprintf("Fairlead-Token[%s]", s.partition),
		Message: claim.Sentence()}
}

// claim keeps the claim that is shown: the first one of the likeliest, since whoever can
// invent one can invent many.
func (s *seat) claim(c *Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.weight() > s.claimed.weight() {
		s.claimed = c
	}
}

func (s *seat) claims() *Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimed
}

const (
	doubtsMax = 1024        // presenters that are remembered at once
	doubtsAge = time.Minute // until the same is said again
)

// doubted is what is said once a while: who, of which partition, and why not.
type doubted struct {
	partition domain.PartitionID
	holder    string
	standing  domain.Standing
}

// doubts keeps somebody who presents in a loop from filling the log. Above doubtsMax
// presenters within doubtsAge nothing is said of further ones; all of them are counted.
type doubts struct {
	mu   sync.Mutex
	said map[doubted]time.Duration
}

// first reports whether it was not said lately.
func (d *doubts) first(what doubted, now time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.said[what]; ok && now-at < doubtsAge {
		return false
	}
	if len(d.said) >= doubtsMax {
		for k, at := range d.said {
			if now-at >= doubtsAge {
				delete(d.said, k)
			}
		}
		if len(d.said) >= doubtsMax {
			return false
		}
	}
	if d.said == nil {
		d.said = map[doubted]time.Duration{}
	}
	d.said[what] = now
	return true
}
