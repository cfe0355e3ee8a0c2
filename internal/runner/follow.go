package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/runner/spool"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// follower brings what one attempt spools to the machine, and notices its end.
type follower struct {
	attempt string
	folder  supervisor.Folder
	driver  isolate.Driver
	handle  *supervisor.Handle // nil when no supervisor is alive any more
	reader  *spool.Reader
	credit  chan struct{} // a token lets it read one more batch
	tell    func(func(m *machine, now instant))
	resume  func() // says that the machine has time for other things

	// begin, if set, starts the attempt anew after a supervisor that ended before it had
	// begun. It runs on the agent's goroutine, after which this follower is no longer the
	// attempt's.
	begin     func(now instant)
	concluded bool // the result was read
}

// run returns when everything was read after the supervisor's end, or with ctx.
func (f *follower) run(ctx context.Context) {
	defer f.reader.Close()
	if f.handle != nil {
		defer f.handle.Release()
		if !f.live(ctx) {
			return
		}
	}
	f.resume()
	if f.begin != nil && !f.folder.Begun() {
		f.tell(func(_ *machine, now instant) { f.begin(now) })
		return
	}
	fault := f.drain(ctx)
	if fault != nil || !f.concluded || !f.folder.Finished() {
		// It died, or left something: who ends in order erases the sandbox last of all.
		fault = errors.Join(f.bury(ctx), f.drain(ctx))
	}
	if ctx.Err() == nil {
		f.tell(func(m *machine, now instant) { m.ended(f.attempt, fault, now) })
	}
}

// bury cleans up after the supervisor, and goes on trying while processes of the job may be
// left: until they are gone its slot is not free, and the attempt has not ended.
func (f *follower) bury(ctx context.Context) error {
	for wait := buryPause; ; wait = min(2*wait, buryPauseMax) {
		err := supervisor.Bury(ctx, f.folder, f.driver)
		if !errors.Is(err, supervisor.ErrRemains) {
			return err
		}
		f.tell(func(m *machine, _ instant) {
			m.note("what is left of a job can't be removed yet", "attempt", f.attempt, "error", err)
		})
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

const (
	buryPause    = 250 * time.Millisecond
	buryPauseMax = 10 * time.Second
)

// drain reads what is left.
func (f *follower) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		if more, err := f.batch(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// live reads while the supervisor is alive; false means that ctx ended.
func (f *follower) live(ctx context.Context) bool {
	for {
		for {
			more, err := f.batch(ctx)
			if err != nil || !more {
				break // an error shows again at the end, where it is reported
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-f.handle.More():
		case <-f.handle.Gone():
			return true
		}
	}
}

// batch hands over one batch and waits for the machine to have room for the next.
func (f *follower) batch(ctx context.Context) (more bool, err error) {
	var n news
	size := 0
	for size < batchBytes {
		frame, err := f.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && size > 0 {
			break // it shows again, and what was read before is not lost
		}
		if err != nil {
			return false, err
		}
		size += len(frame.Payload)
		if err := n.add(frame); err != nil {
			return false, err
		}
		f.concluded = f.concluded || n.result != nil
	}
	if size == 0 {
		return false, nil
	}
	f.tell(func(m *machine, now instant) { m.spooled(f.attempt, n, now) })
	select {
	case <-f.credit:
		return true, nil
	case <-ctx.Done():
		return false, nil
	}
}

func (n *news) add(f spool.Frame) error {
	var to proto.Message
	switch f.Kind {
	case spool.KindChunk:
		c := new(runnerv1.Chunk)
		n.chunks = append(n.chunks, c)
		to = c
	case spool.KindProgress:
		p := new(runnerv1.Progress)
		n.progress = append(n.progress, p)
		to = p
	case spool.KindResult:
		n.result = new(runnerv1.Result)
		to = n.result
	}
	if err := proto.Unmarshal(f.Payload, to); err != nil {
		return fmt.Errorf("read spool: frame %d of kind %d: %w", f.Sequence, f.Kind, err)
	}
	return nil
}

// grant gives a follower one more batch; a token that it has not used yet is enough.
func (f *follower) grant() {
	select {
	case f.credit <- struct{}{}:
	default:
	}
}
