package trigger

import (
	"context"
	"slices"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/scm"
)

// Bounds of what recentReads keeps.
const (
	readsKept     = 64
	readBytesKept = 4 << 20 // of one read; a larger one is not kept
)

// recentReads remembers what commits hold. A commit never changes, so asking git again for
// the same one (a rerun from the command line, several hooks of one push) is a process for
// nothing. Only found commits are kept.
type recentReads struct {
	mu    sync.Mutex
	kept  map[readKey]readValue
	order []readKey
}

type readKey struct {
	repo   scm.Repo
	commit string
}

type readValue struct {
	commit scm.Commit
	files  []scm.File
}

// read asks the source, or remembers.
//
// Preconditions: every call has the same query.
func (r *recentReads) read(
	ctx context.Context,
	source scm.Source,
	repo scm.Repo,
	id string,
	q scm.Query,
) (scm.Commit, []scm.File, error) {
	key := readKey{repo, id}
	r.mu.Lock()
	found, ok := r.kept[key]
	r.mu.Unlock()
	if ok {
		return found.commit, slices.Clone(found.files), nil
	}
	commit, files, err := source.Read(ctx, repo, id, q)
	size := 0
	for _, f := range files {
		size += len(f.Bytes)
	}
	if err != nil || size > readBytesKept {
		return commit, files, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[readKey]readValue{}
	}
	if _, known := r.kept[key]; !known {
		r.order = append(r.order, key)
	}
	r.kept[key] = readValue{commit, slices.Clone(files)}
	if len(r.order) > readsKept {
		delete(r.kept, r.order[0])
		r.order = r.order[1:]
	}
	return commit, files, nil
}
