package logs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
)

// A sealed log is a Zstandard file that any decoder turns into the raw bytes: one frame per
// block, each behind a skippable frame that says whose bytes they are, and at the end a
// skippable frame with the index. The layout is in docs/reference/logs.md.
const (
	magicDetail  = 0x184D2A57 // of the sixteen magic numbers for skippable frames
	magicIndex   = 0x184D2A58
	skipHeader   = 8
	indexTrailer = 24
	indexEnd     = "FLLOGIDX"
	indexVersion = 1
	// detailBytesMax bounds a detail after decompression: 16 Ki spans of about 300 bytes.
	detailBytesMax = 8 << 20
)

// earlierKey names the object by which earlier releases sealed a log: creating it was what
// sealed, and its segments went at once.
func earlierKey(tenant domain.TenantID, attempt domain.AttemptID) string {
	return string(tenant) + "/logs/" + folder(attempt) + "/" + string(attempt)
}

// aloneKey names the object of a log that has one to itself. In earlier releases its folder
// was that of earlierKey.
func (l lot) aloneKey(attempt domain.AttemptID, number int) string {
	return fmt.Sprintf("%s%s/%s-%d", l.prefix(), folder(attempt), attempt, number)
}

// codec lends Zstandard encoders and decoders: making one costs more than using it. Each
// gateway has its own, so that nothing is shared between gateways (the library synchronises
// by channels, which must not cross the bubbles of a simulation).
type codec struct{ encoders, decoders sync.Pool }

func newCodec() *codec {
	c := &codec{}
	c.encoders.New = func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true),
			zstd.WithWindowSize(blockBytes), zstd.WithEncoderLevel(zstd.SpeedDefault))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	}
	c.decoders.New = func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(detailBytesMax))
		if err != nil {
			panic(err)
		}
		return d
	}
	return c
}

// unpack decompresses; size is what is expected, and no more than detailBytesMax can come.
func (c *codec) unpack(packed []byte, size int) ([]byte, error) {
	d := c.decoders.Get().(*zstd.Decoder)
	defer c.decoders.Put(d)
	return d.DecodeAll(packed, make([]byte, 0, size))
}

// index is what is known of a sealed log without its bytes.
type index struct {
	tenant  domain.TenantID
	attempt domain.AttemptID
	tally   tally
	blocks  []block
}

// packer writes a sealed log.
type packer struct {
	w       io.Writer
	written int64
	index   index
	track   ansi.Tracker
	codec   *codec
	encoder *zstd.Encoder

	start cursor // of the block that collects
	spans []span
	raw   []byte
	out   []byte
}

// newPacker makes a packer that expects about so many bytes of log.
func newPacker(w io.Writer, c *codec, tenant domain.TenantID, attempt domain.AttemptID, size int) *packer {
	return &packer{
		w: w, index: index{tenant: tenant, attempt: attempt}, codec: c,
		encoder: c.encoders.Get().(*zstd.Encoder), raw: make([]byte, 0, min(size, blockBytes)),
	}
}

func (p *packer) close() { p.codec.encoders.Put(p.encoder) }

