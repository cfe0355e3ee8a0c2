package pool

import (
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// index finds runners by what no two of them share, so that a registration costs the same in a
// pool of ten and of a hundred thousand. It follows from State.Runners and is no part of the
// stored form.
type index struct {
	last     uint64   // number that was given out last
	numbers  []uint64 // of Runners, in their order; they grow
	ids      map[domain.RunnerID]uint64
	names    map[string]uint64
	sessions map[domain.SessionID]uint64
	tokens   map[domain.Digest]uint64 // that runners registered with
}

// add follows a runner that was appended to the state's.
func (x *index) add(r *Runner) {
	if x.ids == nil {
		x.ids, x.names = map[domain.RunnerID]uint64{}, map[string]uint64{}
		x.sessions, x.tokens = map[domain.SessionID]uint64{}, map[domain.Digest]uint64{}
	}
	x.last++
	x.numbers = append(x.numbers, x.last)
	x.ids[r.Runner], x.names[r.Name], x.sessions[r.Session], x.tokens[r.Token] = x.last, x.last, x.last, x.last
}

// remove follows one that is about to be taken out at i.
func (x *index) remove(r *Runner, i int) {
	x.numbers = slices.Delete(x.numbers, i, i+1)
	delete(x.ids, r.Runner)
	delete(x.names, r.Name)
	delete(x.sessions, r.Session)
	delete(x.tokens, r.Token)
}

// at is where in Runners the one with a number is; -1 when number is that of none.
func (x *index) at(number uint64) int {
	if i, ok := slices.BinarySearch(x.numbers, number); ok {
		return i
	}
	return -1
}

// newIndex follows a whole list.
func newIndex(runners []Runner) (x index) {
	for i := range runners {
		x.add(&runners[i])
	}
	return x
}
