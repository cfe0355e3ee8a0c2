package repository

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Ref is a ref and its tip.
type Ref struct {
	Name   string `json:"name"`   // full: "refs/heads/main"
	Commit string `json:"commit"` // 40 or 64 hexadecimal digits
}

// State is a repository as its events tell it. Only Evolve writes it.
type State struct {
	Version       uint64              `json:"version"`
	Tenant        domain.TenantID     `json:"tenant"`
	Repository    domain.RepositoryID `json:"repository"` // empty until it is registered
	RepoName      string              `json:"name"`
	URL           string              `json:"url,omitempty"` // where the server fetches from; empty: clients push
	DefaultBranch string              `json:"default_branch"`
	// ProtectedRefs are patterns of full refs in which * stands for any text.
	ProtectedRefs []string  `json:"protected_refs,omitempty"`
	Poll          bool      `json:"poll,omitempty"`
	Registered    time.Time `json:"registered"`
	Forgotten     bool      `json:"forgotten,omitempty"`
	LastAt        time.Time `json:"last_at"`
	// Baseline says that all refs were seen once: from then on a ref that was never seen
	// before is new, not history.
	Baseline bool  `json:"baseline,omitempty"`
	Refs     []Ref `json:"refs,omitempty"` // by name
	// Schedules are those of the default branch at the commit SchedulesOf, by what they are.
	Schedules   []Schedule `json:"schedules,omitempty"`
	SchedulesOf string     `json:"schedules_of,omitempty"`
	// Withdrawals are the workflows and components that do not count as they are written, in order.
	Withdrawals []Withdrawal `json:"withdrawals,omitempty"`
	// Components is the policy about references to other repositories; "": they are recorded.
	Components string `json:"components,omitempty"`
}

// New is the state of a repository that nobody has registered.
func New() *State { return new(State) }

// Exists reports whether the repository is registered and not forgotten.
func (s *State) Exists() bool { return s.Repository != "" && !s.Forgotten }

// Tip is the commit that a ref was last seen at; empty when it was not there.
func (s *State) Tip(ref string) string {
	if i, ok := find(s.Refs, ref); ok {
		return s.Refs[i].Commit
	}
	return ""
}

// Protected reports whether work from that full ref has the protected tier.
func (s *State) Protected(ref string) bool {
	if ref == "refs/heads/"+s.DefaultBranch && s.DefaultBranch != "" {
		return true
	}
	return slices.ContainsFunc(s.ProtectedRefs, func(pattern string) bool { return matches(pattern, ref) })
}

func find(refs []Ref, name string) (int, bool) {
	return slices.BinarySearchFunc(refs, name, func(r Ref, n string) int { return strings.Compare(r.Name, n) })
}

// matches compares a ref with a pattern in which * stands for any text.
func matches(pattern, ref string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == ref
	}
	rest, ok := strings.CutPrefix(ref, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// Live reports whether the repository has to be in memory: as long as it is registered.
func Live(s *State) bool { return s.Exists() }

// NextWake is never: nothing of a repository changes by time alone. When to poll is the
// shell's to know; it is too frequent to be history.
func NextWake(*State) (time.Time, bool) { return time.Time{}, false }