// add appends a span. It is cut where a block is full; its mark stays on its side.
func (p *packer) add(s span, text []byte) error {
	if s.step != p.index.tally.step {
		p.track = ansi.Tracker{}
	}
	mark, dropped := s.mark, s.dropped
	for first := true; first || len(text) > 0; first = false {
		n := min(len(text), blockBytes-len(p.raw))
		s.measure(text[:n])
		s.mark, s.dropped = "", 0
		if gapMark(mark) && first || !gapMark(mark) && n == len(text) {
			s.mark, s.dropped = mark, dropped
		}
		s.style = ansi.Delta{}
		if n > 0 {
			p.track.Feed(text[:n])
			s.style = p.track.Style.AsDelta()
		}
		p.index.tally.advance(&s)
		p.spans = append(p.spans, s)
		p.raw = append(p.raw, text[:n]...)
		text = text[n:]
		if len(p.raw) == blockBytes || len(p.spans) == blockSpansMax {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes the block that was collected.
func (p *packer) flush() error {
	if len(p.spans) == 0 {
		return nil
	}
	var packed []byte
	if len(p.raw) > 0 {
		packed = p.encoder.EncodeAll(p.raw, nil)
	}
	p.out = encodeDetail(p.out[:0], p.encoder, p.spans, len(packed))
	b := block{
		at: p.start, first: p.spans[0].sequence, last: p.spans[len(p.spans)-1].sequence,
		length: int64(len(p.raw)), time: p.spans[0].at, place: p.written,
		detail: uint32(len(p.out)), packed: uint32(len(packed)),
	}
	b.sum = crc32.Update(crc32.Checksum(p.out, castagnoli), castagnoli, packed)
	p.index.blocks = append(p.index.blocks, b)
	p.start, p.spans, p.raw = p.index.tally.cursor, p.spans[:0], p.raw[:0]
	if err := p.write(p.out); err != nil {
		return err
	}
	return p.write(packed)
}

func (p *packer) write(b []byte) error {
	n, err := p.w.Write(b)
	p.written += int64(n)
	return err
}

// finish writes the index.
func (p *packer) finish() error {
	if err := p.flush(); err != nil {
		return err
	}
	text := p.index.encode()
	b := binary.LittleEndian.AppendUint32(nil, magicIndex)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)+indexTrailer))
	b = append(b, text...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(text, castagnoli))
	b = binary.LittleEndian.AppendUint64(b, indexVersion)
	return p.write(append(b, indexEnd...))
}

// encodeDetail writes the skippable frame before a block.
func encodeDetail(b []byte, encoder *zstd.Encoder, spans []span, packed int) []byte {
	var text []byte
	prev := span{}
	for i := range spans {
		s := &spans[i]
		var flags byte
		if s.step != prev.step || s.stream != prev.stream {
			flags |= 1
		}
		if s.mark != "" {
			flags |= 2
		}
		if s.sequence != prev.sequence+1 || s.epoch != prev.epoch {
			flags |= 4
		}
		text = append(binary.AppendUvarint(text, uint64(s.length)), flags)
		text = binary.AppendVarint(text, s.at-prev.at)
		if flags&1 != 0 {
			text = append(binary.AppendUvarint(text, uint64(s.step)), s.stream)
		}
		if flags&2 != 0 {
			text = binary.AppendUvarint(appendText(text, s.mark), s.dropped)
		}
		if flags&4 != 0 {
			text = binary.AppendUvarint(binary.AppendUvarint(text, s.sequence), s.epoch)
		}
		prev = *s
	}
	small := encoder.EncodeAll(text, nil)
	b = binary.LittleEndian.AppendUint32(b, magicDetail)
	b = binary.LittleEndian.AppendUint32(b, uint32(12+len(small)))
	b = binary.LittleEndian.AppendUint32(b, uint32(packed))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(spans)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	return append(b, small...)
}

// decodeDetail reads what encodeDetail wrote for a block of that many bytes.
//
// Trust: b may be damaged in any way.
func (c *codec) decodeDetail(b []byte, length int64) ([]span, error) {
	malformed := errors.New("malformed detail of a block")
	if len(b) < skipHeader+12 || binary.LittleEndian.Uint32(b) != magicDetail {
		return nil, malformed
	}
	count, size := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	if count > blockSpansMax || size > detailBytesMax {
		return nil, malformed
	}
	text, err := c.unpack(b[20:], int(min(size, 1<<20)))
	if err != nil || len(text) != int(size) {
		return nil, malformed
	}
	d := decoder{rest: text}
	spans := make([]span, 0, count)
	prev, total := span{}, int64(0)
	for range count {
		s := span{step: prev.step, stream: prev.stream, sequence: prev.sequence + 1, epoch: prev.epoch}
		s.length = uint32(d.uvarint(blockBytes))
		flags := d.byte()
		s.at = prev.at + d.varint()
		if flags&1 != 0 {
			s.step, s.stream = uint32(d.uvarint(1<<32-1)), d.byte()
		}
		if flags&2 != 0 {
			s.mark, s.dropped = d.text(MarkBytesMax), d.uvarint(anyNumber)
		}
		if flags&4 != 0 {
			s.sequence, s.epoch = d.uvarint(anyNumber), d.uvarint(anyNumber)
		}
		total += int64(s.length)
		spans = append(spans, s)
		prev = s
	}
	if d.failed || len(d.rest) > 0 || total != length {
		return nil, malformed
	}
	return spans, nil
}

