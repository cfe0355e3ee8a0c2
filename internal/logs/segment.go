package logs

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
)

// A segment is: header, the bytes of its chunks one after another, a table of contents that
// says whose they are, a trailer. The layout is in docs/reference/logs.md.
const (
	segmentMagic   = "FLSEG\x00\x01\x00" // the last two bytes are the version
	segmentMagic2  = "FLSEG\x00\x02\x00" // with a list of superseded segments
	segmentHeader  = 16
	segmentTrailer = 32
	segmentEnd     = "FLSEGEND"
	// recordBytesMin is the least a record takes, so that a count cannot make us allocate more
	// than a few times what is stored.
	recordBytesMin = 18
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is a span in a segment.
type record struct {
	span
	attempt int   // index in the table's attempts
	data    int64 // offset of the bytes in the segment
}

// contents is the table of contents of a segment.
type contents struct {
	tenant   domain.TenantID
	attempts []domain.AttemptID
	records  []record
	// void are segments that count for nothing now that this one is there: their writes
	// failed for their callers. folded are segments whose chunks of these attempts are in
	// this one. Only holders that take turns write them (see era.go).
	void, folded []uint64
	// skip, while logs are recovered, names attempts whose records here are superseded.
	skip func(domain.AttemptID) bool
}

// flagSupersedes, in the trailer, says that the table ends with void and folded.
const flagSupersedes = 1

// segmentPrefix is where the segments of a tenant are, "" for those of all tenants. They have
// a root of their own, so that start-up lists them without walking over everything else.
func segmentPrefix(tenant domain.TenantID) string {
	if tenant == "" {
		return "segments/"
	}
	return "segments/" + string(tenant) + "/"
}

// segmentKey sorts by number, and the number grows: key order is the order of writing.
func segmentKey(tenant domain.TenantID, number uint64) string {
	return fmt.Sprintf("%s%016x", segmentPrefix(tenant), number)
}

// encodeSegment gives the parts of a segment in order. The records' data offsets are set.
func encodeSegment(c *contents, pieces [][]byte) [][]byte {
	header := make([]byte, segmentHeader)
	copy(header, segmentMagic)
	flags := uint64(0)
	if c.supersedes() {
		copy(header, segmentMagic2)
		flags = flagSupersedes
	}
	at := int64(segmentHeader)
	for i := range c.records {
		c.records[i].data = at
		at += int64(c.records[i].length)
	}
	toc := c.encode()
	end := make([]byte, 0, segmentTrailer)
	end = binary.LittleEndian.AppendUint64(end, uint64(at))
	end = binary.LittleEndian.AppendUint32(end, uint32(len(toc)))
	end = binary.LittleEndian.AppendUint32(end, crc32.Checksum(toc, castagnoli))
	end = binary.LittleEndian.AppendUint64(end, flags)
	end = append(end, segmentEnd...)
	return slices.Concat([][]byte{header}, pieces, [][]byte{toc, end})
}

func (c *contents) encode() []byte {
	b := make([]byte, 0, 256+40*len(c.records))
	b = appendText(b, string(c.tenant))
	b = binary.AppendUvarint(b, uint64(len(c.attempts)))
	for _, a := range c.attempts {
		b = appendText(b, string(a))
	}
	b = binary.AppendUvarint(b, uint64(len(c.records)))
	for i := range c.records {
		b = c.records[i].encode(b)
	}
	if c.supersedes() {
		for _, numbers := range [][]uint64{c.void, c.folded} {
			b = binary.AppendUvarint(b, uint64(len(numbers)))
			for _, n := range numbers {
				b = binary.AppendUvarint(b, n)
			}
		}
	}
	return b
}

func (c *contents) supersedes() bool { return len(c.void)+len(c.folded) > 0 }

func (r *record) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.attempt))
	b = binary.AppendUvarint(b, r.epoch)
	b = binary.AppendUvarint(b, r.sequence)
	b = binary.AppendUvarint(b, uint64(r.step))
	b = append(b, r.stream)
	b = binary.AppendVarint(b, r.at)
	b = binary.AppendUvarint(b, uint64(r.length))
	b = binary.LittleEndian.AppendUint64(b, r.checksum)
	b = binary.AppendUvarint(b, uint64(r.newlines))
	var ended byte
	if r.ended {
		ended = 1
	}
	b = append(b, ended)
	b = appendText(b, r.mark)
	b = binary.AppendUvarint(b, r.dropped)
	return r.style.Append(b)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// decoder reads what the encoders of this package write. The first malformed field makes
// every later one zero; failed says so at the end.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) fail() { d.failed, d.rest = true, nil }

