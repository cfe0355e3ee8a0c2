package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Reader reads a spool from its start, also while it is being written. It has one user.
type Reader struct {
	dir    string
	number int // of the open segment; 0 before the first
	file   *os.File
	offset int64
	torn   int
	buf    []byte // holds the last frame
}

// NewReader makes a reader. The spool need not exist yet.
func NewReader(dir string) *Reader { return &Reader{dir: dir} }

// Torn counts places where a segment ended in the middle of a frame: its writer died
// while writing. What was in the torn frame was never promised to anybody.
func (r *Reader) Torn() int { return r.torn }

// Close lets the files go.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// Next returns the next frame, or io.EOF when there is none yet: it can be called again
// after more was written. The frame's payload is good until the next call.
func (r *Reader) Next() (Frame, error) {
	for {
		if r.file == nil {
			if err := r.open(); err != nil {
				return Frame{}, err
			}
		}
		if f, ok, err := r.read(); ok || err != nil {
			return f, err
		}
		// Look for a successor and read again: only then is the end of this segment known
		// to be final.
		next, err := r.successor()
		if err != nil {
			return Frame{}, err
		}
		if f, ok, err := r.read(); ok || err != nil {
			return f, err
		}
		if next == 0 {
			return Frame{}, io.EOF
		}
		if st, err := r.file.Stat(); err == nil && st.Size() > r.offset {
			r.torn++
		}
		r.Close()
		r.number, r.offset = next-1, 0
	}
}

// open opens the first segment after the current number.
func (r *Reader) open() error {
	next, err := r.successor()
	if err != nil {
		return err
	}
	if next == 0 {
		return io.EOF
	}
	f, err := os.Open(segmentPath(r.dir, next))
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF // acknowledged and deleted meanwhile: the next call looks again
	}
	if err != nil {
		return fmt.Errorf("read spool: %w", err)
	}
	r.file, r.number, r.offset = f, next, 0
	return nil
}

func (r *Reader) successor() (int, error) {
	names, err := segmentNames(r.dir)
	if err != nil {
		return 0, fmt.Errorf("read spool: %w", err)
	}
	for _, n := range names {
		if n > r.number {
			return n, nil
		}
	}
	return 0, nil
}

// read reads the frame at the offset; false means that there is no whole one.
func (r *Reader) read() (Frame, bool, error) {
	var head [headBytes]byte
	n, err := r.file.ReadAt(head[:], r.offset)
	if n < headBytes {
		return Frame{}, false, notEOF(err)
	}
	h, ok := parseHeader(head[:])
	if !ok {
		return Frame{}, false, nil
	}
	if cap(r.buf) < h.length {
		r.buf = make([]byte, h.length)
	}
	payload := r.buf[:h.length]
	n, err = r.file.ReadAt(payload, r.offset+headBytes)
	if n < h.length {
		return Frame{}, false, notEOF(err)
	}
	if !h.matches(head[:], payload) {
		return Frame{}, false, nil
	}
	r.offset += int64(headBytes + h.length)
	return Frame{Kind: h.kind, Sequence: h.sequence, Payload: payload}, true, nil
}

func notEOF(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("read spool: %w", err)
}

func segmentNames(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		if n, ok := segmentNumber(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
