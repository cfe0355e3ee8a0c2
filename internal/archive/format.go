package archive

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// An object of an archive is a head, an index and frames:
//
//	"FLAR", format version (1 byte), kind (1 byte), length of the index (4 bytes, big endian)
//	index: what the object holds, and every frame's place, length, digest and first entry
//	SHA-256 of all that
//	frames, each a Zstandard frame by itself
//
// Rows are sorted by stream, then version, so that one stream is in few frames. Numbers in
// index and frames are unsigned varints, texts and bytes have their length before them.
const (
	magic         = "FLAR"
	formatVersion = 1
	kindRows      = 'r'
	kindMarks     = 'm'
	headBytes     = len(magic) + 1 + 1 + 4
)

// head says what an object holds.
type head struct {
	kind      byte
	partition domain.PartitionID
	tenant    domain.TenantID // of all rows; "" of marks
	from, to  store.Position  // of the range
	before    domain.Digest
	digest    domain.Digest
	count     uint64 // rows or marks
	frames    []frame
}

// frame is one compressed piece.
type frame struct {
	offset, length, raw uint64
	sum                 [sha256.Size]byte // of its compressed bytes
	stream              string            // of the first row
	first               uint64            // version of the first row, position of the first mark
}

// ErrFormat: bytes are not an object of an archive, or one of a later version.
var ErrFormat = errors.New("no archive that this version can read")

var coders = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are constant
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(frameBytesMax))
	if err != nil {
		panic(err)
	}
	return enc, dec
})

func putText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func putDigest(b []byte, d domain.Digest) []byte { return putText(b, d) }

// build writes an object of pieces: entries gives one encoded entry and the key of the first.
func (h *head) build(pieces []piece) []byte {
	enc, _ := coders()
	var frames []byte
	for _, p := range pieces {
		at := len(frames)
		frames = enc.EncodeAll(p.data, frames)
		h.frames = append(h.frames, frame{offset: uint64(at), length: uint64(len(frames) - at), raw: uint64(len(p.data)),
			sum: sha256.Sum256(frames[at:]), stream: p.stream, first: p.first})
	}
	index := putText(putText(nil, h.partition), h.tenant)
	index = binary.AppendUvarint(binary.AppendUvarint(index, uint64(h.from)), uint64(h.to))
	index = putDigest(putDigest(index, h.before), h.digest)
	index = binary.AppendUvarint(binary.AppendUvarint(index, h.count), uint64(len(h.frames)))
	for _, f := range h.frames {
		index = binary.AppendUvarint(binary.AppendUvarint(index, f.length), f.raw)
		index = append(index, f.sum[:]...)
		index = binary.AppendUvarint(putText(index, f.stream), f.first)
	}
	out := append([]byte(magic), formatVersion, h.kind)
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(index))), index...)
	sum := sha256.Sum256(out)
	return append(append(out, sum[:]...), frames...)
}

// piece is a frame before it is compressed.
type piece struct {
	data   []byte
	stream string
	first  uint64
}

// encodeRows writes one tenant's rows of a range; they are sorted on the way.
func encodeRows(h head, rows []store.Row) []byte {
	h.kind, h.count = kindRows, uint64(len(rows))
	slices.SortFunc(rows, func(a, b store.Row) int {
		if c := strings.Compare(string(a.Stream), string(b.Stream)); c != 0 {
			return c
		}
		return cmp.Compare(a.Version, b.Version)
	})
	var pieces []piece
	var p piece
	var before *store.Row
	for i := range rows {
		r := &rows[i]
		if len(p.data) >= frameBytes {
			pieces = append(pieces, p)
			p, before = piece{}, nil
		}
		if before == nil {
			p.stream, p.first = string(r.Stream), r.Version
		}
		p.data = putRow(p.data, before, r)
		before = r
	}
	return h.build(append(pieces, p))
}

// putRow writes a row; a stream is named where it begins in a frame. The version before the
// row follows from the row before, except there.
func putRow(b []byte, before, r *store.Row) []byte {
	var position, micros, version uint64
	if before != nil && before.Stream == r.Stream {
		b = append(b, 0)
		position, micros, version = uint64(before.Position), uint64(before.At.UnixMicro()), before.Version
	} else {
		b = putText(append(b, 1), r.Stream)
	}
	b = binary.AppendUvarint(b, uint64(r.Position)-position)
	b = binary.AppendUvarint(b, r.Version-uint64(r.Count)-version)
	b = binary.AppendUvarint(b, uint64(r.Count))
	b = binary.AppendVarint(b, r.At.UnixMicro()-int64(micros))
	return putText(b, r.Events)
}

