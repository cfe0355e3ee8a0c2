package sim

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tally is what many worlds add up to.
type Tally struct {
	Worlds   int            `json:"worlds"`
	Events   int            `json:"events"`
	Steps    uint64         `json:"steps"`
	Virtual  time.Duration  `json:"virtual"`
	Faults   map[string]int `json:"faults"`
	Coverage []Covered      `json:"coverage"`

	coverage Coverage
}

// Covered is a transition with its count.
type Covered struct {
	Transition
	Count int `json:"count"`
}

// Add takes in a world.
func (t *Tally) Add(r *Result) {
	if t.Faults == nil {
		t.Faults, t.coverage = map[string]int{}, Coverage{}
	}
	t.Worlds++
	t.Events += r.Events
	t.Steps += r.Steps
	t.Virtual += r.Virtual
	for f, n := range r.Faults {
		t.Faults[f] += n
	}
	t.coverage.Add(r.Coverage)
}

// Join adds up two tallies.
func (t *Tally) Join(other *Tally) {
	if t.Faults == nil {
		t.Faults, t.coverage = map[string]int{}, Coverage{}
	}
	t.Worlds += other.Worlds
	t.Events += other.Events
	t.Steps += other.Steps
	t.Virtual += other.Virtual
	for f, n := range other.Faults {
		t.Faults[f] += n
	}
	for _, c := range other.Coverage {
		t.coverage[c.Transition] += c.Count
	}
	t.coverage.Add(other.coverage)
}

// Covers is what the worlds covered.
func (t *Tally) Covers() Coverage { return t.coverage }

// stretch is one line of a journal: seeds that were clean, one after the other.
type stretch struct {
	Code  string `json:"code"` // digest of the sources
	First uint64 `json:"first"`
	Tally
}

// Journal counts clean worlds since the sources last changed. It is a file of lines, so that
// a run that is stopped loses nothing that it wrote.
type Journal struct {
	path string
	code string
	Past Tally  // of these sources, before this run
	Next uint64 // the first seed that is not in it
}

// OpenJournal reads a journal, or begins one. Lines of other sources are kept and not counted.
func OpenJournal(path, code string) (*Journal, error) {
	j := &Journal{path: path, code: code, Next: 1}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s stretch
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("read journal %s: %w", path, err)
		}
		if s.Code == code {
			j.Past.Join(&s.Tally)
			j.Next = max(j.Next, s.First+uint64(s.Worlds))
		}
	}
	return j, lines.Err()
}

// Write adds the worlds from a seed on.
func (j *Journal) Write(first uint64, t *Tally) error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	line := stretch{Code: j.code, First: first, Tally: *t}
	line.Coverage = t.coverage.sorted()
	text, err := json.Marshal(line)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

func (c Coverage) sorted() (out []Covered) {
	for t, n := range c {
		out = append(out, Covered{t, n})
	}
	slices.SortFunc(out, func(a, b Covered) int {
		return strings.Compare(a.State+"\x00"+a.Event, b.State+"\x00"+b.Event)
	})
	return out
}

// sources are the folders whose change makes earlier worlds worth nothing.
var sources = []string{"core", "engine", "fleet", "dispatch", "logs", "reactor", "trigger", "order", "runner",
	"store/memory",
	"projection", "sim"}

// CodeDigest names the sources that worlds run, below a folder "internal".
func CodeDigest(internal string) (string, error) {
	sum := sha256.New()
	for _, dir := range sources {
		err := filepath.WalkDir(filepath.Join(internal, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read sources in %s: %w", dir, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// Print writes a tally for people. took is the time that its worlds needed here.
func (t *Tally) Print(out io.Writer, took time.Duration) {
	rate := float64(t.Worlds) / max(took.Seconds(), 0.001)
	_, _ = fmt.Fprintf(out, "%d worlds, %d events, %d steps, %s of virtual time, in %s: %.1f worlds/s\n", t.Worlds,
		t.Events,
		t.Steps, t.Virtual.Round(time.Second), took.Round(time.Second), rate)
	_, _ = fmt.Fprintln(out, "faults:")
	for _, f := range slices.Sorted(maps.Keys(t.Faults)) {
		_, _ = fmt.Fprintf(out, "  %-18s %d\n", f, t.Faults[f])
	}
}

// Damage sums up the faults: how many happened, of how many kinds.
func (t *Tally) Damage() string {
	sum := 0
	for _, n := range t.Faults {
		sum += n
	}
	return fmt.Sprintf("%d faults of %d kinds", sum, len(t.Faults))
}
