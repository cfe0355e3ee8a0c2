package dispatch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// lines are the jobs that wait, those that ask for the same together and in order. With k
// open slots no more than the first k of a line can get one, whatever the rest of the
// queue looks like, so that placing costs what there are slots and different wishes, not
// what there are jobs.
type lines map[string][]*head

// lineOf names the line of a head: everything that placement can tell it apart by, but its
// age and itself.
func lineOf(h *head) string {
	return strings.Join([]string{string(h.partition), string(h.tenant), string(h.class), string(h.tier),
		strings.Join(h.runsOn, "\x01")}, "\x00")
}

func compareHeads(a, b *head) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.job, b.job))
}

func (l lines) add(h *head) {
	name := lineOf(h)
	at, _ := slices.BinarySearchFunc(l[name], h, compareHeads)
	l[name] = slices.Insert(l[name], at, h)
}

func (l lines) remove(h *head) {
	name := lineOf(h)
	at, found := slices.BinarySearchFunc(l[name], h, compareHeads)
	if !found {
		return
	}
	if l[name] = slices.Delete(l[name], at, at+1); len(l[name]) == 0 {
		delete(l, name)
	}
}

// front lists the first n of every line that nobody was asked for yet. Their order is
// placement's business.
func (l lines) front(n int) []placement.Head {
	var out []placement.Head
	for _, line := range l {
		left := n
		for _, h := range line {
			if left == 0 {
				break
			}
			if !h.asked {
				out = append(out, h.placement())
				left--
			}
		}
	}
	return out
}

// each visits the lines with the first head that nobody was asked for, and how many there
// are of those.
func (l lines) each(visit func(first *head, waiting int)) {
	for _, line := range l {
		var first *head
		waiting := 0
		for _, h := range line {
			if h.asked {
				continue
			}
			if waiting++; first == nil {
				first = h
			}
		}
		if first != nil {
			visit(first, waiting)
		}
	}
}

// grip is the leases of the runners, by runner.
type grip map[domain.RunnerID]map[domain.AttemptID]*lease

func (g grip) add(l *lease) {
	if g[l.runner] == nil {
		g[l.runner] = map[domain.AttemptID]*lease{}
	}
	g[l.runner][l.attempt] = l
}

func (g grip) remove(l *lease) {
	if delete(g[l.runner], l.attempt); len(g[l.runner]) == 0 {
		delete(g, l.runner)
	}
}
