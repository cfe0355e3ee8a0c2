// Package snapshot is the frozen inputs of a run: everything that its plan was compiled
// from, by value or by digest.
//
// It is deliberately data only: trigger makes it, and whoever replays a run or makes
// manifests reads it. Times, run numbers and keys are not in it, since a plan depends on none:
// runs of one commit that are asked for in the same way share a snapshot.
//
// Invariants: Encode is canonical (same inputs, same bytes, same digest); no field holds
// a secret; an unknown field or version is refused, never half understood.
//
// Read next: internal/trigger/accept.go
package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Version of the snapshot's form. Version 1 named the github context as an object of its own,
// and had the trigger's key. Version 2 is written still where there are no components.
const (
	Version    = 3
	VersionTwo = 2
	VersionOne = 1
)

// Snapshot is the frozen inputs of one run.
type Snapshot struct {
	Version        int                 `json:"version"`
	Evaluator      int                 `json:"evaluator"` // of the compiler, see plan.Evaluator
	Tenant         domain.TenantID     `json:"tenant"`
	Repository     domain.RepositoryID `json:"repository"`
	RepositoryName string              `json:"repository_name"`
	Source         Source              `json:"source"`
	Workflow       Workflow            `json:"workflow"`
	// Components are other repositories and images that the workflow uses, resolved.
	Components []Component  `json:"components,omitempty"`
	Policy     string       `json:"policy"` // version of the policy that gave tier and class
	Tier       domain.Tier  `json:"tier"`
	Class      domain.Class `json:"class"`
	// Given are the inputs that came with the request, by name; Inputs are all inputs with
	// their defaults, as the plan has them.
	Given   []Binding    `json:"given,omitempty"`
	Inputs  []plan.Input `json:"inputs,omitempty"`
	Trigger Trigger      `json:"trigger"`
	// Github is the github context: one JSON object without what differs from attempt to
	// attempt (run number, job, token). GithubObject is its digest in version 1.
	Github       json.RawMessage `json:"github_context,omitempty"`
	GithubObject domain.Digest   `json:"github,omitempty"`
}

// Source is the pinned commit.
type Source struct {
	Commit   string `json:"commit"`
	Tree     string `json:"tree"`
	Ref      string `json:"ref,omitempty"` // what the event named; a label
	Captured bool   `json:"captured,omitempty"`
}

// Workflow is the file that was compiled.
type Workflow struct {
	Path   string        `json:"path"`
	Name   string        `json:"name"`
	Digest domain.Digest `json:"digest"` // of the file's bytes, which are an object
}

// Component is something outside of the repository that the plan rests on.
type Component struct {
	Name   string `json:"name"`   // as the workflow has it
	Digest string `json:"digest"` // what it was resolved to; "" for a file of the run's own commit
	// Mirror is the repository of this server that has the commit, File the definition's path in it,
	// and Text the digest of its bytes, which are an object: to compile again takes no mirror.
	Mirror domain.RepositoryID `json:"mirror,omitempty"`
	File   string              `json:"file,omitempty"`
	Text   domain.Digest       `json:"text,omitempty"`
}

// Commit is the commit that it was resolved to; "" for the run's own.
func (c Component) Commit() string {
	commit, ok := strings.CutPrefix(c.Digest, "git:")
	if !ok {
		return ""
	}
	commit, _, _ = strings.Cut(commit, ":")
	return commit
}

// Binding is one given input.
type Binding struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Trigger is the identity of the cause.
type Trigger struct {
	Event    string       `json:"event"`
	Key      string       `json:"key,omitempty"` // in version 1 only
	Actor    domain.Actor `json:"actor"`
	Before   string       `json:"before,omitempty"` // of a push: the ref's commit before it
	Delivery string       `json:"delivery,omitempty"`
}

// Encode gives the canonical bytes: JSON with fields in the order of the types above and
// no map anywhere.
func (s *Snapshot) Encode() []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(fmt.Sprintf("encode snapshot of %s: %v", s.Source.Commit, err)) // only strings and numbers: can't happen
	}
	return out.Bytes()
}

// Decode reads canonical bytes back.
func Decode(data []byte) (*Snapshot, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	s := new(Snapshot)
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", err)
	}
	newest := s.Version == Version || s.Version == VersionTwo
	switch {
	case !newest && s.Version != VersionOne:
		return nil, fmt.Errorf("decode snapshot: version %d is not known", s.Version)
	case newest && (len(s.Github) == 0 || s.GithubObject != "" || s.Trigger.Key != ""),
		s.Version == VersionOne && (len(s.Github) != 0 || s.GithubObject == ""):
		return nil, fmt.Errorf("decode snapshot: it is not of version %d", s.Version)
	case s.Version < Version && slices.ContainsFunc(s.Components, func(c Component) bool { return c.File != "" }):
		return nil, fmt.Errorf("decode snapshot: version %d has no files of components", s.Version)
	}
	return s, nil
}

// Objects are the other objects that the run rests on by way of the snapshot.
func (s *Snapshot) Objects() []domain.Digest {
	out := []domain.Digest{s.Workflow.Digest}
	if s.GithubObject != "" {
		out = append(out, s.GithubObject)
	}
	for _, c := range s.Components {
		if c.Text != "" {
			out = append(out, c.Text)
		}
	}
	return out
}
