package projection

import (
	"hash/fnv"
	"io"
	"reflect"
	"strconv"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/recall"
)

// sharing lets runs that were read from the store hold what many of them have in common once:
// what the core knows of the jobs of a plan, and words such as the name of a repository. While a
// run is not read back it shares these with what was compiled.
type sharing struct {
	skeletons recall.Of[uint64, []run.JobSkeleton]
	words     recall.Of[string, string]
}

// wordBytesMax bounds the words that are remembered.
const wordBytesMax = 256

// run makes a state share what it has in common with others; it means the same afterwards.
func (h *sharing) run(s *run.State) {
	q := &s.Request
	for _, w := range []*string{(*string)(&q.Tenant), (*string)(&q.Repository), &q.RepositoryName, &q.WorkflowPath,
		&q.WorkflowName, (*string)(&q.Plan), (*string)(&q.Snapshot), (*string)(&q.Inputs), &q.Trigger.Event,
		&q.Trigger.Actor.Kind, &q.Trigger.Actor.ID, &q.Trigger.Actor.Via, &q.Source.Commit, &q.Source.Ref, &q.Source.Title,
		(*string)(&q.Tier), (*string)(&q.Class), &s.CreatedBy.Kind, &s.CreatedBy.ID, &s.CreatedBy.Via} {
		*w = h.word(*w)
	}
	for i := range s.Rounds {
		if s.Rounds[i].Actor == s.CreatedBy {
			s.Rounds[i].Actor = s.CreatedBy
		}
	}
	if len(q.Skeleton) == 0 {
		return
	}
	id, bytes := fingerprint(q.Skeleton)
	if known, ok := h.skeletons.Get(id); ok {
		if reflect.DeepEqual(known, q.Skeleton) {
			q.Skeleton = known
		}
		return
	}
	h.skeletons.Put(id, q.Skeleton, bytes)
}

func (h *sharing) word(w string) string {
	if w == "" || len(w) > wordBytesMax {
		return w
	}
	if known, ok := h.words.Get(w); ok {
		return known
	}
	h.words.Put(w, w, len(w))
	return w
}

// fingerprint is a number that equal skeletons have in common, and about how many bytes one takes.
func fingerprint(jobs []run.JobSkeleton) (id uint64, bytes int) {
	hash := fnv.New64a()
	text := func(words ...string) {
		for _, w := range words {
			_, _ = io.WriteString(hash, w)
			_, _ = hash.Write([]byte{0})
			bytes += len(w)
		}
	}
	for i := range jobs {
		k := &jobs[i]
		text(k.Key, k.Name, k.If, strconv.Itoa(len(k.Needs)))
		text(k.RunsOn...)
		text(k.Steps...)
		bytes += 256 + 8*len(k.Needs) + 16*(len(k.RunsOn)+len(k.Steps))
	}
	return hash.Sum64(), bytes
}
