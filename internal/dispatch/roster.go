package dispatch

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/core/pool"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// loadPool brings a pool and its runners in line with its state, and names the runners that are
// gone. The state is shown again and again; of what is known already nothing is made anew.
func (b *board) loadPool(tenant domain.TenantID, partition domain.PartitionID, s *pool.State) []domain.RunnerID {
	if !s.Exists() {
		return nil
	}
	view := b.pools[s.Pool]
	if view == nil {
		view = &poolView{pool: s.Pool, tenant: tenant, partition: partition, tokens: map[domain.Digest]bool{}}
		b.pools[s.Pool] = view
	}
	view.tiers, view.config = slices.Clone(s.Config.Tiers), s.Config
	for i := range s.Runners {
		b.enrol(view, s, &s.Runners[i])
	}
	b.loadTokens(view, s)
	var gone []domain.RunnerID
	if view.runners != len(s.Runners) {
		for id, a := range b.agents {
			if _, known := s.Runner(id); a.pool == s.Pool && !known {
				b.dismiss(id)
				gone = append(gone, id)
			}
		}
	}
	return gone
}

func (b *board) loadTokens(view *poolView, s *pool.State) {
	known := len(view.tokens) == len(s.Tokens)+len(s.Runners)
	for i := range s.Tokens {
		known = known && view.tokens[s.Tokens[i].Digest]
	}
	if known {
		return
	}
	view.tokens = make(map[domain.Digest]bool, len(s.Tokens)+len(s.Runners))
	for i := range s.Tokens {
		view.tokens[s.Tokens[i].Digest] = true
	}
	for i := range s.Runners {
		view.tokens[s.Runners[i].Token] = true
	}
}

// poolEvents moves a pool along with what was committed, and names the runners that are gone. s
// is its state after that.
func (b *board) poolEvents(tenant domain.TenantID, partition domain.PartitionID, s *pool.State,
	events []any) (gone []domain.RunnerID) {
	view := b.pools[s.Pool]
	if view == nil {
		return b.loadPool(tenant, partition, s)
	}
	for _, e := range events {
		switch e := e.(type) {
		case *pool.RegistrationTokenIssued:
			view.tokens[e.Token.Digest] = true
		case *pool.RegistrationTokensExpired:
			for _, token := range e.Tokens {
				delete(view.tokens, token)
			}
		case *pool.RunnerRegistered:
			view.tokens[e.Runner.Token] = true
			if r, ok := s.Runner(e.Runner.Runner); ok {
				b.enrol(view, s, &r)
			}
		case *pool.RunnerRemoved:
			if a := b.agents[e.Runner]; a != nil {
				delete(view.tokens, a.Token)
				b.dismiss(e.Runner)
				gone = append(gone, e.Runner)
			}
		case *pool.SessionRotated:
			if r, ok := s.Runner(e.Runner); ok {
				b.enrol(view, s, &r)
			}
		}
	}
	return gone
}

// enrol takes in a runner of a pool, or that its session is another one. Nothing else of a runner
// changes.
func (b *board) enrol(view *poolView, s *pool.State, r *pool.Runner) {
	a := b.agents[r.Runner]
	switch {
	case a != nil && a.Session == r.Session && a.Resume == r.Resume:
		return
	case a == nil:
		a = &agent{tenant: view.tenant, pool: view.pool}
		a.class = b.openings.join(view.pool, s.LabelsOf(*r), s.AliasesOf(*r))
		a.labels, a.aliases = a.class.labels, a.class.aliases // one list for all that have the same
		b.agents[r.Runner] = a
		view.runners++
	default:
		delete(b.session, a.Session)
	}
	a.Runner = *r
	b.session[a.Session] = a
}

// dismiss forgets a runner.
func (b *board) dismiss(id domain.RunnerID) {
	a := b.agents[id]
	if a == nil {
		return
	}
	b.openings.drop(a)
	b.openings.leave(a.class)
	delete(b.agents, id)
	delete(b.session, a.Session)
	if view := b.pools[a.pool]; view != nil {
		view.runners--
	}
}
