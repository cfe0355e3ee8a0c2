package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A stream of polls carries frames both ways: a byte that says what it is, the poll's number, and
// as many bytes as the length before them says.
const (
	framePoll    = 'p' // to the leader: how long it may wait in ms, and the exchange
	frameLeave   = 'l' // to the leader: nobody waits for it any more
	frameAnswer  = 'a' // from the leader: the answer
	frameRefused = 'r' // from the leader: it is to be asked in the ordinary way, which says why
	frameMoved   = 'm' // from the leader: it leads no more
)

type frame struct {
	kind byte
	poll uint64
	body []byte
}

func appendFrame(to []byte, f frame) []byte {
	to = append(to, f.kind)
	to = binary.AppendUvarint(to, f.poll)
	to = binary.AppendUvarint(to, uint64(len(f.body)))
	return append(to, f.body...)
}

// readFrame reads one whose body is no longer than most; io.EOF at the stream's end.
func readFrame(from *bufio.Reader, most uint64) (f frame, err error) {
	if f.kind, err = from.ReadByte(); err != nil {
		return f, err
	}
	if f.poll, err = binary.ReadUvarint(from); err != nil {
		return f, cut(err)
	}
	length, err := binary.ReadUvarint(from)
	if err != nil {
		return f, cut(err)
	}
	if length > most {
		return f, fmt.Errorf("read frame: %d bytes, at most %d are taken", length, most)
	}
	f.body = make([]byte, length)
	if _, err := io.ReadFull(from, f.body); err != nil {
		return f, cut(err)
	}
	return f, nil
}

// cut is an end in the middle of a frame.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
