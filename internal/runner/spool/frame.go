package spool

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Kind says what a frame holds.
type Kind uint8

// Kinds of frames.
const (
	KindChunk    Kind = 1
	KindProgress Kind = 2
	KindResult   Kind = 3
)

// Frame is one message to the server.
type Frame struct {
	Kind     Kind
	Sequence uint64 // per kind, from 1
	Payload  []byte
	// Must keeps a chunk beyond the limit: it is the mark of what the limit cost.
	Must bool
}

// A frame on disk: magic, kind, two zero bytes, payload length, sequence, CRC-32C of
// the header before it and the payload; then the payload. Integers are big endian.
const (
	magic      = 0xF1
	headBytes  = 20
	crcAt      = 16
	sequenceAt = 8
	lengthAt   = 4
)

// castagnoli is made at first use: processes that read no spool don't wait for it.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func checksum(head, payload []byte) uint32 {
	table := castagnoli()
	return crc32.Update(crc32.Checksum(head[:crcAt], table), table, payload)
}

func frameHead(f Frame) (head [headBytes]byte) {
	head[0], head[1] = magic, byte(f.Kind)
	binary.BigEndian.PutUint32(head[lengthAt:], uint32(len(f.Payload)))
	binary.BigEndian.PutUint64(head[sequenceAt:], f.Sequence)
	binary.BigEndian.PutUint32(head[crcAt:], checksum(head[:], f.Payload))
	return head
}

// header is what the first bytes of a frame promise.
type header struct {
	kind     Kind
	length   int
	sequence uint64
	sum      uint32
}

func parseHeader(head []byte) (header, bool) {
	h := header{
		kind:     Kind(head[1]),
		length:   int(binary.BigEndian.Uint32(head[lengthAt:])),
		sequence: binary.BigEndian.Uint64(head[sequenceAt:]),
		sum:      binary.BigEndian.Uint32(head[crcAt:]),
	}
	ok := head[0] == magic && h.kind >= KindChunk && h.kind <= KindResult && h.length <= FrameBytesMax
	return h, ok
}

func (h header) matches(head, payload []byte) bool {
	return checksum(head, payload) == h.sum
}

// Segments are named by number, so their names sort as they were written.
func segmentPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.spool", number))
}

func segmentNumber(name string) (int, bool) {
	text, ok := strings.CutSuffix(name, ".spool")
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	return number, err == nil && number > 0
}