func (d *decoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > limit {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) text(limit uint64) string { return string(d.bytes(d.uvarint(limit))) }

func (d *decoder) delta() ansi.Delta {
	delta, rest, err := ansi.DecodeDelta(d.rest)
	if err != nil {
		d.fail()
		return ansi.Delta{}
	}
	d.rest = rest
	return delta
}

const anyNumber = ^uint64(0)

// decodeContents reads a table of contents whose data ends at dataEnd.
//
// Trust: toc may be damaged in any way; it is checked in full.
func decodeContents(toc []byte, dataEnd int64, flags uint64) (*contents, error) {
	d := decoder{rest: toc}
	c := &contents{tenant: domain.TenantID(d.text(64))}
	for range d.uvarint(uint64(len(toc))) {
		attempt := domain.AttemptID(d.text(128))
		if _, _, _, ok := attempt.Split(); !ok {
			return nil, errors.New("malformed attempt")
		}
		c.attempts = append(c.attempts, attempt)
	}
	count := d.uvarint(uint64(len(toc)))
	c.records = make([]record, 0, min(count, uint64(len(d.rest)/recordBytesMin)+1))
	at := int64(segmentHeader)
	for i := uint64(0); i < count && !d.failed; i++ {
		r := d.record()
		if r.attempt >= len(c.attempts) {
			return nil, errors.New("record of an unknown attempt")
		}
		r.data = at
		at += int64(r.length)
		c.records = append(c.records, r)
	}
	if flags&flagSupersedes != 0 {
		c.void, c.folded = d.numbers(), d.numbers()
	}
	switch {
	case flags&^flagSupersedes != 0:
		return nil, errors.New("written by a later release")
	case d.failed || len(d.rest) > 0:
		return nil, errors.New("malformed table of contents")
	case at != dataEnd:
		return nil, errors.New("the table of contents does not add up")
	}
	return c, nil
}

// numbers reads a list of segments.
func (d *decoder) numbers() []uint64 {
	count := d.uvarint(uint64(len(d.rest)))
	numbers := make([]uint64, 0, min(count, uint64(len(d.rest))))
	for i := uint64(0); i < count && !d.failed; i++ {
		numbers = append(numbers, d.uvarint(anyNumber))
	}
	return numbers
}

func (d *decoder) record() record {
	var r record
	r.attempt = int(d.uvarint(1 << 31))
	r.epoch = d.uvarint(anyNumber)
	r.sequence = d.uvarint(anyNumber)
	r.step = uint32(d.uvarint(1<<32 - 1))
	r.stream = d.byte()
	r.at = d.varint()
	r.length = uint32(d.uvarint(ChunkBytesMax))
	r.checksum = d.uint64()
	r.newlines = uint32(d.uvarint(uint64(r.length)))
	r.ended = d.byte() == 1
	r.mark = d.text(MarkBytesMax)
	r.dropped = d.uvarint(anyNumber)
	r.style = d.delta()
	return r
}

// readContents reads the table of contents of a stored segment of that size.
func readContents(ctx context.Context, store blob.Store, key string, size int64) (*contents, error) {
	damage := func(offset int64, why string) error { return &Damage{Object: key, Offset: offset, Why: why} }
	if size < segmentHeader+segmentTrailer {
		return nil, damage(0, "shorter than a segment")
	}
	tail, err := readRange(ctx, store, key, max(size-tailBytes, 0), min(size, tailBytes))
	if err != nil {
		return nil, err
	}
	end := tail[len(tail)-segmentTrailer:]
	if string(end[24:]) != segmentEnd {
		return nil, damage(size-segmentTrailer, "no trailer")
	}
	at, length := binary.LittleEndian.Uint64(end), int64(binary.LittleEndian.Uint32(end[8:]))
	if length > tocBytesMax || at != uint64(size-segmentTrailer-length) || at < segmentHeader {
		return nil, damage(size-segmentTrailer, "the trailer does not add up")
	}
	toc := tail[:len(tail)-segmentTrailer]
	if int64(len(toc)) >= length {
		toc = toc[int64(len(toc))-length:]
	} else if toc, err = readRange(ctx, store, key, int64(at), length); err != nil {
		return nil, err
	}
	if crc32.Checksum(toc, castagnoli) != binary.LittleEndian.Uint32(end[12:]) {
		return nil, damage(int64(at), "the table of contents has another checksum")
	}
	c, err := decodeContents(toc, int64(at), binary.LittleEndian.Uint64(end[16:]))
	if err != nil {
		return nil, damage(int64(at), err.Error())
	}
	return c, nil
}

// readRange reads exactly length bytes; fewer are damage.
func readRange(ctx context.Context, store blob.Store, key string, offset, length int64) ([]byte, error) {
	r, err := store.Open(ctx, key, offset, length)
	if err != nil {
		return nil, fmt.Errorf("read log object %s: %w", key, err)
	}
	b := make([]byte, length)
	n, err := io.ReadFull(r, b)
	if err = errors.Join(err, r.Close()); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &Damage{Object: key, Offset: offset + int64(n), Why: "ends too early"}
	}
	if err != nil {
		return nil, fmt.Errorf("read log object %s: %w", key, err)
	}
	return b, nil
}

// gather reads many pieces as one stream without joining them first.
type gather struct{ pieces [][]byte }

func (g *gather) size() int64 {
	var n int64
	for _, p := range g.pieces {
		n += int64(len(p))
	}
	return n
}

// Read implements io.Reader.
func (g *gather) Read(b []byte) (int, error) {
	for len(g.pieces) > 0 {
		if n := copy(b, g.pieces[0]); n > 0 {
			g.pieces[0] = g.pieces[0][n:]
			return n, nil
		}
		if len(b) == 0 {
			return 0, nil
		}
		g.pieces = g.pieces[1:]
	}
	return 0, io.EOF
}

// writers join small pieces. A segment of a few lines is not worth a buffer of its own.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// WriteTo implements io.WriterTo: large pieces go out as they are, small ones are joined.
func (g *gather) WriteTo(w io.Writer) (int64, error) {
	b := writers.Get().(*bufio.Writer)
	b.Reset(w)
	defer func() {
		b.Reset(nil)
		writers.Put(b)
	}()
	var n int64
	for ; len(g.pieces) > 0; g.pieces = g.pieces[1:] {
		k, err := b.Write(g.pieces[0])
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, b.Flush()
}