func (x *index) encode() []byte {
	b := appendText(nil, string(x.tenant))
	b = appendText(b, string(x.attempt))
	t := &x.tally
	b = appendCursor(b, &t.cursor)
	b = binary.AppendUvarint(b, uint64(t.gaps))
	b = append(b, flag(t.truncated))
	b = binary.AppendUvarint(b, uint64(len(t.steps)))
	for _, s := range t.steps {
		b = binary.AppendUvarint(b, uint64(s.Step))
		for _, v := range [...]int64{s.From, s.To, s.Bytes, s.FirstLine, s.LastLine} {
			b = binary.AppendUvarint(b, uint64(v))
		}
	}
	b = binary.AppendUvarint(b, uint64(len(t.marks)))
	for _, m := range t.marks {
		b = binary.AppendUvarint(b, uint64(m.Line))
		b = binary.AppendUvarint(b, uint64(m.Offset))
		b = binary.AppendUvarint(b, uint64(m.Step))
		b = binary.AppendUvarint(appendText(b, m.Text), m.Dropped)
	}
	b = binary.AppendUvarint(b, uint64(len(x.blocks)))
	for i := range x.blocks {
		k := &x.blocks[i]
		b = appendCursor(b, &k.at)
		b = binary.AppendUvarint(b, k.first)
		b = binary.AppendUvarint(b, k.last)
		b = binary.AppendVarint(b, k.time)
		b = binary.AppendUvarint(b, uint64(k.length))
		b = binary.AppendUvarint(b, uint64(k.detail))
		b = binary.AppendUvarint(b, uint64(k.packed))
		b = binary.LittleEndian.AppendUint32(b, k.sum)
	}
	return b
}

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

func appendCursor(b []byte, c *cursor) []byte {
	b = binary.AppendUvarint(b, uint64(c.offset))
	b = binary.AppendUvarint(b, uint64(c.lines))
	b = binary.AppendUvarint(b, uint64(c.step))
	b = append(b, flag(c.open))
	b = binary.AppendUvarint(b, uint64(c.style.Text))
	b = binary.AppendUvarint(b, uint64(c.style.Ground))
	return append(b, c.style.Attributes)
}

func (d *decoder) cursor() cursor {
	return cursor{
		offset: int64(d.uvarint(1 << 60)), lines: int64(d.uvarint(1 << 60)), step: uint32(d.uvarint(1<<32 - 1)),
		open: d.byte() == 1,
		style: ansi.Style{
			Text: ansi.Color(d.uvarint(256)), Ground: ansi.Color(d.uvarint(256)), Attributes: d.byte(),
		},
	}
}

// decodeIndex reads an index; end is where it begins in the object, so where blocks end.
//
// Trust: text may be damaged in any way.
func decodeIndex(text []byte, end int64) (*index, error) {
	d := decoder{rest: text}
	x := &index{tenant: domain.TenantID(d.text(64)), attempt: domain.AttemptID(d.text(128))}
	t := &x.tally
	t.cursor = d.cursor()
	t.gaps, t.truncated = int(d.uvarint(1<<60)), d.byte() == 1
	for range d.uvarint(StepsMax + 1) {
		s := StepRange{Step: uint32(d.uvarint(1<<32 - 1))}
		for _, v := range [...]*int64{&s.From, &s.To, &s.Bytes, &s.FirstLine, &s.LastLine} {
			*v = int64(d.uvarint(1 << 60))
		}
		t.steps = append(t.steps, s)
	}
	for range d.uvarint(marksMax) {
		m := Mark{Line: int64(d.uvarint(1 << 60)), Offset: int64(d.uvarint(1 << 60)), Step: uint32(d.uvarint(1<<32 - 1))}
		m.Text, m.Dropped = d.text(MarkBytesMax), d.uvarint(anyNumber)
		t.marks = append(t.marks, m)
	}
	offset, place := int64(0), int64(0)
	for range d.uvarint(uint64(len(text))) {
		k := block{at: d.cursor(), place: place}
		k.first, k.last, k.time = d.uvarint(anyNumber), d.uvarint(anyNumber), d.varint()
		k.length, k.detail = int64(d.uvarint(blockBytes)), uint32(d.uvarint(2*detailBytesMax))
		k.packed = uint32(d.uvarint(2 * blockBytes))
		if sum := d.bytes(4); sum != nil {
			k.sum = binary.LittleEndian.Uint32(sum)
		}
		if d.failed || k.at.offset != offset || k.detail < skipHeader || k.at.lines > t.lines {
			return nil, errors.New("malformed index")
		}
		offset += k.length
		place += int64(k.detail) + int64(k.packed)
		x.blocks = append(x.blocks, k)
	}
	sorted := slices.IsSortedFunc(x.blocks, func(a, b block) int { return cmp.Compare(a.at.lines, b.at.lines) })
	if d.failed || len(d.rest) > 0 || offset != t.offset || place != end || !sorted {
		return nil, errors.New("malformed index")
	}
	return x, nil
}

