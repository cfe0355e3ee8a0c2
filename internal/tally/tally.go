package tally

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fairlead-ci/fairlead/internal/archive"
	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

const (
	// pageRows are read from the log at once: rows hold a few KiB each.
	pageRows = 2000
	// namesMax bounds the names that a report lists.
	namesMax = 20
	// waitMost is the longest wait that is told apart: an hour.
	waitMost = int64(time.Hour / time.Microsecond)
)

// Archive is a store that is counted.
type Archive interface {
	store.Sizer
	Image(ctx context.Context) (store.Image, error)
}

// Config says what is counted.
type Config struct {
	Archive Archive
	// Blobs, if set, is where the objects of archived history are.
	Blobs blob.Store
	// Book is what somebody outside remembers, in lines (see readBook); nil: nothing.
	Book io.Reader
	// From and To bound what counts as being in the window. Zero: no bound.
	From, To time.Time
	// Progress is told how many rows were read; may be nil.
	Progress func(stage string, done, total int64)
}

// Wait is how a wait is distributed, in milliseconds.
type Wait struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// Report is what was counted.
type Report struct {
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`

	// The whole history.
	Runs      int64 `json:"runs"`
	Open      int64 `json:"runs_open"` // without an outcome
	Attempts  int64 `json:"attempts"`
	Events    int64 `json:"events"`
	Rows      int64 `json:"rows"`
	Concluded int64 `json:"jobs"` // with an outcome; one that ran in two rounds counts twice
	Bytes     int64 `json:"store_bytes"`

	// The window.
	Jobs     int64                    `json:"jobs_in_window"` // concluded by an attempt
	Outcomes map[domain.Outcome]int64 `json:"outcomes_in_window"`
	Leased   Wait                     `json:"ready_to_lease_ms"`
	// Got is from the record that a job is ready to the moment when its runner had verified
	// the manifest, by the book.
	Got Wait `json:"ready_to_manifest_ms"`

	// Lost are runs, executions and results of the book that history does not hold: runs also
	// when they have no outcome, results also when the attempt ended without them.
	Lost int64 `json:"lost"`
	// Duplicated are executions of a job that had been executed in the same round without an end
	// that allows another one: it was lost, or failed and is tried again.
	Duplicated int64    `json:"duplicated"`
	Names      []string `json:"names"` // of some that were lost or executed twice
}

// Wrong reports whether something was lost or happened twice.
func (r *Report) Wrong() bool { return r.Lost > 0 || r.Duplicated > 0 }

// count is one count under way.
type count struct {
	Config
	book   *book
	report *Report
	leased *hdrhistogram.Histogram
	got    *hdrhistogram.Histogram
	live   map[digest]*live // runs without an outcome
}

// live is what is kept of a run until it has an outcome, of this round.
type live struct {
	ready    map[int]time.Time
	executed map[int]bool // jobs with an execution that allows no other
	declined map[int]bool // jobs whose last lease the runner refused: it says that it began nothing
}

func newLive() *live {
	return &live{ready: map[int]time.Time{}, executed: map[int]bool{}, declined: map[int]bool{}}
}

// Run counts. It looks at one moment of the store, which may be in use.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	c := &count{Config: cfg, report: &Report{From: cfg.From, To: cfg.To, Outcomes: map[domain.Outcome]int64{},
		Names: []string{}}, leased: hdrhistogram.New(1, waitMost, 3), got: hdrhistogram.New(1, waitMost, 3),
		live: map[digest]*live{}}
	if c.book, err = readBook(cfg.Book); err != nil {
		return nil, err
	}
	if c.report.Bytes, err = cfg.Archive.Size(ctx); err != nil {
		return nil, fmt.Errorf("tally: %w", err)
	}
	image, err := cfg.Archive.Image(ctx)
	if err != nil {
		return nil, fmt.Errorf("tally: %w", err)
	}
	image = archive.Across(image, archive.NewReader(cfg.Blobs))
	err = c.read(ctx, image)
	if err = errors.Join(err, image.Close()); err != nil {
		return nil, fmt.Errorf("tally: %w", err)
	}
	c.close()
	return c.report, nil
}

// read goes through the log of all partitions in the order of their names.
func (c *count) read(ctx context.Context, image store.Image) error {
	var last []any
	for {
		rows, err := image.Scan(ctx, store.TableLog, store.Page{From: last, Limit: pageRows})
		if err != nil {
			return err
		}
		for _, values := range rows {
			_, row := store.LogOf(values)
			if err := c.row(&row); err != nil {
				return err
			}
			last = values[:2]
		}
		if c.Progress != nil {
			c.Progress("history", c.report.Rows, 0)
		}
		if len(rows) < pageRows {
			return nil
		}
	}
}

func (c *count) row(row *store.Row) error {
	c.report.Rows++
	c.report.Events += int64(row.Count)
	if row.Stream.Kind() != "run" {
		return nil
	}
	events, err := run.DecodeEvents(row.Events)
	if err != nil {
		return fmt.Errorf("read %s at position %d: %w", row.Stream, row.Position, err)
	}
	for _, e := range events {
		c.event(domain.RunID(row.Stream.ID()), e)
	}
	return nil
}

func (c *count) within(at time.Time) bool {
	return (c.From.IsZero() || !at.Before(c.From)) && (c.To.IsZero() || at.Before(c.To))
}

// event takes one fact of a run.
func (c *count) event(id domain.RunID, event run.Event) {
	l := c.live[of(id)]
	switch event.(type) {
	case *run.RunRequested:
		c.report.Runs++
		delete(c.book.asked, of(id))
		c.live[of(id)] = newLive()
		return
	case *run.RoundOpened:
		c.live[of(id)] = newLive()
		return
	}
	if l == nil { // of a run that has its outcome: where a log is, what somebody found later
		return
	}
	switch e := event.(type) {
	case *run.JobReady:
		l.ready[e.Job] = e.At
	case *run.LeaseGranted:
		c.lease(id, l, e)
	case *run.LeaseDeclined:
		l.declined[e.Job] = true
	case *run.AttemptConcluded:
		c.attempt(id, l, e)
	case *run.JobConcluded:
		c.report.Concluded++
		if e.Attempt > 0 && c.within(e.At) {
			c.report.Jobs++
			c.report.Outcomes[e.Outcome]++
		}
	case *run.RunConcluded:
		delete(c.live, of(id))
		delete(c.book.runs, of(id))
	}
}

func (c *count) lease(id domain.RunID, l *live, e *run.LeaseGranted) {
	c.report.Attempts++
	ready := l.ready[e.Job]
	delete(l.ready, e.Job)
	delete(l.declined, e.Job)
	if c.within(e.At) {
		_ = c.leased.RecordValue(between(ready, e.At.UnixMicro()))
	}
	att := of(id.Job(e.Job).Attempt(e.Attempt))
	got, remembered := c.book.got[att]
	if !remembered {
		return
	}
	delete(c.book.got, att)
	if c.within(time.UnixMicro(got.at)) {
		_ = c.got.RecordValue(between(ready, got.at))
	}
	c.execution(id, l, e.Job)
}

// execution notes one more of a job.
func (c *count) execution(id domain.RunID, l *live, job int) {
	if l.executed[job] {
		c.wrong(&c.report.Duplicated, string(id.Job(job)))
	}
	l.executed[job] = true
}

// between is a wait in microseconds, within what the histogram tells apart.
func between(from time.Time, to int64) int64 { return min(max(to-from.UnixMicro(), 1), waitMost) }

func (c *count) attempt(id domain.RunID, l *live, e *run.AttemptConcluded) {
	if e.Report != "" { // what was acknowledged is what history holds
		delete(c.book.acked, of(id.Job(e.Job).Attempt(e.Attempt)))
		if !c.book.told {
			c.execution(id, l, e.Job)
		}
	}
	if e.Outcome != domain.OutcomeSuccess && !l.declined[e.Job] {
		delete(l.executed, e.Job)
	}
}

func (c *count) wrong(counter *int64, name string) {
	*counter++
	if len(c.report.Names) < namesMax {
		c.report.Names = append(c.report.Names, name)
	}
}

// close compares what is left.
func (c *count) close() {
	c.report.Open = int64(len(c.live))
	for _, runs := range []map[digest]string{c.book.runs, c.book.asked} {
		for _, name := range runs {
			c.wrong(&c.report.Lost, name)
		}
	}
	for _, name := range c.book.acked {
		c.wrong(&c.report.Lost, name)
	}
	for _, got := range c.book.got {
		c.wrong(&c.report.Lost, got.name)
	}
	slices.Sort(c.report.Names)
	c.report.Leased, c.report.Got = wait(c.leased), wait(c.got)
}

func wait(h *hdrhistogram.Histogram) Wait {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Wait{Count: h.TotalCount(), P50: ms(h.ValueAtQuantile(50)), P99: ms(h.ValueAtQuantile(99)),
		P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max())}
}
