package dispatch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// openings are the slots that are open now, by what jobs can tell apart. Of a class of runners, n
// jobs can get slots of no more than its first n, so that placing costs what there are jobs and
// classes, not what there are runners.
type openings struct {
	classes map[string]*class
	byLabel map[string]map[*class]bool // classes whose runners have the label
	aliased map[*class]bool            // classes whose pools answer by patterns
	slots   int                        // open ones of all classes
	inPool  map[domain.PoolID]int      // the same, by pool
}

// class is the runners of a pool that have the same labels.
type class struct {
	name            string
	pool            domain.PoolID
	labels, aliases []string
	members         int
	slots           int     // open ones of its members
	open            ranking // those with open slots, in the order in which placement takes them, and some without
}

func newOpenings() openings {
	return openings{classes: map[string]*class{}, byLabel: map[string]map[*class]bool{}, aliased: map[*class]bool{},
		inPool: map[domain.PoolID]int{}}
}

// join gives the class of a runner, which counts as one more member.
func (o *openings) join(in domain.PoolID, labels, aliases []string) *class {
	name := strings.Join([]string{string(in), strings.Join(labels, "\x01"), strings.Join(aliases, "\x01")}, "\x00")
	c := o.classes[name]
	if c == nil {
		c = &class{name: name, pool: in, labels: labels, aliases: aliases}
		o.classes[name] = c
		for _, label := range c.answers() {
			if o.byLabel[label] == nil {
				o.byLabel[label] = map[*class]bool{}
			}
			o.byLabel[label][c] = true
		}
		if len(aliases) > 0 {
			o.aliased[c] = true
		}
	}
	c.members++
	return c
}

// leave counts a member less. One that nobody is in is forgotten.
func (o *openings) leave(c *class) {
	if c == nil {
		return
	}
	if c.members--; c.members > 0 {
		return
	}
	delete(o.classes, c.name)
	delete(o.aliased, c)
	for _, label := range c.answers() {
		if delete(o.byLabel[label], c); len(o.byLabel[label]) == 0 {
			delete(o.byLabel, label)
		}
	}
}

// answers are the labels that a job may ask for by name.
func (c *class) answers() []string {
	out := []string{strings.ToLower(string(c.pool))}
	for _, label := range c.labels {
		out = append(out, strings.ToLower(label))
	}
	return out
}

// has says how many slots of a runner are open now. One without any keeps its place in the ranking
// until a placement comes across it: most are between two polls, and back in a moment with as many.
func (o *openings) has(a *agent, slots int) {
	if a.class == nil || a.offered == slots {
		return
	}
	o.slots += slots - a.offered
	o.inPool[a.pool] += slots - a.offered
	a.class.slots += slots - a.offered
	if a.offered = slots; slots > 0 && a.ranked != slots {
		a.class.open.remove(a)
		a.ranked = slots
		a.class.open.add(a)
	}
}

// drop forgets the slots of a runner that is gone.
func (o *openings) drop(a *agent) {
	o.has(a, 0)
	if a.class != nil {
		a.class.open.remove(a)
	}
}

// best visits the members whose slots n jobs can get, in order, and says how many of its slots.
// Placement takes from whoever has most left, so it takes all of them down to one level.
func (c *class) best(n int, visit func(a *agent, slots int)) {
	var some []*agent
	level, above := 0, 0 // what the last of them has, and how many slots the others have above that
	c.first(n, func(a *agent) bool {
		deeper := len(some) * (level - a.offered)
		if above+deeper >= n && len(some) > 0 {
			return false
		}
		some, level, above = append(some, a), a.offered, above+max(deeper, 0)
		return true
	})
	if len(some) == 0 {
		return
	}
	level = max(level-(n-above+len(some)-1)/len(some), 0)
	for _, a := range some {
		visit(a, a.offered-level)
	}
}

// first visits up to n members with open slots, in order, as long as more is true.
func (c *class) first(n int, visit func(*agent) (more bool)) {
	var gone []*agent
	c.open.each(func(a *agent) bool {
		if a.offered == 0 {
			gone = append(gone, a)
			return true
		}
		n--
		return visit(a) && n > 0
	})
	for _, a := range gone {
		c.open.remove(a)
	}
}

// fitting are the classes that can have slots for some of the jobs: those that have the rarest
// label of one, and those that may answer it by a pattern; and how many jobs there are for each.
func (o *openings) fitting(wishes []placement.Head) map[*class]int {
	out := map[*class]int{}
	for i := range wishes {
		w := &wishes[i]
		if len(w.RunsOn) == 0 {
			for _, c := range o.classes {
				if c.slots > 0 {
					out[c] += w.Count
				}
			}
			continue
		}
		rarest := o.byLabel[strings.ToLower(w.RunsOn[0])]
		for _, label := range w.RunsOn[1:] {
			if with := o.byLabel[strings.ToLower(label)]; len(with) < len(rarest) {
				rarest = with
			}
		}
		for c := range rarest {
			if c.slots > 0 {
				out[c] += w.Count
			}
		}
		for c := range o.aliased {
			if c.slots > 0 && !rarest[c] {
				out[c] += w.Count
			}
		}
	}
	return out
}

// chunkMost is when a part of a ranking is split: what one change moves in memory.
const chunkMost = 512

// ranking is runners in the order in which placement takes their slots: those with most first, as
// ranked says, then by identifier. It is a list in parts, each of them in order.
type ranking struct {
	parts [][]*agent
	len   int
}

func compareAgents(a, b *agent) int {
	return cmp.Or(cmp.Compare(b.ranked, a.ranked), cmp.Compare(a.Runner.Runner, b.Runner.Runner))
}

// find is the part where a runner is or belongs, its place there, and whether it is there.
func (r *ranking) find(a *agent) (part, at int, found bool) {
	part, _ = slices.BinarySearchFunc(r.parts, a, func(p []*agent, a *agent) int {
		return compareAgents(p[len(p)-1], a)
	})
	if part == len(r.parts) {
		return part, 0, false
	}
	at, found = slices.BinarySearchFunc(r.parts[part], a, compareAgents)
	return part, at, found
}

func (r *ranking) add(a *agent) {
	part, at, found := r.find(a)
	if found {
		return
	}
	r.len++
	if part == len(r.parts) {
		if part == 0 {
			r.parts = append(r.parts, []*agent{a})
			return
		}
		part--
		at = len(r.parts[part])
	}
	p := slices.Insert(r.parts[part], at, a)
	r.parts[part] = p
	if len(p) > chunkMost {
		half := len(p) / 2
		r.parts[part] = slices.Clone(p[:half])
		r.parts = slices.Insert(r.parts, part+1, slices.Clone(p[half:]))
	}
}

// remove takes a runner out, if it is in. It is ranked by nothing then.
func (r *ranking) remove(a *agent) {
	if a.ranked == 0 {
		return
	}
	part, at, found := r.find(a)
	if a.ranked = 0; !found {
		return
	}
	r.len--
	if r.parts[part] = slices.Delete(r.parts[part], at, at+1); len(r.parts[part]) == 0 {
		r.parts = slices.Delete(r.parts, part, part+1)
	}
}

// each visits runners in order, for as long as visit wants.
func (r *ranking) each(visit func(*agent) (on bool)) {
	for _, p := range r.parts {
		for _, a := range p {
			if !visit(a) {
				return
			}
		}
	}
}
