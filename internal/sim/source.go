package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
)

// remote is a repository at the source system: one branch that only grows.
type remote struct {
	tenant    domain.TenantID
	id        domain.RepositoryID
	name      string
	url       string
	partition domain.PartitionID
	commits   []scm.Commit
	workflow  map[string]string // text of the one workflow file, by commit
	told      map[string]bool   // commits whose push a server acknowledged
}

func (r *remote) tip() string { return r.commits[len(r.commits)-1].ID }

// push adds a commit with a workflow.
func (r *remote) push(w *world) string {
	n := len(r.commits)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d/%s/%d", w.seed, r.name, n)))
	id := hex.EncodeToString(sum[:20])
	when := w.wall()
	who := scm.Person{Name: "ada", Email: "ada@example.org", When: when}
	r.commits = append(r.commits, scm.Commit{
		ID: id, Tree: id, Author: who, Committer: who, Message: fmt.Sprintf("change %d\n", n),
	})
	r.workflow[id] = workflowText(w.stream("workflow"), w.stream("matrix"),
		scheduleText(w.stream("schedule"), &w.swarm), w.stream("groups"), &w.swarm) + callsText(w.stream("calls"))
	return id
}

const (
	branch       = "refs/heads/main"
	workflowPath = ".fairlead/workflows/ci.yml"
)

// scheduleText writes what starts a workflow by the clock.
func scheduleText(r *rand.Rand, s *swarm) string {
	if r.Float64() >= s.scheduled {
		return ""
	}
	return fmt.Sprintf("  schedule:\n    - {cron: '%s', catch-up: %s}\n    - cron: '3-59/7 * * * *'\n",
		pick(r, "* * * * *", "*/2 * * * *", "*/3 * * * *"), pick(r, "latest", "all", "none"))
}

// workflowText writes a workflow: a few jobs that need each other, with conditions, retries,
// time limits and effects. Matrices and outputs have a stream of their own, so that what they
// add leaves the rest of a world as it is.
func workflowText(r, matrix *rand.Rand, schedule string, groups *rand.Rand, s *swarm) string {
	var b strings.Builder
	b.WriteString("name: ci\non:\n  push:\n  workflow_dispatch:\n" + schedule + groupText(groups, "", "whole") + "jobs:\n")
	if r.IntN(40) == 0 {
		return b.String() + "  j0:\n    runs-on: linux\n    stepz: []\n" // can't be executed
	}
	lists := map[int]bool{} // jobs with an output that is a list
	for i := range 1 + r.IntN(4) {
		fmt.Fprintf(&b, "  j%d:\n", i)
		var needs []string
		for n := range i {
			if r.Float64() < 0.45 {
				needs = append(needs, fmt.Sprintf("j%d", n))
			}
		}
		if needs != nil {
			fmt.Fprintf(&b, "    needs: [%s]\n", strings.Join(needs, ", "))
		}
		condition := pick(r, "", "", "", "", "always()", "failure()", "!cancelled()", "github.ref == 'refs/heads/main'",
			"github.ref == 'refs/heads/other'")
		if needs != nil && r.IntN(4) == 0 {
			condition = fmt.Sprintf("always() && needs.%s.result == 'success'", needs[0])
		}
		if condition != "" {
			fmt.Fprintf(&b, "    if: ${{ %s }}\n", condition)
		}
		b.WriteString(groupText(groups, "    ", pick(groups, "a", "b", "${{ github.ref }}-c")))
		b.WriteString("    runs-on: linux\n")
		fmt.Fprintf(&b, "    timeout-minutes: %d\n", pick(r, 1, 1, 5))
		if r.Float64() < s.effectful {
			b.WriteString("    effects: external\n")
		}
		if r.IntN(8) == 0 {
			b.WriteString("    continue-on-error: true\n")
		}
		fmt.Fprintf(&b, "    retry:\n      max: %d\n      backoff: %d\n      on: [runner_lost, platform_error%s]\n",
			r.IntN(3), pick(r, 0, 1, 10), pick(r, "", ", user_code"))
		b.WriteString(matrixText(matrix, i, needs, lists))
		b.WriteString("    steps:\n")
		for n := range 1 + r.IntN(2) {
			fmt.Fprintf(&b, "      - run: step-%d\n", n)
		}
	}
	return b.String()
}

// groupText makes some runs and jobs members of a concurrency group.
func groupText(r *rand.Rand, indent, name string) string {
	if r.IntN(5) > 0 {
		return ""
	}
	text := indent + "concurrency:\n" + indent + "  group: " + name + "\n"
	switch r.IntN(4) {
	case 0:
		text += indent + "  cancel-in-progress: true\n"
	case 1:
		text += indent + "  queue: max\n"
	case 2:
		text += indent + "  cancel-in-progress: ${{ github.event_name == 'push' }}\n"
	}
	return text
}

