package logs

import (
	"errors"
	"io"
	"iter"
)

// feed is a reader of what a function writes. The function runs only while somebody reads,
// on the reader's behalf: no goroutine, no buffer, and nothing goes on by itself.
type feed struct {
	next func() ([]byte, bool)
	stop func()
	rest []byte
	err  error // what the function ended with
}

// errFeedClosed ends a function whose reader lost interest.
var errFeedClosed = errors.New("nobody reads on")

func newFeed(write func(io.Writer) error) *feed {
	f := &feed{}
	f.next, f.stop = iter.Pull(func(yield func([]byte) bool) { f.err = write(feeder(yield)) })
	return f
}

// feeder gives each piece that is written to the reader, and goes on once it was read.
type feeder func([]byte) bool

// Write implements io.Writer.
func (give feeder) Write(p []byte) (int, error) {
	if len(p) > 0 && !give(p) {
		return 0, errFeedClosed
	}
	return len(p), nil
}

// Read implements io.Reader.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		piece, more := f.next()
		switch {
		case more:
			f.rest = piece
		case f.err != nil:
			return 0, f.err
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// close ends the function where it stands.
func (f *feed) close() { f.stop() }
