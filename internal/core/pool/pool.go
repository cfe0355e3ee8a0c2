package pool

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Config is what a pool takes and offers.
type Config struct {
	Labels  []string      `json:"labels,omitempty"` // every runner of the pool has them
	Aliases []Alias       `json:"aliases,omitempty"`
	Tiers   []domain.Tier `json:"tiers"` // that it accepts
	// Isolation lists the isolation drivers ("process", "oci") that runners may use.
	Isolation []string `json:"isolation"`
}

// Alias is a pattern of labels that the pool answers although no runner has them.
type Alias struct {
	Pattern string `json:"pattern"`      // "linux-*"
	OS      string `json:"os,omitempty"` // only for runners of that system; empty: any
}

// Token is a registration token that may still be used.
type Token struct {
	Digest  domain.Digest `json:"digest"`
	Issued  time.Time     `json:"issued"`
	Expires time.Time     `json:"expires"`
	By      domain.Actor  `json:"by"`
}

// Runner is a registered runner.
type Runner struct {
	Runner     domain.RunnerID  `json:"runner"`
	Name       string           `json:"name"`
	Labels     []string         `json:"labels,omitempty"` // its own, without the pool's
	Capacity   int              `json:"capacity"`         // slots
	Isolation  string           `json:"isolation"`
	Version    string           `json:"version,omitempty"`
	OS         string           `json:"os,omitempty"`
	Arch       string           `json:"arch,omitempty"`
	Session    domain.SessionID `json:"session"`
	Resume     domain.Digest    `json:"resume"` // of the session's resume secret
	Token      domain.Digest    `json:"token"`  // of the token that it registered with
	Registered time.Time        `json:"registered"`
}

// State is a pool as its events tell it. Only Evolve writes it, and in place: a pool of many
// runners is not copied for each that comes. Who wants an earlier state replays it.
type State struct {
	Version uint64          `json:"version"`
	Tenant  domain.TenantID `json:"tenant"`
	Pool    domain.PoolID   `json:"pool"` // empty until the pool exists
	Created time.Time       `json:"created"`
	LastAt  time.Time       `json:"last_at"`
	Config  Config          `json:"config"`
	Tokens  []Token         `json:"tokens,omitempty"`  // unused ones, oldest first
	Runners []Runner        `json:"runners,omitempty"` // by time of registration

	index index
}

// New is the state of a pool that nobody has created.
func New() *State { return new(State) }

// Exists reports whether the pool was created.
func (s *State) Exists() bool { return s.Pool != "" }

// Runner finds a registered runner.
func (s *State) Runner(id domain.RunnerID) (Runner, bool) {
	if i := s.index.at(s.index.ids[id]); i >= 0 {
		return s.Runners[i], true
	}
	return Runner{}, false
}

// Session finds the runner that holds a session, if resume is the digest of its secret.
// The answer is the same for a session that does not exist and one of somebody else.
//
// Trust: both come from whoever calls; the digest is of what it showed.
func (s *State) Session(session domain.SessionID, resume domain.Digest) (Runner, bool) {
	i := s.index.at(s.index.sessions[session])
	if i < 0 || session == "" || resume == "" || s.Runners[i].Resume != resume {
		return Runner{}, false
	}
	return s.Runners[i], true
}

// LabelsOf is everything that a runner answers to: its own labels, the pool's, its system
// and its architecture, in lower case and without repeats.
func (s *State) LabelsOf(r Runner) []string {
	var out []string
	for _, label := range slices.Concat(r.Labels, s.Config.Labels, []string{r.OS, r.Arch}) {
		if label = strings.ToLower(label); label != "" && !slices.Contains(out, label) {
			out = append(out, label)
		}
	}
	return out
}

// AliasesOf is the patterns that the pool answers by way of that runner.
func (s *State) AliasesOf(r Runner) []string {
	var out []string
	for _, alias := range s.Config.Aliases {
		if alias.OS == "" || alias.OS == r.OS {
			out = append(out, alias.Pattern)
		}
	}
	return out
}

// DefaultConfig is the configuration of the pool that a fresh server has: trusted and
// protected work, and the labels that workflows written for other systems ask for.
func DefaultConfig() Config {
	return Config{
		Aliases:   []Alias{{Pattern: "linux-*", OS: "linux"}, {Pattern: "ubuntu-*", OS: "linux"}},
		Tiers:     []domain.Tier{domain.TierTrusted, domain.TierProtected},
		Isolation: []string{"process", "oci"},
	}
}

// Live reports whether the pool has to be in memory: always, once it exists, because
// runners may call at any time.
func Live(s *State) bool { return s.Exists() }