// matrixText writes the outputs of some jobs, and legs for some: written down, or told by the
// output of a job that is needed.
func matrixText(r *rand.Rand, job int, needs []string, lists map[int]bool) string {
	var b strings.Builder
	if r.IntN(3) == 0 {
		lists[job] = true
		b.WriteString("    outputs:\n      list: ${{ steps.x.outputs.list || '[]' }}\n      text: ${{ github.sha }}\n")
	}
	if r.IntN(4) > 0 {
		return b.String()
	}
	b.WriteString("    strategy:\n")
	if r.IntN(2) == 0 {
		b.WriteString("      fail-fast: false\n")
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "      max-parallel: %d\n", 1+r.IntN(2))
	}
	b.WriteString("      matrix:\n")
	for _, need := range needs {
		var n int
		if _, err := fmt.Sscanf(need, "j%d", &n); err == nil && lists[n] {
			fmt.Fprintf(&b, "        v: ${{ fromJSON(needs.%s.outputs.list || '[1]') }}\n", need)
			return b.String()
		}
	}
	fmt.Fprintf(&b, "        v: [1, 2]\n")
	if r.IntN(2) == 0 {
		b.WriteString("        include: [{v: 3}]\n")
	}
	return b.String()
}

// source is the port to git as one incarnation of a server uses it. Mirrors are shared, so
// what one server fetched the others have.
type source struct {
	world   *world
	process *process
}

func (s *source) find(repo domain.RepositoryID) (*remote, error) {
	for _, r := range s.world.remotes {
		if r.id == repo {
			return r, nil
		}
	}
	return nil, fmt.Errorf("find mirror %s: %w", repo, scm.ErrNotFound)
}

func (s *source) trip(verb string) error {
	w := s.world
	if w.settingUp {
		return nil
	}
	s.process.sleep(between(w.stream("source"), time.Millisecond, 200*time.Millisecond))
	if w.chance(sourceAway) {
		w.line("world", "!"+string(sourceAway), "%s", verb)
		return fmt.Errorf("%s: %w", verb, scm.ErrUnreachable)
	}
	return nil
}

// Init implements scm.Mirrors.
func (s *source) Init(context.Context, scm.Repo) error { return nil }

// Advertised implements scm.Mirrors.
func (s *source) Advertised(_ context.Context, from scm.Remote) (scm.Advertisement, error) {
	if err := s.trip("advertised"); err != nil {
		return scm.Advertisement{}, err
	}
	for _, r := range s.world.remotes {
		if r.url == from.URL {
			return scm.Advertisement{DefaultBranch: "main", Refs: []scm.Ref{{Name: branch, Commit: r.tip()}}}, nil
		}
	}
	return scm.Advertisement{}, scm.ErrNotFound
}

// Fetch implements scm.Mirrors.
func (s *source) Fetch(_ context.Context, repo scm.Repo, _ scm.Remote) ([]scm.Ref, error) {
	if err := s.trip("fetch"); err != nil {
		return nil, err
	}
	r, err := s.find(repo.Repository)
	if err != nil {
		return nil, err
	}
	return []scm.Ref{{Name: branch, Commit: r.tip()}}, nil
}

// FetchCommit implements scm.Mirrors.
func (s *source) FetchCommit(context.Context, scm.Repo, scm.Remote, string) error { return nil }

// Pin implements scm.Mirrors.
func (s *source) Pin(_ context.Context, repo scm.Repo, commit string) error {
	s.world.book.pinned[string(repo.Repository)+"@"+commit] = true
	return nil
}

// Resolve implements scm.Reader.
func (s *source) Resolve(_ context.Context, repo scm.Repo, name string) (scm.Resolution, error) {
	r, err := s.find(repo.Repository)
	if err != nil || name != branch && name != "main" {
		return scm.Resolution{}, fmt.Errorf("resolve %s: %w", name, scm.ErrNotFound)
	}
	return scm.Resolution{Ref: branch, Commit: r.tip()}, nil
}

// Read implements scm.Reader.
func (s *source) Read(_ context.Context, repo scm.Repo, commit string, q scm.Query) (scm.Commit, []scm.File, error) {
	r, err := s.find(repo.Repository)
	if err != nil {
		return scm.Commit{}, nil, err
	}
	i := slices.IndexFunc(r.commits, func(c scm.Commit) bool { return c.ID == commit })
	if i < 0 {
		return scm.Commit{}, nil, fmt.Errorf("read commit %s: %w", commit, scm.ErrNotFound)
	}
	return r.commits[i], append(calledFiles(commit),
		scm.File{Path: workflowPath, Blob: commit, Bytes: []byte(r.workflow[commit])}), nil
}

// Contains implements scm.Reader.
func (s *source) Contains(_ context.Context, repo scm.Repo, commit string, refs []string) ([]string, error) {
	if slices.Contains(refs, branch) {
		return []string{branch}, nil
	}
	return nil, nil
}

// Changed implements scm.Reader.
func (s *source) Changed(context.Context, scm.Repo, string, string, int) ([]string, bool, error) {
	return nil, false, nil
}

var _ scm.Source = (*source)(nil)
