package crash

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Mark is one line that a job wrote into the world: a file outside of everything that the
// product keeps, opened for appending, so that its order is the order of the acts.
type Mark struct {
	Verb    string // begin, act, effect, end
	Job     domain.JobID
	Attempt domain.AttemptID
	Runner  string
	At      instant // by the job, just before it wrote; up to 10 ms too early, as coarse as /proc/uptime
	Seen    instant // by the observer, just after
}

// number is the attempt's.
func (m Mark) number() int {
	_, _, n, _ := m.Attempt.Split()
	return n
}

// world reads the file as it grows.
type world struct {
	path string

	mu     sync.Mutex
	offset int64
	rest   []byte
	marks  []Mark
	bad    []string
}

// read takes in what was written since the last time.
func (w *world) read() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	file, err := os.Open(w.path)
	if err != nil {
		return fmt.Errorf("read the world: %w", err)
	}
	defer func() { _ = file.Close() }()
	stat, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read the world: %w", err)
	}
	more := make([]byte, max(stat.Size()-w.offset, 0))
	n, err := file.ReadAt(more, w.offset)
	if err != nil {
		return fmt.Errorf("read the world: %w", err)
	}
	w.offset += int64(n)
	w.rest = append(w.rest, more[:n]...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return nil
		}
		w.rest = rest
		if m, ok := parseMark(string(line)); ok {
			w.marks = append(w.marks, m)
		} else {
			w.bad = append(w.bad, string(line))
		}
	}
}

// parseMark reads "verb job attempt seconds.hundredths runner".
func parseMark(line string) (Mark, bool) {
	fields := strings.Fields(line)
	if len(fields) != 5 {
		return Mark{}, false
	}
	at, err := time.ParseDuration(fields[3] + "s")
	m := Mark{Verb: fields[0], Job: domain.JobID(fields[1]), Attempt: domain.AttemptID(fields[2]), Runner: fields[4],
		At: instant(at), Seen: now()}
	return m, err == nil && m.Attempt.Job() == m.Job
}

// all is what was read so far.
func (w *world) all() []Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.marks)
}

// of is what one attempt did so far.
func (w *world) of(attempt domain.AttemptID) (out []Mark) {
	for _, m := range w.all() {
		if m.Attempt == attempt {
			out = append(out, m)
		}
	}
	return out
}

// frozen is a stretch of time in which a whole machine stood still.
type frozen struct {
	runner   string
	from, to instant
}

// wakeMost is how long after waking a machine may need to notice that its attempts are
// over, on a busy machine. Nothing that runs there can know better in the instant of
// waking than it knew before.
const wakeMost = 5 * time.Second

// woken says that the mark was made by a machine that had just woken from a sleep which
// outlasted its leases.
func woken(m Mark, sleeps []frozen, lease time.Duration) bool {
	return slices.ContainsFunc(sleeps, func(f frozen) bool {
		return f.runner == m.Runner && time.Duration(f.to-f.from) > lease && m.Seen >= f.to && m.At < f.to.add(wakeMost)
	})
}

// overlap is a mark of an attempt that was made after a later attempt of its job had begun.
type overlap struct {
	mark  Mark
	later domain.AttemptID
}

// overlaps finds every mark that breaks "at most one attempt of a job acts at a time".
func overlaps(marks []Mark) (out []overlap) {
	last := map[domain.JobID]Mark{}
	for _, m := range marks {
		if l, ok := last[m.Job]; ok && m.number() < l.number() {
			out = append(out, overlap{m, l.Attempt})
			continue
		}
		last[m.Job] = m
	}
	return out
}

// begun counts how often each attempt began: more than once is a defect.
func begun(marks []Mark) map[domain.AttemptID]int {
	out := map[domain.AttemptID]int{}
	for _, m := range marks {
		if m.Verb == "begin" {
			out[m.Attempt]++
		}
	}
	return out
}
