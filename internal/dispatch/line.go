package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/core/placement"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// head is a job that waits for a runner.
type head struct {
	tenant     domain.TenantID
	partition  domain.PartitionID
	repository domain.RepositoryID
	run        domain.RunID
	index      int
	class      domain.Class
	tier       domain.Tier
	runsOn     []string
	since      time.Time
}

func (h *head) job() domain.JobID { return h.run.Job(h.index) }

func (h *head) key() jobKey { return jobKey{h.run, int32(h.index)} }

func (h *head) share() placement.Share {
	return placement.Share{Tenant: h.tenant, Repository: h.repository}
}

func (h *head) placement() placement.Head {
	return placement.Head{Partition: h.partition, Tenant: h.tenant, Repository: h.repository, Run: h.run, Job: h.job(),
		Class: h.class, Tier: h.tier, RunsOn: h.runsOn, Since: h.since, Count: 1}
}

// jobKey is a job as a short key: a million of them wait in memory.
type jobKey struct {
	run   domain.RunID
	index int32
}

func keyOf(job domain.JobID) jobKey {
	r, index, _ := job.Split()
	return jobKey{r, int32(index)}
}

// waiting is a head as memory keeps it: what many have in common stands in their line.
type waiting struct {
	line  *line
	run   domain.RunID
	since int64 // in nanoseconds
	index int32
	tries int32 // how often it could not be granted for its partition's sake
	asked bool  // a grant is on its way
}

// head is the whole of it.
func (w *waiting) head() head {
	h := w.line.head
	h.run, h.index, h.since = w.run, int(w.index), time.Unix(0, w.since).UTC()
	return h
}

func compareWaiting(a, b *waiting) int {
	return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.run, b.run), cmp.Compare(a.index, b.index))
}

// ask marks a job as asked for, or not any more.
func (w *waiting) ask(on bool) {
	switch {
	case on && !w.asked:
		w.line.asked++
	case !on && w.asked:
		w.line.asked--
	}
	w.asked = on
}

// lines are the jobs that wait, those that ask for the same together and in order. With k
// open slots no more than the first k of a line can get one, whatever the rest of the
// queue looks like, so that placing costs what there are slots and different wishes, not
// what there are jobs.
type lines map[string]*line

// line is jobs that placement can tell apart by nothing but their age and themselves.
type line struct {
	head  head // what they have in common
	name  string
	jobs  [][]*waiting // in order, in pieces: whoever comes or goes moves the rest of a piece only
	count int
	asked int
}

// pieceMax is how many jobs a piece of a line holds; a full one is cut in two.
const pieceMax = 512

// lineOf names the line of a head: everything that placement can tell it apart by, but its
// age and itself.
func lineOf(h *head) string {
	return strings.Join([]string{string(h.partition), string(h.tenant), string(h.repository), string(h.class),
		string(h.tier), strings.Join(h.runsOn, "\x01")}, "\x00")
}

// add puts a job into its line, and gives it as it is kept.
func (l lines) add(h *head) *waiting {
	name := lineOf(h)
	in := l[name]
	if in == nil {
		in = &line{name: name, head: *h}
		in.head.run, in.head.index, in.head.since = "", 0, time.Time{}
		l[name] = in
	}
	w := &waiting{line: in, run: h.run, index: int32(h.index), since: h.since.UnixNano()}
	in.insert(w)
	return w
}

func (l lines) remove(w *waiting) {
	w.ask(false)
	if w.line.remove(w); w.line.count == 0 {
		delete(l, w.line.name)
	}
}

// find is the piece and the place in it where a job is or belongs.
func (l *line) find(w *waiting) (piece, at int, found bool) {
	piece, _ = slices.BinarySearchFunc(l.jobs, w, func(p []*waiting, w *waiting) int {
		return compareWaiting(p[len(p)-1], w)
	})
	if piece == len(l.jobs) {
		if piece == 0 {
			return 0, 0, false
		}
		return piece - 1, len(l.jobs[piece-1]), false
	}
	at, found = slices.BinarySearchFunc(l.jobs[piece], w, compareWaiting)
	return piece, at, found
}

func (l *line) insert(w *waiting) {
	l.count++
	piece, at, _ := l.find(w)
	if len(l.jobs) == 0 {
		l.jobs = append(l.jobs, nil)
	}
	p := slices.Insert(l.jobs[piece], at, w)
	l.jobs[piece] = p
	switch {
	case len(p) <= pieceMax:
	case piece == len(l.jobs)-1 && at == len(p)-1: // who comes last begins a new one: it stays full
		l.jobs[piece] = p[:len(p)-1]
		l.jobs = append(l.jobs, []*waiting{w})
	default:
		half := slices.Clone(p[len(p)/2:])
		clear(p[len(p)/2:])
		l.jobs[piece] = p[:len(p)/2]
		l.jobs = slices.Insert(l.jobs, piece+1, half)
	}
}

func (l *line) remove(w *waiting) {
	piece, at, found := l.find(w)
	if !found {
		return
	}
	l.count--
	if l.jobs[piece] = slices.Delete(l.jobs[piece], at, at+1); len(l.jobs[piece]) == 0 {
		l.jobs = slices.Delete(l.jobs, piece, piece+1)
	}
}

// before counts the jobs that nobody was asked for and that became ready before a moment, or at
// it with a smaller name. Those that a grant is on its way for stand in front.
func (l *line) before(w *waiting) (n int) {
	piece, at, _ := l.find(w)
	for i := range piece {
		n += len(l.jobs[i])
	}
	return max(n+at-l.asked, 0)
}

// queue gives the line's jobs that nobody was asked for yet, one after another.
func (l *line) queue() placement.Queue {
	piece, at := 0, 0
	return placement.Queue{Tenant: l.head.tenant, Next: func() (placement.Head, bool) {
		for piece < len(l.jobs) {
			if at == len(l.jobs[piece]) {
				piece, at = piece+1, 0
				continue
			}
			w := l.jobs[piece][at]
			if at++; !w.asked {
				h := w.head()
				return h.placement(), true
			}
		}
		return placement.Head{}, false
	}}
}

// queues are the lines in which somebody waits that nobody was asked for.
func (l lines) queues() []placement.Queue {
	out := make([]placement.Queue, 0, len(l))
	for _, in := range l {
		if in.count > in.asked {
			out = append(out, in.queue())
		}
	}
	return out
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

// wishes are what the lines ask for, each with the number of jobs that nobody was asked for yet.
func (l lines) wishes() []placement.Head {
	at, out := map[string]int{}, []placement.Head(nil)
	for _, in := range l {
		n := in.count - in.asked
		if n == 0 {
			continue
		}
		wish := strings.Join(in.head.runsOn, "\x01")
		i, known := at[wish]
		if !known {
			i = len(out)
			at[wish], out = i, append(out, placement.Head{RunsOn: in.head.runsOn})
		}
		out[i].Count += n
	}
	return out
}