func encodeMarks(h head, marks []store.BatchMark) []byte {
	h.kind, h.count = kindMarks, uint64(len(marks))
	var pieces []piece
	var p piece
	var before store.BatchMark
	for i, m := range marks {
		if len(p.data) >= frameBytes {
			pieces = append(pieces, p)
			p, before = piece{}, store.BatchMark{}
		}
		if len(p.data) == 0 {
			p.first, before = uint64(m.Position), store.BatchMark{At: time.UnixMicro(0)}
		}
		p.data = binary.AppendUvarint(p.data, uint64(m.Position-before.Position))
		p.data = binary.AppendUvarint(p.data, m.Epoch)
		p.data = binary.AppendVarint(p.data, m.At.UnixMicro()-before.At.UnixMicro())
		p.data = putSum(p.data, m.Digest)
		before = marks[i]
	}
	return h.build(append(pieces, p))
}

// putSum writes a digest as 32 bytes; digests of batches are SHA-256.
func putSum(b []byte, d domain.Digest) []byte {
	sum, err := hex.DecodeString(d.Hex())
	if err != nil || len(sum) != sha256.Size {
		sum = make([]byte, sha256.Size) // makes the object fail its own examination
	}
	return append(b, sum...)
}

// scan reads varints and texts; after the first fault it gives zeros.
type scan struct {
	rest []byte
	bad  bool
}

