package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Faults of Append.
var (
	// ErrFull: so much waits for the server that this chunk was not kept.
	ErrFull = errors.New("spool is full")
	// ErrDisk: the disk has no room, even after the reserve was given up where that helps.
	ErrDisk = errors.New("the runner's disk is full")
)

// File is what a segment needs of a file. It is the seam at which tests break the disk.
type File interface {
	io.Writer
	Truncate(size int64) error
	Close() error
}

// Options of a Writer; zero fields mean the defaults.
type Options struct {
	UnackedBytesMax int64
	// Create makes a segment's file; nil means the real disk.
	Create func(path string) (File, error)
}

// Writer appends to a spool. There is one at a time; its methods may be called from any
// goroutine.
type Writer struct {
	dir  string
	opts Options

	// mu guards everything below.
	mu       sync.Mutex
	number   int
	file     File
	size     int64
	buf      []byte
	segments []segment // those not yet deleted, the current one last
	waiting  []weight  // chunks that are not acknowledged
	unacked  int64
	acked    [KindResult + 1]uint64
	last     uint64 // chunk
}

// segment knows the last frame of each kind that it holds.
type segment struct {
	number int
	last   [KindResult + 1]uint64
}

type weight struct {
	sequence uint64
	bytes    int64
}

// Open starts writing to the spool in dir, after whatever it already holds.
func Open(dir string, opts Options) (*Writer, error) {
	if opts.UnackedBytesMax <= 0 {
		opts.UnackedBytesMax = UnackedBytesDefault
	}
	if opts.Create == nil {
		opts.Create = func(path string) (File, error) {
			return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	w := &Writer{dir: dir, opts: opts}
	names, err := segmentNames(dir)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	if len(names) > 0 {
		w.number = names[len(names)-1]
	}
	if err := w.setAside(); err != nil {
		return nil, fmt.Errorf("open spool: %w", asDisk(err))
	}
	if err := w.rotate(); err != nil {
		return nil, fmt.Errorf("open spool: %w", asDisk(err))
	}
	return w, nil
}

func (w *Writer) reservePath() string { return filepath.Join(w.dir, "reserve") }

// setAside takes room for the result from the disk now. Where the file system can't,
// zeros do the same.
func (w *Writer) setAside() error {
	f, err := os.OpenFile(w.reservePath(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, reserveBytes)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		_, err = f.Write(make([]byte, reserveBytes))
	}
	return errors.Join(err, f.Close())
}

// Append writes one frame. Chunks are subject to the limit; progress and result are
// not, and may use the reserve.
func (w *Writer) Append(f Frame) error {
	if len(f.Payload) > FrameBytesMax {
		return fmt.Errorf("append to spool: frame of %d bytes, limit %d", len(f.Payload), FrameBytesMax)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes := int64(headBytes + len(f.Payload))
	if f.Kind == KindChunk && !f.Must && w.unacked+bytes > w.opts.UnackedBytesMax {
		return ErrFull
	}
	err := w.write(f)
	if err != nil && f.Kind != KindChunk && errors.Is(err, ErrDisk) {
		if os.Remove(w.reservePath()) == nil {
			err = w.write(f)
		}
	}
	if err != nil {
		return fmt.Errorf("append to spool: %w", err)
	}
	w.segments[len(w.segments)-1].last[f.Kind] = f.Sequence
	if f.Kind == KindChunk {
		w.last = f.Sequence
		w.waiting = append(w.waiting, weight{f.Sequence, bytes})
		w.unacked += bytes
	}
	return nil
}

func (w *Writer) write(f Frame) error {
	if w.size >= segmentBytes {
		if err := w.rotate(); err != nil {
			return asDisk(err)
		}
	}
	head := frameHead(f)
	n, err := w.put(head[:], f.Payload)
	if err != nil {
		if n > 0 {
			// Take the torn frame away, or readers would stop before what follows it.
			if cut := w.file.Truncate(w.size); cut != nil {
				w.size = segmentBytes // leave this segment to its tear
			}
		}
		return asDisk(err)
	}
	w.size += int64(n)
	return nil
}

// put writes a frame: a small one at once, a large one without copying it first.
func (w *Writer) put(head, payload []byte) (int, error) {
	if len(payload) <= smallBytes {
		w.buf = append(append(w.buf[:0], head...), payload...)
		return w.file.Write(w.buf)
	}
	n, err := w.file.Write(head)
	if err != nil {
		return n, err
	}
	more, err := w.file.Write(payload)
	return n + more, err
}

func (w *Writer) rotate() error {
	f, err := w.opts.Create(segmentPath(w.dir, w.number+1))
	if err != nil {
		return err
	}
	if w.file != nil {
		_ = w.file.Close() // written in full already
	}
	w.number++
	w.file, w.size = f, 0
	w.segments = append(w.segments, segment{number: w.number})
	return nil
}

func asDisk(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return err
}

// Acknowledge forgets chunks and progress up to the given sequences: their bytes no
// longer count, and segments that hold nothing else are deleted.
func (w *Writer) Acknowledge(chunks, progress uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked[KindChunk] = max(w.acked[KindChunk], chunks)
	w.acked[KindProgress] = max(w.acked[KindProgress], progress)
	done := 0
	for done < len(w.waiting) && w.waiting[done].sequence <= w.acked[KindChunk] {
		w.unacked -= w.waiting[done].bytes
		done++
	}
	w.waiting = w.waiting[done:]
	for len(w.segments) > 1 {
		first := w.segments[0]
		if first.last[KindChunk] > w.acked[KindChunk] || first.last[KindProgress] > w.acked[KindProgress] ||
			first.last[KindResult] > 0 || first.last[KindChunk] == w.last {
			return // the last chunk stays: it is how the end of the log is known
		}
		if err := os.Remove(segmentPath(w.dir, first.number)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return // tried again at the next acknowledgement
		}
		w.segments = w.segments[1:]
	}
}

// Close ends writing; what was written stays.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
