package logs

import (
	"bytes"
	"encoding/json"
	goflag "flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/logs/ansi"
	"github.com/fairlead-ci/fairlead/internal/testkit/frozen"
)

var rewrite = goflag.Bool("rewrite", false, "write golden files that don't exist yet")

func golden(name string, newest int) frozen.Form {
	return frozen.Form{Name: "testdata/frozen/" + name, Newest: newest, Rewrite: *rewrite}
}

// goldenText is golden for a form that is text.
func goldenText(name string) frozen.Form {
	f := golden(name, 1)
	f.Text = true
	return f
}

// spoken are chunks of two attempts with everything that a chunk can have.
func spoken() []Chunk {
	a, b := attempt(1), attempt(2)
	red := chunk(a, 1, "plain \x1b[1;31mred\n")
	on := chunk(a, 2, "still red, no line feed")
	cut := marked(a, 3, "truncated:step_log_bytes", 4096)
	fault := chunk(a, 4, "\x1b[0mfault \xff\x00\n")
	fault.Step, fault.Stream = 1, StreamErr
	own := chunk(a, 5, "the runner says\n")
	own.Step, own.Stream = StepRunner, StreamRunner
	lost := chunk(b, 9, "after a gap\n")
	lost.Epoch, lost.Mark, lost.Dropped = 3, "gap:spool_full", 77
	return []Chunk{red, on, cut, fault, own, lost}
}

const (
	spokenRaw   = "plain \x1b[1;31mred\nstill red, no line feed\x1b[0mfault \xff\x00\nthe runner says\n"
	spokenLines = "1@0 s0 plain \x1b[1;31mred\n2@17 s0 still red, no line feed\n" +
		"3@40 s0 [truncated:step_log_bytes 4096]\n4@40 s1 \x1b[0mfault \xff\x00\n5@53 s4294967295 the runner says\n"
	lostLines = "1@0 s0 [gap:spool_full 77]\n2@0 s0 after a gap\n"
)

// Open logs are in segments when a server is replaced, also those of a release long before.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenSegment(t *testing.T) {
	store := memory.New()
	push(t, open(t, store), spoken()...)
	keys := segments(t, store)
	if !slices.Equal(keys, []string{"segments/tnt_default/0000000000000001"}) {
		t.Fatalf("segments are %v", keys)
	}
	size, err := store.Size(t.Context(), keys[0])
	if err != nil {
		t.Fatal(err)
	}
	written, err := readRange(t.Context(), store, keys[0], 0, size)
	if err != nil {
		t.Fatal(err)
	}
	form := golden("segment", 1)
	form.Written(t, written)

	old := memory.New()
	put(t, old, keys[0], form.Read(t, 1))
	g := open(t, old)
	reads(t, reader(t, g, attempt(1)), spokenRaw, spokenLines)
	reads(t, reader(t, g, attempt(2)), "after a gap\n", lostLines)
	if ack := push(t, g, chunk(attempt(1), 6, "more")); ack.Through != 6 {
		t.Errorf("the log goes on with %+v", ack)
	}
}

func put(t *testing.T, store *memory.Store, key string, data []byte) {
	t.Helper()
	if err := store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

func reads(t *testing.T, l *Log, text, lines string) {
	t.Helper()
	if got := raw(t, l); got != text {
		t.Errorf("raw: %q", got)
	}
	if got := shown(window1(t, l, 1, 100)); got != lines {
		t.Errorf("lines:\n%s", got)
	}
}

// segmentTwo is a segment that supersedes others.
func segmentTwo() (*contents, [][]byte) {
	first, second := []byte("one\n"), []byte("two")
	s := func(sequence uint64, text []byte) span {
		out := span{sequence: sequence, epoch: 2, at: start.UnixMicro(), checksum: domain.Checksum(text), step: 300,
			stream: StreamErr}
		out.measure(text)
		out.style = ansi.Style{Text: 2, Ground: 200, Attributes: 5}.AsDelta()
		return out
	}
	c := &contents{tenant: tenant, attempts: []domain.AttemptID{attempt(1), attempt(2)},
		records: []record{{span: s(1, first)}, {span: s(1<<40, second), attempt: 1}},
		void:    []uint64{firstOf(7)}, folded: []uint64{firstOf(7) + 1, firstOf(8) + 300}}
	return c, [][]byte{first, second}
}

// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenSegmentThatSupersedesOthers(t *testing.T) {
	want, pieces := segmentTwo()
	form := golden("segment", 2)
	form.Written(t, bytes.Join(encodeSegment(want, pieces), nil))
	data, store := form.Read(t, 2), memory.New()
	put(t, store, "segments/x", data)
	got, err := readContents(t.Context(), store, "segments/x", int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is read as\n%+v\nnot\n%+v", got, want)
	}
	for i, r := range got.records {
		if text := data[r.data : r.data+int64(r.length)]; !bytes.Equal(text, pieces[i]) {
			t.Errorf("record %d is %q", i, text)
		}
	}
}