func (s *scan) number() uint64 {
	v, n := binary.Uvarint(s.rest)
	if n <= 0 {
		s.bad, s.rest = true, nil
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

func (s *scan) signed() int64 {
	v, n := binary.Varint(s.rest)
	if n <= 0 {
		s.bad, s.rest = true, nil
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

func (s *scan) bytes(n uint64) []byte {
	if n > uint64(len(s.rest)) {
		s.bad, s.rest = true, nil
		return nil
	}
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b
}

func (s *scan) text() string { return string(s.bytes(s.number())) }

// headLength is how many bytes head, index and their digest take, by the first bytes.
func headLength(start []byte) (int, error) {
	if len(start) < headBytes || string(start[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrFormat)
	}
	if v := start[len(magic)]; v != formatVersion {
		return 0, fmt.Errorf("%w: it has format version %d, known is %d", ErrFormat, v, formatVersion)
	}
	n := binary.BigEndian.Uint32(start[headBytes-4:])
	if n > indexBytesMax {
		return 0, fmt.Errorf("%w: an index of %d bytes", ErrFormat, n)
	}
	return headBytes + int(n) + sha256.Size, nil
}

// decodeHead reads what headLength measured; size is the length of the whole object.
//
// Trust: the bytes come from a disk or another service, and may be anything.
func decodeHead(data []byte, size int64) (*head, error) {
	n, err := headLength(data)
	if err != nil {
		return nil, err
	}
	if len(data) < n || int64(n) > size {
		return nil, fmt.Errorf("%w: its index is cut short", ErrFormat)
	}
	body := data[:n-sha256.Size]
	if sha256.Sum256(body) != [sha256.Size]byte(data[n-sha256.Size:n]) {
		return nil, fmt.Errorf("%w: its index is damaged", ErrFormat)
	}
	h := &head{kind: data[len(magic)+1]}
	s := &scan{rest: body[headBytes:]}
	h.partition, h.tenant = domain.PartitionID(s.text()), domain.TenantID(s.text())
	h.from, h.to = store.Position(s.number()), store.Position(s.number())
	h.before, h.digest = domain.Digest(s.text()), domain.Digest(s.text())
	h.count = s.number()
	at := uint64(n)
	for range min(s.number(), uint64(len(s.rest))) {
		f := frame{offset: at, length: s.number(), raw: s.number()}
		copy(f.sum[:], s.bytes(sha256.Size))
		f.stream, f.first = s.text(), s.number()
		if f.length > uint64(size) || f.raw > frameBytesMax {
			return nil, fmt.Errorf("%w: a frame of %d bytes, %d in it", ErrFormat, f.length, f.raw)
		}
		at += f.length
		h.frames = append(h.frames, f)
	}
	if s.bad || len(s.rest) > 0 || at != uint64(size) || h.kind != kindRows && h.kind != kindMarks || h.to <= h.from {
		return nil, fmt.Errorf("%w: its index says what can't be", ErrFormat)
	}
	return h, nil
}

// open decompresses a frame.
func (f *frame) open(data []byte) ([]byte, error) {
	if sha256.Sum256(data) != f.sum {
		return nil, fmt.Errorf("%w: a frame of it is damaged", ErrFormat)
	}
	_, dec := coders()
	raw, err := dec.DecodeAll(data, make([]byte, 0, f.raw))
	if err != nil || uint64(len(raw)) != f.raw {
		return nil, fmt.Errorf("%w: a frame of %d bytes holds %d, not %d (%v)", ErrFormat, len(data), len(raw), f.raw, err)
	}
	return raw, nil
}

func (h *head) rows(raw []byte) ([]store.Row, error) {
	var out []store.Row
	s := &scan{rest: raw}
	var before store.Row
	for len(s.rest) > 0 && !s.bad {
		r := store.Row{Tenant: h.tenant}
		var micros int64
		switch named := s.number(); {
		case named == 1:
			r.Stream, before = domain.StreamID(s.text()), store.Row{}
		case named == 0 && len(out) > 0:
			r.Stream, micros = before.Stream, before.At.UnixMicro()
		default:
			s.bad = true
		}
		r.Position = before.Position + store.Position(s.number())
		r.Version = before.Version + s.number()
		count := s.number()
		r.Version, r.Count = r.Version+count, uint32(count)
		r.At = time.UnixMicro(micros + s.signed()).UTC()
		if events := s.bytes(s.number()); len(events) > 0 {
			r.Events = events
		}
		if count == 0 || count != uint64(r.Count) || r.Position <= h.from || r.Position > h.to || r.Version < count {
			s.bad = true
		}
		before = r
		out = append(out, r)
	}
	if s.bad {
		return nil, fmt.Errorf("%w: a frame holds no rows", ErrFormat)
	}
	return out, nil
}

func (h *head) marks(raw []byte) ([]store.BatchMark, error) {
	var out []store.BatchMark
	s := &scan{rest: raw}
	var position store.Position
	var micros int64
	for len(s.rest) > 0 && !s.bad {
		position += store.Position(s.number())
		m := store.BatchMark{Partition: h.partition, Position: position, Epoch: s.number()}
		micros += s.signed()
		m.At = time.UnixMicro(micros).UTC()
		m.Digest = digestOf(s.bytes(sha256.Size))
		if position <= h.from || position > h.to {
			s.bad = true
		}
		out = append(out, m)
	}
	if s.bad {
		return nil, fmt.Errorf("%w: a frame holds no marks", ErrFormat)
	}
	return out, nil
}

func digestOf(sum []byte) domain.Digest { return domain.Digest("sha256:" + hex.EncodeToString(sum)) }

func sumOf(data []byte) domain.Digest {
	sum := sha256.Sum256(data)
	return digestOf(sum[:])
}

// DecodeRows reads a whole object of rows.
//
// Trust: the bytes may be anything.
func DecodeRows(data []byte) ([]store.Row, error) { return decodeAll(data, kindRows, (*head).rows) }

// DecodeMarks reads a whole object of marks.
//
// Trust: the bytes may be anything.
func DecodeMarks(data []byte) ([]store.BatchMark, error) {
	return decodeAll(data, kindMarks, (*head).marks)
}

func decodeAll[T any](data []byte, kind byte, decode func(*head, []byte) ([]T, error)) ([]T, error) {
	h, err := decodeHead(data, int64(len(data)))
	if err != nil {
		return nil, err
	}
	if h.kind != kind {
		return nil, fmt.Errorf("%w: it is of kind %q, not %q", ErrFormat, h.kind, kind)
	}
	var out []T
	for i := range h.frames {
		f := &h.frames[i]
		raw, err := f.open(data[f.offset : f.offset+f.length])
		if err != nil {
			return nil, err
		}
		some, err := decode(h, raw)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	if uint64(len(out)) != h.count || len(out) == 0 {
		return nil, fmt.Errorf("%w: it holds %d entries, not %d", ErrFormat, len(out), h.count)
	}
	return out, nil
}
