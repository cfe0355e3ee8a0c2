package fault

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/scm"
)

// Source stands before source control. What asks a remote fails as one that does not answer;
// what only touches the mirror fails without a name.
type Source struct {
	scm.Source
	gate gate
}

// NewSource wraps source control.
func NewSource(s scm.Source, plan *Plan) *Source {
	return &Source{s, gate{plan, PortSource, func(op string, _ How) error {
		switch op {
		case "advertised", "fetch", "fetch_commit":
			return scm.ErrUnreachable
		}
		return nil
	}}}
}

var _ scm.Source = (*Source)(nil)

// Init implements scm.Mirrors.
func (s *Source) Init(ctx context.Context, repo scm.Repo) error {
	return s.gate.do(writes("init"), func() error { return s.Source.Init(ctx, repo) })
}

// Advertised implements scm.Mirrors.
func (s *Source) Advertised(ctx context.Context, from scm.Remote) (scm.Advertisement, error) {
	return ask(s.gate, reads("advertised"), func() (scm.Advertisement, error) { return s.Source.Advertised(ctx, from) })
}

// Fetch implements scm.Mirrors.
func (s *Source) Fetch(ctx context.Context, repo scm.Repo, from scm.Remote) ([]scm.Ref, error) {
	return ask(s.gate, writes("fetch"), func() ([]scm.Ref, error) { return s.Source.Fetch(ctx, repo, from) })
}

// FetchCommit implements scm.Mirrors.
func (s *Source) FetchCommit(ctx context.Context, repo scm.Repo, from scm.Remote, commit string) error {
	return s.gate.do(writes("fetch_commit"), func() error { return s.Source.FetchCommit(ctx, repo, from, commit) })
}

// Pin implements scm.Mirrors.
func (s *Source) Pin(ctx context.Context, repo scm.Repo, commit string) error {
	return s.gate.do(writes("pin"), func() error { return s.Source.Pin(ctx, repo, commit) })
}

// Resolve implements scm.Reader.
func (s *Source) Resolve(ctx context.Context, repo scm.Repo, name string) (scm.Resolution, error) {
	return ask(s.gate, reads("resolve"), func() (scm.Resolution, error) { return s.Source.Resolve(ctx, repo, name) })
}

// Read implements scm.Reader.
func (s *Source) Read(ctx context.Context, repo scm.Repo, commit string, q scm.Query) (scm.Commit, []scm.File, error) {
	var files []scm.File
	found, err := ask(s.gate, reads("read"), func() (found scm.Commit, err error) {
		found, files, err = s.Source.Read(ctx, repo, commit, q)
		return found, err
	})
	return found, files, err
}

// Contains implements scm.Reader.
func (s *Source) Contains(ctx context.Context, repo scm.Repo, commit string, refs []string) ([]string, error) {
	return ask(s.gate, reads("contains"), func() ([]string, error) { return s.Source.Contains(ctx, repo, commit, refs) })
}

// Changed implements scm.Reader.
func (s *Source) Changed(ctx context.Context, repo scm.Repo, before, after string, limit int) ([]string, bool, error) {
	var more bool
	paths, err := ask(s.gate, reads("changed"), func() (paths []string, err error) {
		paths, more, err = s.Source.Changed(ctx, repo, before, after, limit)
		return paths, err
	})
	return paths, more, err
}
