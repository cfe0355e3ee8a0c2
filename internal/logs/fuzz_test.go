package logs

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// segmentOf encodes chunks of one attempt.
func segmentOf(chunks ...Chunk) []byte {
	p := split(chunks)[0]
	table := contents{tenant: tenant, attempts: []domain.AttemptID{chunks[0].Attempt}}
	var pieces [][]byte
	for _, it := range p.items {
		table.records = append(table.records, record{span: it.span})
		pieces = append(pieces, it.content)
	}
	b, _ := io.ReadAll(&gather{encodeSegment(&table, pieces)})
	return b
}

// fixSegment makes the trailer's checksum right again, so that the fuzzer gets past it.
func fixSegment(b []byte) {
	if len(b) < segmentTrailer {
		return
	}
	end := b[len(b)-segmentTrailer:]
	at, n := binary.LittleEndian.Uint64(end), uint64(binary.LittleEndian.Uint32(end[8:]))
	if at < uint64(len(b)) && n <= uint64(len(b))-at {
		binary.LittleEndian.PutUint32(end[12:], crc32.Checksum(b[at:at+n], castagnoli))
	}
}

// Whatever a segment holds, the gateway opens, and what it then says is consistent.
func FuzzSegment(f *testing.F) {
	a := attempt(1)
	gap := chunk(a, 9, "gap\n")
	gap.Mark = "gap:x"
	f.Add(segmentOf(chunk(a, 1, "one\n"), chunk(a, 2, "\x1b[31mtwo")))
	f.Add(segmentOf(chunk(a, 2, "two"), gap))
	f.Add([]byte(segmentEnd))
	f.Fuzz(func(t *testing.T, b []byte) {
		fixSegment(b)
		store := memory.New()
		if err := store.Put(t.Context(), segmentKey(tenant, 1), bytes.NewReader(b), -1); err != nil {
			t.Fatal(err)
		}
		g, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range g.Live() {
			readAll(t, g, l.Attempt, l.Bytes)
			if ref, err := g.Seal(t.Context(), tenant, l.Attempt, domain.ClassBatch, SequenceUnknown); err != nil {
				t.Fatalf("seal %+v: %v", ref, err)
			}
			readAll(t, g, l.Attempt, -1)
		}
	})
}

// readAll reads a log in every way; only damage may come of it.
func readAll(t *testing.T, g *Gateway, a domain.AttemptID, size int64) {
	l := reader(t, g, a)
	totals, err := l.Totals(t.Context())
	if err != nil || size >= 0 && totals.Bytes != size {
		t.Fatalf("totals = %+v, %v, want %d bytes", totals, err, size)
	}
	for from := int64(0); ; {
		n, err := l.Raw(t.Context(), io.Discard, from, -1)
		if err == nil {
			if from+n != totals.Bytes {
				t.Fatalf("read to %d of %d", from+n, totals.Bytes)
			}
			break
		}
		damage, ok := err.(*Damage)
		if !ok || damage.Next <= from {
			t.Fatalf("raw from %d: %v", from, err)
		}
		from = damage.Next
	}
	if _, err := l.Lines(t.Context(), 1, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Search(t.Context(), []byte("o"), 1, 3); err != nil {
		t.Fatal(err)
	}
}

// Whatever a sealed object holds, reading it ends, with damage at worst.
func FuzzObject(f *testing.F) {
	seed := func(chunks ...Chunk) {
		store := memory.New()
		g := open(f, store)
		push(f, g, chunks...)
		ref := seal(f, g, chunks[0].Attempt, 3)
		b, err := readRange(f.Context(), store, ref.Object, 0, ref.Length)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	a := attempt(1)
	seed(chunk(a, 1, "one\n"), chunk(a, 2, "\x1b[31mtwo\nthree"))
	seed(marked(a, 1, "truncated:x", 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		fixObject(b)
		store := memory.New()
		key := lotAt(tenant, domain.ClassBatch, time.Unix(0, 0)).aloneKey(a, 1)
		if err := store.Put(t.Context(), key, bytes.NewReader(b), -1); err != nil {
			t.Fatal(err)
		}
		g, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ref := Ref{Object: key, Length: int64(len(b))}
		if _, err := readIndex(t.Context(), store, &ref); err != nil {
			return
		}
		l, err := g.Log(tenant, a, &ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Totals(t.Context()); err != nil {
			return // of another attempt
		}
		_, _ = l.Raw(t.Context(), io.Discard, 0, -1)
		if lines, err := l.Lines(t.Context(), 1, 100); err != nil {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		for range l.Follow(t.Context(), 0) {
		}
	})
}

// fixObject makes the index's checksum right again.
func fixObject(b []byte) {
	if len(b) < indexTrailer {
		return
	}
	end := b[len(b)-indexTrailer:]
	n := uint64(binary.LittleEndian.Uint32(end))
	if rest := uint64(len(b) - indexTrailer); n <= rest {
		binary.LittleEndian.PutUint32(end[4:], crc32.Checksum(b[rest-n:rest], castagnoli))
	}
}

// The detail of a block decodes to what adds up, or to an error.
func FuzzDetail(f *testing.F) {
	c := newCodec()
	p := newPacker(io.Discard, c, tenant, attempt(1), 100)
	spans := []span{
		{sequence: 1, step: 0, stream: 1, length: 3}, {sequence: 2, step: 1, stream: 2, mark: "gap:x", dropped: 9},
	}
	f.Add(encodeDetail(nil, p.encoder, spans, 100), int64(3))
	f.Fuzz(func(t *testing.T, b []byte, length int64) {
		spans, err := c.decodeDetail(b, length)
		if err != nil {
			return
		}
		for i := range spans {
			length -= int64(spans[i].length)
		}
		if length != 0 {
			t.Errorf("%d bytes unaccounted for", length)
		}
	})
}
