package trigger

import (
	"context"
	"fmt"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// facts are what the server itself knows of a cause. Nothing in them comes from a
// workflow, and nothing from a client's word.
type facts struct {
	captured  bool // a working tree that somebody sent
	mirrored  bool // the server fetches the repository itself
	protected bool // the commit was seen on a protected ref of it
	event     string
	pushed    bool // nobody waits at a terminal
}

// tierOf decides the trust tier. Who may ask at all is a member, so nothing that comes
// through here is untrusted; contributions from outside come with pull requests.
func tierOf(f facts) domain.Tier {
	if f.mirrored && f.protected && !f.captured {
		return domain.TierProtected
	}
	return domain.TierTrusted
}

// classOf decides how urgent the work is.
func classOf(f facts, tier domain.Tier) domain.Class {
	switch {
	case f.pushed && f.event == workflow.EventPush && tier == domain.TierProtected:
		return domain.ClassProtected
	case f.pushed:
		return domain.ClassBatch
	}
	return domain.ClassInteractive
}

// judge gathers the facts and gives tier and class.
func (c *cause) judge(ctx context.Context) error {
	f := facts{captured: c.request.Captured, mirrored: c.row.URL != "", event: c.request.Event,
		pushed: c.push != nil || c.cron != ""}
	if f.mirrored && !f.captured {
		on, err := c.protectedRefs(ctx)
		if err != nil {
			return err
		}
		f.protected = len(on) > 0
		for _, ref := range on {
			c.protected = c.protected || ref == c.ref
		}
		if c.push != nil {
			// A push is work of its own ref, wherever else the commit may be.
			f.protected = c.protected
		}
	}
	c.tier = tierOf(f)
	c.class = classOf(f, c.tier)
	return nil
}

// protectedRefs are the protected refs that the commit is on, by the server's own mirror.
func (c *cause) protectedRefs(ctx context.Context) ([]string, error) {
	state, err := c.history(ctx)
	if err != nil {
		return nil, err
	}
	candidates := []string{"refs/heads/" + state.DefaultBranch}
	if c.ref != "" && state.Protected(c.ref) && c.ref != candidates[0] {
		candidates = append(candidates, c.ref)
	}
	for _, ref := range state.Refs {
		if len(candidates) < protectedRefsMax && state.Protected(ref.Name) && ref.Name != c.ref &&
			ref.Name != candidates[0] {
			candidates = append(candidates, ref.Name)
		}
	}
	on, err := c.triggers.cfg.Source.Contains(ctx, mirrorOf(c.row), c.commit.ID, candidates)
	if err != nil {
		return nil, fmt.Errorf("find commit %s on protected refs: %w", c.commit.ID, err)
	}
	return on, nil
}

// observable reports whether the core takes a ref's name. It is stricter than git: odd
// names never get near a command line.
func observable(name string) bool {
	return len(name) <= 512 && scm.ValidRefName(name) && !strings.Contains(name, "/-") &&
		(strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/"))
}
