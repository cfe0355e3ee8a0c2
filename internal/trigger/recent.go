package trigger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/recall"
	"github.com/fairlead-ci/fairlead/internal/scm"
	"github.com/fairlead-ci/fairlead/internal/workflow"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// remembered is what was read and made last: much is started again and again, by a schedule, by a
// person, by a call, and several hooks tell of one push.
type remembered struct {
	reads    recall.Of[readKey, readValue]
	inspects recall.Of[domain.Digest, inspected]
	plans    recall.Of[domain.Digest, compiled]
	// alone are files that use nothing from elsewhere.
	alone recall.Of[domain.Digest, struct{}]
	// definitions are those of actions at commits.
	definitions recall.Of[definition, definitionValue]
	whole       recall.Of[string, struct{}] // keys of objects whose bytes were compared
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
	if found, ok := m.reads.Get(key); ok {
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
	m.reads.Put(key, readValue{commit, slices.Clone(files)}, size)
	return commit, files, nil
}

// inspect reads when a file starts, or remembers.
//
// Preconditions: every call has the same limits.
func (m *remembered) inspect(file scm.File, lim workflow.Limits) inspected {
	src := workflow.Source{Path: file.Path, Text: file.Bytes}
	key := keyOf(src.Text, src.Path)
	found, ok := m.inspects.Get(key)
	if !ok {
		found.triggers, found.diagnostics = workflow.Inspect(src, lim)
		m.inspects.Put(key, found, len(src.Text))
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

// lowered is the plan's text for servers of that event format; ok is false when they can't execute it.
func (c *compiled) lowered(format uint32) (text []byte, ok bool) {
	p, ok := c.plan, true
	switch {
	case format < formatPlanTwo:
		p, ok = p.FormOne()
	case format < formatPlanThree:
		p, ok = p.FormTwo()
	default:
		return c.text, true
	}
	if !ok {
		return nil, false
	}
	return p.Encode(), true
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
	key := keyOf(src.Text, append(parts, partsOf(in)...)...)
	found, ok := m.plans.Get(key)
	if ok {
		return &found, slices.Clone(found.diagnostics)
	}
	p, diagnostics := workflow.Compile(src, in, lim)
	if p == nil {
		return nil, diagnostics
	}
	if len(plan.Requires(p)) > 0 {
		return nil, workflow.Refused(diagnostics)
	}
	made := compiled{p, p.Encode(), run.SkeletonOf(p), diagnostics}
	m.plans.Put(key, made, 2*len(made.text))
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