// readIndex reads the index of a sealed log.
func readIndex(ctx context.Context, store blob.Store, ref *Ref) (*index, error) {
	damage := func(offset int64, why string) error {
		return &Damage{Object: ref.Object, Offset: ref.Offset + offset, Why: why}
	}
	if ref.Length < skipHeader+indexTrailer {
		return nil, damage(0, "shorter than an index")
	}
	from := max(ref.Length-tailBytes, 0)
	tail, err := readRange(ctx, store, ref.Object, ref.Offset+from, ref.Length-from)
	if err != nil {
		return nil, err
	}
	end := tail[len(tail)-indexTrailer:]
	size := int64(binary.LittleEndian.Uint32(end))
	start := ref.Length - indexTrailer - size - skipHeader
	switch {
	case string(end[16:]) != indexEnd:
		return nil, damage(ref.Length-indexTrailer, "no index")
	case binary.LittleEndian.Uint64(end[8:]) != indexVersion:
		return nil, damage(ref.Length-indexTrailer, "an index of another version")
	case size > indexBytesMax || start < 0:
		return nil, damage(ref.Length-indexTrailer, "the index does not add up")
	}
	text := tail[:len(tail)-indexTrailer]
	if int64(len(text)) >= size {
		text = text[int64(len(text))-size:]
	} else if text, err = readRange(ctx, store, ref.Object, ref.Offset+start+skipHeader, size); err != nil {
		return nil, err
	}
	if crc32.Checksum(text, castagnoli) != binary.LittleEndian.Uint32(end[4:]) {
		return nil, damage(start, "the index has another checksum")
	}
	x, err := decodeIndex(text, start)
	if err != nil {
		return nil, damage(start, err.Error())
	}
	return x, nil
}

// decodeBlock reads a stored block: its detail and its frame.
//
// Trust: stored may be damaged in any way.
func (c *codec) decodeBlock(b *block, stored []byte) (*loaded, error) {
	if crc32.Checksum(stored, castagnoli) != b.sum || len(stored) != int(b.detail)+int(b.packed) {
		return nil, errors.New("a block has another checksum")
	}
	spans, err := c.decodeDetail(stored[:b.detail], b.length)
	if err != nil {
		return nil, err
	}
	var raw []byte
	if b.packed > 0 {
		if raw, err = c.unpack(stored[b.detail:], int(b.length)); err != nil {
			return nil, fmt.Errorf("unpack a block: %w", err)
		}
	}
	if int64(len(raw)) != b.length {
		return nil, errors.New("a block has another length")
	}
	l := &loaded{block: *b, spans: spans}
	for i := range spans {
		n := int(spans[i].length)
		l.pieces = append(l.pieces, raw[:n:n])
		spans[i].ended = n > 0 && raw[n-1] == '\n'
		spans[i].newlines = uint32(bytes.Count(raw[:n], []byte{'\n'}))
		raw = raw[n:]
	}
	return l, nil
}

// sealedLoad reads a block of a sealed log, from the shelf or from its object.
func (g *Gateway) sealedLoad(ctx context.Context, ref *Ref, b *block) (*loaded, error) {
	at := place{ref.Object, ref.Offset + b.place}
	if l, ok := g.shelf.take(at); ok {
		return l.(*loaded), nil
	}
	stored, err := readRange(ctx, g.store, ref.Object, at.part, int64(b.detail)+int64(b.packed))
	if err != nil {
		return nil, g.expired(ctx, ref.Object, err)
	}
	l, err := g.codec.decodeBlock(b, stored)
	if err != nil {
		return nil, &Damage{Object: ref.Object, Offset: at.part, Why: err.Error()}
	}
	g.shelf.put(at, l, l.cost())
	return l, nil
}
