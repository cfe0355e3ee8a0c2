package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Bounds of each memory.
const (
	recentKept      = 256
	recentBytes     = 4 << 20 // of one value; a larger one is not kept
	recentBytesKept = 32 << 20
)

// recent remembers values that can't be out of date: a function of the key, and of nothing
// else, made them. The oldest go first.
type recent[K comparable, V any] struct {
	mu    sync.Mutex
	kept  map[K]sized[V]
	order []K
	bytes int
}

type sized[V any] struct {
	value V
	bytes int
}

func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.kept[key]
	return found.value, ok
}

// put keeps a value that takes about so many bytes.
func (r *recent[K, V]) put(key K, value V, bytes int) {
	if bytes > recentBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[K]sized[V]{}
	}
	if _, known := r.kept[key]; known {
		return
	}
	r.kept[key] = sized[V]{value, bytes}
	r.order = append(r.order, key)
	r.bytes += bytes
	for len(r.order) > recentKept || r.bytes > recentBytesKept {
		r.bytes -= r.kept[r.order[0]].bytes
		delete(r.kept, r.order[0])
		r.order = r.order[1:]
	}
}

// remembered is what was read and made last: much is started again and again, by a schedule, by a
// person, by a call, and several hooks tell of one push.
type remembered struct {
	reads    recent[readKey, readValue]
	inspects recent[domain.Digest, inspected]
	plans    recent[domain.Digest, compiled]
}

type readKey struct {
	repo   scm.Repo
	commit string
}

// readValue is what a commit holds. A commit never changes, and asking git for it is a process.
type readValue struct {
	commit scm.Commit
	files  []scm.File
}

// read asks the source, or remembers. Only found commits are kept.
//
// Preconditions: every call has the same query.
func (m *remembered) read(
	ctx context.Context,
	source scm.Source,
	repo scm.Repo,
	id string,
	q scm.Query,
) (scm.Commit, []scm.File, error) {
	key := readKey{repo, id}
	if found, ok := m.reads.get(key); ok {
		return found.commit, slices.Clone(found.files), nil
	}
	commit, files, err := source.Read(ctx, repo, id, q)
	if err != nil {
		return commit, files, err
	}
	size := 0
	for _, f := range files {
		size += len(f.Bytes)
	}
	m.reads.put(key, readValue{commit, slices.Clone(files)}, size)
	return commit, files, nil
}

// inspect reads when a file starts, or remembers.
//
// Preconditions: every call has the same limits.
func (m *remembered) inspect(file scm.File, lim workflow.Limits) inspected {
	src := workflow.Source{Path: file.Path, Text: file.Bytes}
	key := keyOf(src.Text, src.Path)
	found, ok := m.inspects.get(key)
	if !ok {
		found.triggers, found.diagnostics = workflow.Inspect(src, lim)
		m.inspects.put(key, found, len(src.Text))
	}
	found.file, found.diagnostics = file, slices.Clone(found.diagnostics)
	return found
}

// compiled is a plan with the forms of it that a run needs. Nobody changes any of it.
type compiled struct {
	plan        *plan.Plan
	text        []byte
	skeleton    []run.JobSkeleton
	diagnostics []workflow.Diagnostic
}

// compile makes a plan, or remembers. It is nil if any diagnostic is an error: whoever mends a
// file does not ask for the broken one again.
//
// Preconditions: every call has the same limits.
func (m *remembered) compile(
	src workflow.Source, in workflow.Inputs, lim workflow.Limits,
) (*compiled, []workflow.Diagnostic) {
	parts := []string{src.Path, in.Event, in.Ref, in.SHA, in.Repository, in.Actor, strconv.FormatBool(in.Dispatch == nil)}
	for _, name := range slices.Sorted(maps.Keys(in.Dispatch)) {
		parts = append(parts, name, in.Dispatch[name])
	}
	key := keyOf(src.Text, parts...)
	found, ok := m.plans.get(key)
	if ok {
		return &found, slices.Clone(found.diagnostics)
	}
	p, diagnostics := workflow.Compile(src, in, lim)
	if p == nil {
		return nil, diagnostics
	}
	made := compiled{p, p.Encode(), run.SkeletonOf(p), diagnostics}
	m.plans.put(key, made, 2*len(made.text))
	return &made, slices.Clone(diagnostics)
}

// keyOf names a text and what belongs to it. Lengths stand before the parts: no two lists of
// parts give one key.
func keyOf(text []byte, parts ...string) domain.Digest {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	_, _ = fmt.Fprintf(sum, "%d:", len(text))
	_, _ = sum.Write(text)
	return domain.Digest("sha256:" + hex.EncodeToString(sum.Sum(nil)))
}