// What a chunk and a style can say is all in a record.
// Promises: [FORMAT-17].
func TestAFrozenSegmentHasEveryField(t *testing.T) {
	all, store := map[string]bool{}, memory.New()
	for _, form := range []int{1, 2} {
		data, key := golden("segment", form).Read(t, form), segmentKey(tenant, uint64(form))
		put(t, store, key, data)
		c, err := readContents(t.Context(), store, key, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.records {
			v := reflect.ValueOf(c.records[i].span)
			for f := range v.NumField() {
				name := v.Type().Field(f).Name
				all[name] = all[name] || !v.Field(f).IsZero()
			}
		}
	}
	for name, set := range all {
		if !set {
			t.Errorf("no record has a %s: if it is new, it needs a form of the next number", name)
		}
	}
}

// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenEra(t *testing.T) {
	form := goldenText("era")
	store := memory.New()
	put(t, store, segmentKey(tenant, 1), golden("segment", 1).Read(t, 1))
	g, err := Open(t.Context(), store, Config{Era: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	const key = "segment-eras/0000000000000005"
	size, err := store.Size(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	written, err := readRange(t.Context(), store, key, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	form.Written(t, written)

	old := memory.New()
	put(t, old, key, form.Read(t, 1))
	last, _, err := (&Gateway{store: old}).lastEra(t.Context())
	if want := (eraRecord{5, []string{"segments/tnt_default/0000000000000001"}}); err != nil ||
		!reflect.DeepEqual(*last, want) {
		t.Errorf("it is read as %+v, %v", last, err)
	}
}

// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenEvidence(t *testing.T) {
	store, a := memory.New(), attempt(1)
	g, err := Open(t.Context(), store, Config{Now: func() time.Time { return start.Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	other := chunk(a, 2, "another <text>\n")
	other.Epoch, other.Step, other.Stream, other.Mark = 4, 6, StreamErr, "truncated:step_log_bytes"
	push(t, g, chunk(a, 1, "a"), chunk(a, 2, "b"))
	push(t, g, other)
	found, err := store.List(t.Context(), "tnt_default/log-evidence/", "", 10)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	written, err := readRange(t.Context(), store, found[0].Key, 0, found[0].Size)
	if err != nil {
		t.Fatal(err)
	}
	form := goldenText("evidence")
	form.Written(t, written)
	const key = "tnt_default/log-evidence/01/att_01000000000000000000000001_0_1/" +
		"0000000000000002-944a19b156826c44-conflict"
	if found[0].Key != key {
		t.Errorf("its key is %s", found[0].Key)
	}

	old := memory.New()
	put(t, old, key, form.Read(t, 1))
	kept, err := (&Gateway{store: old}).Evidence(t.Context(), tenant, a)
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	want := Evidence{Attempt: a, Epoch: 4, Sequence: 2, Step: 6, Stream: StreamErr, At: other.At,
		Received: start.Add(time.Hour), Checksum: fmt.Sprintf("%016x", other.Checksum), Mark: other.Mark,
		Reason: "conflict", Bytes: len(other.Data), Data: other.Data}
	frozen.Full(t, want)
	if !reflect.DeepEqual(kept[0], want) {
		t.Errorf("it is read as %+v", kept[0])
	}
}

// sealedForm is a golden object: logs behind each other, and the references to them.
func sealedForm(t *testing.T) (data []byte, refs []Ref) {
	t.Helper()
	var made []Ref
	object := golden("sealed", 1)
	data = object.Once(t, func() []byte {
		store := memory.New()
		g := open(t, store)
		push(t, g, spoken()...)
		made = []Ref{seal(t, g, attempt(1), 7), seal(t, g, attempt(2), 9)}
		var all []byte
		for i := range made {
			one, err := readRange(t.Context(), store, made[i].Object, made[i].Offset, made[i].Length)
			if err != nil {
				t.Fatal(err)
			}
			made[i].Object, made[i].Offset = "object", int64(len(all))
			all = append(all, one...)
		}
		return all
	})
	text := goldenText("sealed-refs").Once(t, func() []byte {
		text, err := json.MarshalIndent(made, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return append(text, '\n')
	})
	if err := json.Unmarshal(text, &refs); err != nil {
		t.Fatal(err)
	}
	return data, refs
}

// A sealed log that was written by this release is read by all later ones, whatever the
// compressor writes then. Its key is no part of its form.
// Promises: [FORMAT-14], [FORMAT-4].
func TestFrozenSealedLogs(t *testing.T) {
	data, refs := sealedForm(t)
	store := memory.New()
	put(t, store, "object", data)
	g := open(t, store)
	for i, want := range []struct{ raw, lines string }{
		{spokenRaw, spokenLines + "6@69 s4294967295 [gap:missing:2 0]\n"}, {"after a gap\n", lostLines},
	} {
		l, err := g.Log(tenant, attempt(i+1), &refs[i])
		if err != nil {
			t.Fatal(err)
		}
		reads(t, l, want.raw, want.lines)
		if n, err := Examine(t.Context(), store, attempt(i+1), refs[i]); err != nil || n != refs[i].Length {
			t.Errorf("log %d: %d bytes, %v", i, n, err)
		}
		d, err := zstd.NewReader(bytes.NewReader(data[refs[i].Offset : refs[i].Offset+refs[i].Length]))
		if err != nil {
			t.Fatal(err)
		}
		var plain strings.Builder
		if _, err = d.WriteTo(&plain); err != nil || plain.String() != want.raw {
			t.Errorf("log %d: as a Zstandard file it is %q, %v", i, plain.String(), err)
		}
		d.Close()
	}
	if first := refs[0]; !first.Truncated || first.Gaps != 1 || first.Lines != 6 || first.Bytes != 69 ||
		refs[1].Gaps != 1 {
		t.Errorf("the references say %+v", refs)
	}
}

// frozenIndex is an index with a value in every field.
func frozenIndex() *index {
	at := cursor{offset: 300, lines: 2, step: 1, open: true,
		style: ansi.Style{Text: 3, Ground: 200, Attributes: 5}}
	return &index{
		tenant: tenant, attempt: attempt(3),
		tally: tally{
			cursor: cursor{offset: 1000, lines: 9, step: StepRunner, open: true,
				style: ansi.Style{Text: 1, Ground: 2, Attributes: 1}},
			steps: []StepRange{{0, 0, 300, 300, 1, 2}, {StepRunner, 300, 1000, 700, 3, 9}},
			marks: []Mark{{Line: 4, Offset: 310, Step: 1, Text: "gap:missing:3", Dropped: 70}},
			gaps:  1, truncated: true,
		},
		blocks: []block{
			{first: 1, last: 5, length: 300, time: start.UnixMicro(), place: 0, detail: 60, packed: 280, sum: 0xDEADBEEF},
			{at: at, first: 6, last: 1 << 40, length: 700, time: -1, place: 340, detail: 70, packed: 600, sum: 7},
		},
	}
}

// The index, with the skippable frame around it, does not depend on the compressor.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenIndex(t *testing.T) {
	var written bytes.Buffer
	p := &packer{w: &written, index: *frozenIndex()}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	form := golden("index", 1)
	form.Written(t, written.Bytes())

	const blocks = 1010 // bytes of the blocks before it
	object, store := append(make([]byte, blocks), form.Read(t, 1)...), memory.New()
	put(t, store, "object", object)
	got, err := readIndex(t.Context(), store, &Ref{Object: "object", Length: int64(len(object))})
	if err != nil || !reflect.DeepEqual(got, frozenIndex()) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
}

// What is said of the spans of a block does not depend on it either, before it is compressed.
// Promises: [FORMAT-14], [FORMAT-17].
func TestFrozenDetail(t *testing.T) {
	spans := []span{
		{sequence: 1, epoch: 1, at: start.UnixMicro(), length: 4, step: 0, stream: StreamOut},
		{sequence: 2, epoch: 1, at: start.UnixMicro() - 5, length: 300, step: 0, stream: StreamOut},
		{sequence: 9, epoch: 4, at: start.UnixMicro() + 70, step: StepRunner, stream: StreamRunner, mark: "gap:missing:6",
			dropped: 1 << 33},
	}
	codec := newCodec()
	encoder := codec.encoders.Get().(*zstd.Encoder)
	defer codec.encoders.Put(encoder)
	whole := encodeDetail(nil, encoder, spans, 123)
	text, err := codec.unpack(whole[20:], 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	head := slices.Concat(whole[:4], whole[8:20]) // without the length of what was compressed
	form, heads := golden("detail", 1), golden("detail-head", 1)
	form.Written(t, text)
	heads.Written(t, head)

	small := encoder.EncodeAll(form.Read(t, 1), nil)
	old := heads.Read(t, 1)
	stored := slices.Concat(old[:4], []byte{byte(12 + len(small)), 0, 0, 0}, old[4:], small)
	got, err := codec.decodeDetail(stored, 304)
	if err != nil || !reflect.DeepEqual(got, spans) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
}

// Keys that are looked for by what they name, not by a reference in history.
// Promises: [FORMAT-17].
func TestFrozenKeys(t *testing.T) {
	a := attempt(1)
	for want, got := range map[string]string{
		"segments/tnt_default/0000000700000001":                           segmentKey(tenant, firstOf(7)),
		"segment-eras/0000000000000007":                                   eraKey(7),
		"tnt_default/log-evidence/01/att_01000000000000000000000001_0_1/": evidencePrefix(tenant, a),
		"tnt_default/logs/01/att_01000000000000000000000001_0_1":          earlierKey(tenant, a),
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if got, number, ok := parseSegmentKey("segments/tnt_default/0000000700000001"); !ok || got != tenant ||
		number != firstOf(7) {
		t.Errorf("the key of a segment is of %s, number %d, %v", got, number, ok)
	}
}
