package job

import (
	"errors"
	"fmt"
	"sync"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/redact"
)

// Streams of a chunk. What steps print arrives through one pipe for standard output
// and standard error together, because only one pipe keeps their order; it is all
// streamStep. streamRunner is what the runner itself has to say.
const (
	streamStep   = 1
	streamRunner = 3
)

// NoStep is the step index of what concerns the whole attempt.
const NoStep = ^uint32(0)

// ErrDropped is returned by a Sink that had no room for a chunk: the job goes on, and a
// mark will say how much is missing.
var ErrDropped = errors.New("chunk was dropped")

// Sink takes what a job reports. Its methods are called by one goroutine at a time.
type Sink interface {
	// Chunk keeps a piece of log, by copying it: c is used again. A chunk with a mark must be kept even when the sink
	// is over its limit. Any error but ErrDropped ends the job.
	Chunk(c *runnerv1.Chunk) error
	// Progress keeps a report of how far the job is.
	Progress(p *runnerv1.Progress) error
}

// log turns output into chunks: bounded, masked, numbered.
type log struct {
	sink    Sink
	attempt string
	epoch   uint64
	now     func() time.Time
	broken  chan struct{} // closed when the sink failed for good

	// mu guards everything below, and the sink.
	mu       sync.Mutex
	mask     redact.Set
	sequence uint64
	step     uint32
	stream   uint32
	pending  []byte
	since    time.Time
	timer    *time.Timer
	fault    error
	open     bool  // the last byte written was not a newline
	left     int64 // of the attempt
	missing  uint64
	counts   map[uint32]*count
	stepMax  int64
}

// count is what a step has printed.
type count struct {
	left    int64
	dropped uint64
	rule    string
}

// newLog is a log with the limits of one attempt.
//
// tidy:long made once for a job; a struct would only repeat these names
func newLog(sink Sink, attempt string, epoch uint64, stepMax, attemptMax int64, now func() time.Time) *log {
	l := &log{
		sink: sink, attempt: attempt, epoch: epoch, now: now,
		broken: make(chan struct{}), left: attemptMax, stepMax: stepMax, counts: make(map[uint32]*count),
	}
	l.timer = time.AfterFunc(time.Hour, l.onTimer)
	l.timer.Stop()
	return l
}

func (l *log) onTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
}

// err is why the sink failed, once broken is closed.
func (l *log) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// write takes output that is masked already. Callers hold mu.
func (l *log) write(step uint32, data []byte) {
	c := l.counts[step]
	if c == nil {
		c = &count{left: l.stepMax}
		l.counts[step] = c
	}
	if c.rule != "" {
		c.dropped += uint64(len(data))
		return
	}
	keep := int64(len(data))
	rule := ""
	if keep > c.left {
		keep, rule = c.left, "step"
	}
	if keep > l.left {
		keep, rule = l.left, "attempt"
	}
	l.add(step, streamStep, data[:keep])
	c.left -= keep
	l.left -= keep
	if rule == "" {
		return
	}
	c.rule = rule
	limit := l.stepMax
	if rule == "attempt" {
		limit = 0
	}
	c.dropped = uint64(int64(len(data)) - keep)
	text := "the output of this job is over its limit; the rest of this step's is not kept"
	if limit > 0 {
		text = fmt.Sprintf("the output of this step is over its limit of %d bytes; the rest is not kept", limit)
	}
	l.mark(step, "truncated:"+rule, c.dropped, text)
	c.dropped = 0
}

// finish says how much of a step's output was not kept. Callers hold mu.
func (l *log) finish(step uint32) {
	if c := l.counts[step]; c != nil && c.dropped > 0 {
		l.mark(step, "truncated:"+c.rule, c.dropped, fmt.Sprintf("%d more bytes of output were not kept", c.dropped))
		c.dropped = 0
	}
	l.flush()
}

// say writes a line of the runner's own.
func (l *log) say(step uint32, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(step, fmt.Sprintf(format, args...))
}

// line writes one line of the runner's own. Callers hold mu.
func (l *log) line(step uint32, text string) {
	text = l.mask.Text(text)
	if l.open {
		text = "\n" + text
	}
	l.add(step, streamRunner, []byte(text+"\n"))
}

// mark writes a visible line that stands for bytes that are not there.
func (l *log) mark(step uint32, mark string, dropped uint64, text string) {
	l.flush()
	if l.open {
		text = "\n" + text
	}
	l.put(&runnerv1.Chunk{
		Step: step, Stream: streamRunner, Data: []byte(text + "\n"), Mark: mark, DroppedBytes: dropped,
		AtUs: l.now().UnixMicro(),
	})
}

// add appends to the pending chunk, or begins a new one. Callers hold mu.
func (l *log) add(step, stream uint32, data []byte) {
	for len(data) > 0 {
		if len(l.pending) > 0 && (l.step != step || l.stream != stream || len(l.pending) >= chunkBytesMax) {
			l.flush()
		}
		if len(l.pending) == 0 {
			l.step, l.stream, l.since = step, stream, l.now()
			l.timer.Reset(chunkDelay)
		}
		n := min(len(data), chunkBytesMax-len(l.pending))
		l.pending = append(l.pending, data[:n]...)
		data = data[n:]
	}
	if len(l.pending) >= chunkBytesMax {
		l.flush()
	}
}

// flush makes a chunk of what is pending. Callers hold mu.
func (l *log) flush() {
	if len(l.pending) == 0 {
		return
	}
	l.timer.Stop()
	c := &runnerv1.Chunk{Step: l.step, Stream: l.stream, AtUs: l.since.UnixMicro(), Data: l.pending}
	if l.missing > 0 {
		l.markMissing()
	}
	if !l.put(c) {
		l.missing += uint64(len(c.GetData()))
	}
	l.pending = l.pending[:0]
}

func (l *log) markMissing() {
	missing := l.missing
	l.missing = 0
	text := fmt.Sprintf("%d bytes of output are missing here: the server did not take them in time", missing)
	if !l.put(&runnerv1.Chunk{
		Step: l.step, Stream: streamRunner, AtUs: l.since.UnixMicro(), Data: []byte(text + "\n"),
		Mark: "truncated:spool", DroppedBytes: missing,
	}) {
		l.missing = missing
	}
}

// put numbers a chunk and hands it to the sink; false means that it was dropped.
func (l *log) put(c *runnerv1.Chunk) bool {
	if l.fault != nil {
		return false
	}
	c.Attempt, c.Epoch, c.Sequence = l.attempt, l.epoch, l.sequence+1
	c.Checksum = domain.Checksum(c.GetData())
	err := l.sink.Chunk(c)
	switch {
	case err == nil:
		l.sequence++
		l.open = c.GetData()[len(c.GetData())-1] != '\n'
		return true
	case errors.Is(err, ErrDropped):
		return false
	}
	l.fault = err
	close(l.broken)
	return false
}

// end flushes everything and returns the last sequence.
func (l *log) end() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	if l.missing > 0 {
		l.since = l.now()
		l.markMissing()
	}
	l.timer.Stop()
	return l.sequence
}
