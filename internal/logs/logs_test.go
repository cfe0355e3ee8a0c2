package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob"
	"github.com/fairlead-ci/fairlead/internal/blob/file"
	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

const tenant = domain.DefaultTenant

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// attempt makes a well-formed attempt identifier.
func attempt(n int) domain.AttemptID {
	run := domain.RunID(domain.EncodeID(domain.PrefixRun, [16]byte{1, 15: byte(n), 14: byte(n >> 8)}))
	return run.Job(0).Attempt(1)
}

func chunk(a domain.AttemptID, sequence uint64, text string) Chunk {
	return Chunk{
		Tenant: tenant, Attempt: a, Epoch: 1, Sequence: sequence, Stream: StreamOut,
		At: start.Add(time.Duration(sequence) * time.Second), Data: []byte(text), Checksum: domain.Checksum([]byte(text)),
	}
}

func marked(a domain.AttemptID, sequence uint64, mark string, dropped uint64) Chunk {
	c := chunk(a, sequence, "")
	c.Mark, c.Dropped = mark, dropped
	return c
}

func open(t testing.TB, store blob.Store) *Gateway {
	t.Helper()
	g, err := Open(context.Background(), store, Config{foldCount: 5, Recorded: historyOf(store).find})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// push appends and demands that everything is taken.
func push(t testing.TB, g *Gateway, chunks ...Chunk) Ack {
	t.Helper()
	acks, err := g.Append(context.Background(), chunks)
	if err != nil {
		t.Fatal(err)
	}
	if acks[0].Refused != nil {
		t.Fatal(acks[0].Refused)
	}
	return acks[0]
}

// history is what a run's history knows of sealed logs.
type history struct{ refs sync.Map }

var histories sync.Map // by the store of the logs

func historyOf(store blob.Store) *history {
	h, _ := histories.LoadOrStore(store, &history{})
	return h.(*history)
}

func (h *history) find(_ context.Context, tenant domain.TenantID, a domain.AttemptID) (*Ref, error) {
	if ref, ok := h.refs.Load(logID{tenant, a}); ok {
		return ref.(*Ref), nil
	}
	return nil, nil
}

// copyOf is the store as a crash leaves it, with the same history.
func copyOf(store *memory.Store) *memory.Store {
	other := store.Clone()
	histories.Store(other, historyOf(store))
	return other
}

// seal closes a log and records that in history.
func seal(t testing.TB, g *Gateway, a domain.AttemptID, end uint64) Ref {
	t.Helper()
	ref, err := g.Seal(context.Background(), tenant, a, domain.ClassBatch, end)
	if err != nil {
		t.Fatal(err)
	}
	noteSeal(g, a, ref)
	return ref
}

// tellSeals tells the gateway of the seals that history knows, as the sealer does.
func tellSeals(t testing.TB, g *Gateway) {
	t.Helper()
	for _, l := range g.Live() {
		if ref, _ := historyOf(g.store).find(t.Context(), l.Tenant, l.Attempt); ref != nil {
			noteSeal(g, l.Attempt, *ref)
		}
	}
}

// noteSeal tells history and the gateway of a seal, and waits until the gateway has tidied up.
func noteSeal(g *Gateway, a domain.AttemptID, ref Ref) {
	historyOf(g.store).refs.Store(logID{tenant, a}, &ref)
	g.Recorded(tenant, a, ref)
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.work > 0 {
		if g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mu.Unlock()
		<-idle
		g.mu.Lock()
	}
}

func reader(t testing.TB, g *Gateway, a domain.AttemptID) *Log {
	t.Helper()
	l, err := g.Log(tenant, a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func raw(t testing.TB, l *Log) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := l.Raw(context.Background(), &b, 0, -1); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shown writes lines as a test wants to read them.
func shown(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d@%d s%d %s", l.Number, l.Offset, l.Step, l.Text)
		if l.Mark != "" {
			fmt.Fprintf(&b, "[%s %d]", l.Mark, l.Dropped)
		}
		if l.Open {
			b.WriteString("…")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func window1(t testing.TB, l *Log, from int64, count int) []Line {
	t.Helper()
	lines, err := l.Lines(context.Background(), from, count)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func segments(t testing.TB, store blob.Store) []string {
	t.Helper()
	entries, err := store.List(context.Background(), "segments/", "", 10_000)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

// Promises: [LOG-5].
func TestALogReadsTheSameLiveRecoveredAndSealed(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a := attempt(1)
	two := chunk(a, 4, "in step two")
	two.Step, two.Stream = 1, StreamErr
	push(t, g, chunk(a, 1, "one\ntw"))
	push(t, g, chunk(a, 2, "o\nopen"), marked(a, 3, "truncated:step_log_bytes", 99))
	push(t, g, two)
	wantRaw := "one\ntwo\nopenin step two"
	wantLines := "1@0 s0 one\n2@4 s0 two\n3@8 s0 open\n4@12 s0 [truncated:step_log_bytes 99]\n5@12 s1 in step two"
	check := func(state string, g *Gateway, ending string) {
		t.Helper()
		l := reader(t, g, a)
		if got := raw(t, l); got != wantRaw {
			t.Errorf("%s: raw = %q", state, got)
		}
		if got := shown(window1(t, l, 1, 100)); got != wantLines+ending {
			t.Errorf("%s: lines =\n%s", state, got)
		}
		if got := shown(window1(t, l, 3, 1)); got != "3@8 s0 open\n" {
			t.Errorf("%s: window = %s", state, got)
		}
		totals, err := l.Totals(t.Context())
		if err != nil || totals.Bytes != int64(len(wantRaw)) || totals.Lines != 5 || !totals.Truncated {
			t.Errorf("%s: totals = %+v, %v", state, totals, err)
		}
		steps := []StepRange{{0, 0, 12, 12, 1, 4}, {1, 12, 23, 11, 5, 5}}
		if !slices.Equal(totals.Steps, steps) {
			t.Errorf("%s: steps = %+v", state, totals.Steps)
		}
		var one bytes.Buffer
		if _, err := l.RawStep(t.Context(), &one, 1); err != nil || one.String() != "in step two" {
			t.Errorf("%s: step = %q, %v", state, one.String(), err)
		}
		if hits, err := l.Search(t.Context(), []byte("o"), 2, 2); err != nil || !slices.Equal(hits, []int64{2, 3}) {
			t.Errorf("%s: search = %v, %v", state, hits, err)
		}
	}
	check("live", g, "…\n")
	check("after a crash", open(t, copyOf(store)), "…\n")
	first, err := g.Seal(t.Context(), tenant, a, domain.ClassBatch, 4)
	if err != nil {
		t.Fatal(err)
	}
	// The server dies before history knows: whoever comes next has all of it, and seals again.
	crashed := open(t, copyOf(store))
	check("sealed, not recorded, after a crash", crashed, "…\n")
	if again := seal(t, crashed, a, 4); again != first {
		t.Errorf("sealed again: %+v, first %+v", again, first)
	}
	ref := seal(t, g, a, 4)
	check("sealed", g, "…\n")
	check("sealed, after a restart", open(t, copyOf(store)), "…\n")
	if ref.Bytes != int64(len(wantRaw)) || ref.Lines != 5 || !ref.Truncated || ref.Gaps != 0 || !ref.Digest.Valid() {
		t.Errorf("ref = %+v", ref)
	}
	if ref != first {
		t.Errorf("sealed again: %+v, first %+v", ref, first)
	}
	if left := segments(t, store); left != nil {
		t.Errorf("segments left: %v", left)
	}
}

func TestAReferenceNeedsNoLook(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	push(t, g, chunk(attempt(1), 1, "x\n"))
	ref := seal(t, g, attempt(1), 1)
	l, err := g.Log(tenant, attempt(1), &ref)
	if err != nil || raw(t, l) != "x\n" {
		t.Errorf("by reference: %v", err)
	}
	other, err := g.Log(tenant, attempt(2), &ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Totals(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("another attempt's reference: %v", err)
	}
}

// Promises: [LOG-6].
func TestTwoTenantsAreApart(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	mine, theirs := chunk(attempt(1), 1, "mine"), chunk(attempt(1), 1, "theirs")
	theirs.Tenant = "tnt_other"
	acks, err := g.Append(t.Context(), []Chunk{mine, theirs})
	if err != nil || len(acks) != 2 || acks[0].Tenant == acks[1].Tenant {
		t.Fatal(acks, err)
	}
	for i, tn := range []domain.TenantID{tenant, "tnt_other"} {
		l, err := g.Log(tn, attempt(1), nil)
		if want := []string{"mine", "theirs"}[i]; err != nil || raw(t, l) != want {
			t.Errorf("%s: %q, %v", tn, raw(t, l), err)
		}
	}
	seal(t, g, attempt(1), 1)
	if keys := segments(t, store); len(keys) != 1 || !strings.HasPrefix(keys[0], "segments/tnt_other/") {
		t.Errorf("segments = %v", keys)
	}
}

func TestRepeatsReorderAndHoles(t *testing.T) {
	g := open(t, memory.New())
	a := attempt(1)
	if ack := push(t, g, chunk(a, 3, "c"), chunk(a, 2, "b")); ack.Through != 0 {
		t.Errorf("through = %d behind a hole", ack.Through)
	}
	if got := raw(t, reader(t, g, a)); got != "" {
		t.Errorf("shown behind a hole: %q", got)
	}
	if ack := push(t, g, chunk(a, 1, "a"), chunk(a, 3, "c")); ack.Through != 3 {
		t.Errorf("through = %d", ack.Through)
	}
	for range 3 {
		ack := push(t, g, chunk(a, 2, "b"), chunk(a, 1, "a"), chunk(a, 1, "a"))
		if ack.Through != 3 || ack.Conflicts != 0 {
			t.Errorf("repeat: %+v", ack)
		}
	}
	if got := raw(t, reader(t, g, a)); got != "abc" {
		t.Errorf("raw = %q", got)
	}
	if c := g.Counters(); c.Chunks != 3 || c.Repeats != 6 || c.Live != 1 {
		t.Errorf("counters = %+v", c)
	}
}

// Promises: [LOG-3].
func TestAGapMarkEndsTheWaiting(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a := attempt(1)
	push(t, g, chunk(a, 1, "a\n"), chunk(a, 3, "c\n"))
	gap := chunk(a, 6, "f\n")
	gap.Mark, gap.Dropped = "gap:spool_full", 500
	if ack := push(t, g, gap); ack.Through != 6 {
		t.Fatalf("through = %d", ack.Through)
	}
	want := "1@0 s0 a\n2@2 s0 c\n3@4 s0 [gap:spool_full 500]\n4@4 s0 f\n"
	for _, g := range []*Gateway{g, open(t, copyOf(store))} {
		if got := shown(window1(t, reader(t, g, a), 1, 9)); got != want {
			t.Errorf("lines =\n%s", got)
		}
	}
	// What was declared missing and comes all the same is kept, not put in.
	if ack := push(t, g, chunk(a, 4, "late")); ack.Through != 6 {
		t.Errorf("ack = %+v", ack)
	}
	if e, err := g.Evidence(t.Context(), tenant, a); err != nil || len(e) != 1 || e[0].Reason != "late" {
		t.Errorf("evidence = %+v, %v", e, err)
	}
	if ref := seal(t, g, a, 6); ref.Gaps != 1 || ref.Lines != 4 {
		t.Errorf("ref = %+v", ref)
	}
}

// Promises: [LOG-3].
func TestSealMarksWhatNeverCame(t *testing.T) {
	for name, c := range map[string]struct {
		end  uint64
		want string
		gaps int
	}{
		"result speaks of more": {8, "1@0 s0 a\n2@2 s0 [gap:missing:2 0]\n3@2 s0 d\n4@4 s0 [gap:missing:4 0]\n", 2},
		"result is exact":       {4, "1@0 s0 a\n2@2 s0 [gap:missing:2 0]\n3@2 s0 d\n", 1},
		"no result":             {SequenceUnknown, "1@0 s0 a\n2@2 s0 [gap:missing:2 0]\n3@2 s0 d\n", 1},
		"result speaks of less": {1, "1@0 s0 a\n2@2 s0 [gap:missing:2 0]\n3@2 s0 d\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := open(t, memory.New())
			push(t, g, chunk(attempt(1), 1, "a\n"), chunk(attempt(1), 4, "d\n"))
			ref := seal(t, g, attempt(1), c.end)
			if got := shown(window1(t, reader(t, g, attempt(1)), 1, 9)); got != c.want || ref.Gaps != c.gaps {
				t.Errorf("gaps = %d, lines =\n%s", ref.Gaps, got)
			}
		})
	}
}

func TestAnEmptyLogCanBeSealed(t *testing.T) {
	g := open(t, memory.New())
	ref := seal(t, g, attempt(1), 0)
	if ref.Bytes != 0 || ref.Lines != 0 || ref.Length == 0 {
		t.Errorf("ref = %+v", ref)
	}
	totals, err := reader(t, g, attempt(1)).Totals(t.Context())
	if err != nil || !totals.Sealed {
		t.Errorf("totals = %+v, %v", totals, err)
	}
	if again := seal(t, g, attempt(1), 0); again != ref {
		t.Errorf("again = %+v", again)
	}
}

// An attempt that never began has no object, and whoever follows its log must not wait.
func TestALogOfNothingHasItsEnd(t *testing.T) {
	g := open(t, memory.New())
	l, err := g.Log(tenant, attempt(1), &Ref{})
	if err != nil {
		t.Fatal(err)
	}
	totals, err := l.Wait(t.Context(), Totals{})
	if err != nil || !totals.Sealed || totals.Bytes != 0 {
		t.Errorf("totals = %+v, %v", totals, err)
	}
	var text strings.Builder
	if n, err := l.Raw(t.Context(), &text, 0, -1); err != nil || n != 0 {
		t.Errorf("%d bytes, %v: %q", n, err, text.String())
	}
	if lines, err := l.Lines(t.Context(), 1, 10); err != nil || len(lines) != 0 {
		t.Errorf("lines %v, %v", lines, err)
	}
}

// Promises: [LOG-2].
func TestTheFirstChunkWinsAndTheOtherIsKept(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a := attempt(1)
	push(t, g, chunk(a, 1, "first"), chunk(a, 3, "behind a hole"))
	for i := range EvidenceMax + 5 {
		if ack := push(t, g, chunk(a, 1, fmt.Sprint("other ", i))); ack.Conflicts != 1 || ack.Through != 1 {
			t.Fatalf("ack = %+v", ack)
		}
	}
	if ack := push(t, g, chunk(a, 3, "x"), chunk(a, 2, "b"), chunk(a, 2, "c")); ack.Conflicts != 2 || ack.Through != 3 {
		t.Errorf("ack = %+v", ack)
	}
	if got := raw(t, reader(t, g, a)); got != "firstbbehind a hole" {
		t.Errorf("raw = %q", got)
	}
	kept, err := g.Evidence(t.Context(), tenant, a)
	if err != nil || len(kept) != EvidenceMax || kept[0].Reason != "conflict" ||
		!strings.HasPrefix(string(kept[0].Data), "other") {
		t.Errorf("evidence = %+v, %v", kept, err)
	}
	if c := g.Counters(); c.Conflicts != EvidenceMax+7 {
		t.Errorf("counters = %+v", c)
	}
	// The comparison also works when nothing is in memory any more.
	g = open(t, copyOf(store))
	if ack := push(t, g, chunk(a, 1, "yet another"), chunk(a, 2, "b")); ack.Conflicts != 1 {
		t.Errorf("after a restart: %+v", ack)
	}
}

// Promises: [LOG-4].
func TestWhatComesAfterTheSealIsEvidence(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a := attempt(1)
	push(t, g, chunk(a, 1, "a"))
	seal(t, g, a, 1)
	for _, g := range []*Gateway{g, open(t, store)} {
		late := chunk(a, 2, "too late")
		late.Ended = true
		acks, err := g.Append(t.Context(), []Chunk{late, chunk(attempt(2), 1, "fine")})
		if err != nil || !errors.Is(acks[0].Refused, ErrSealed) || acks[1].Refused != nil || acks[1].Through != 1 {
			t.Errorf("acks = %+v, %v", acks, err)
		}
		if got := raw(t, reader(t, g, a)); got != "a" {
			t.Errorf("raw = %q", got)
		}
	}
	if e, err := g.Evidence(t.Context(), tenant, a); err != nil || len(e) != 1 || e[0].Reason != "sealed" {
		t.Errorf("evidence = %+v, %v", e, err)
	}
}

func TestBadChunksAreRefused(t *testing.T) {
	g := open(t, memory.New())
	for name, change := range map[string]func(*Chunk){
		"checksum":        func(c *Chunk) { c.Checksum++ },
		"attempt":         func(c *Chunk) { c.Attempt = "att_../../x_0_1" },
		"tenant":          func(c *Chunk) { c.Tenant = "../x" },
		"empty tenant":    func(c *Chunk) { c.Tenant = "" },
		"tenant's folder": func(c *Chunk) { c.Tenant = "a/b" },
		"sequence":        func(c *Chunk) { c.Sequence = 0 },
		"step":            func(c *Chunk) { c.Step = StepsMax },
		"stream":          func(c *Chunk) { c.Stream = 9 },
		"mark":            func(c *Chunk) { c.Mark = "evil\n" },
		"mark's word":     func(c *Chunk) { c.Mark = "damaged:x" },
		"size":            func(c *Chunk) { c.Data = make([]byte, ChunkBytesMax+1) },
	} {
		c := chunk(attempt(1), 1, "x")
		change(&c)
		want := ErrInvalid
		if name == "checksum" {
			want = ErrChecksum
		}
		acks, err := g.Append(t.Context(), []Chunk{c, c})
		if err != nil || len(acks) != 1 || !errors.Is(acks[0].Refused, want) || acks[0].Through != 0 {
			t.Errorf("%s: %+v, %v, want %v", name, acks, err, want)
		}
	}
	acks, err := g.Append(t.Context(), []Chunk{chunk(attempt(1), aheadMax+2, "far")})
	if err != nil || !errors.Is(acks[0].Refused, ErrAhead) {
		t.Errorf("far ahead: %+v, %v", acks, err)
	}
	if len(g.shelf.items) != 0 {
		t.Error("something was taken")
	}
	// A bad chunk takes neither its neighbours nor those of others with it.
	bad := chunk(attempt(1), 2, "bad")
	bad.Checksum++
	acks, err = g.Append(t.Context(), []Chunk{chunk(attempt(1), 1, "good"), bad, chunk(attempt(2), 1, "good")})
	if err != nil || len(acks) != 2 || acks[0].Through != 1 || !errors.Is(acks[0].Refused, ErrChecksum) ||
		acks[1].Through != 1 || acks[1].Refused != nil {
		t.Errorf("mixed: %+v, %v", acks, err)
	}
	if _, err := g.Append(t.Context(), make([]Chunk, 1)); err != nil {
		t.Errorf("an empty chunk: %v", err)
	}
}

// A model of what a log is, as simple as can be, against everything that can happen to one.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { model(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func model(t *testing.T, r *rand.Rand) {
	store := memory.New()
	g := open(t, store)
	a := attempt(7)
	// A gap mark says that nothing below it comes any more, so with one the order matters.
	ordered := r.IntN(2) == 0
	chunks, gaps := randomChunks(r, a, ordered)
	wantRaw, wantLines := naive(chunks)
	// Deliver in batches out of order, some twice, with crashes and failed writes in between.
	var todo [][]Chunk
	for rest := chunks; len(rest) > 0; {
		n := min(1+r.IntN(20), len(rest))
		todo = append(todo, rest[:n])
		if r.IntN(4) == 0 {
			todo = append(todo, rest[:n])
		}
		rest = rest[n:]
	}
	if !ordered {
		r.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	}
	for len(todo) > 0 {
		batch := slices.Clone(todo[0])
		r.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		var fail error
		if r.IntN(8) == 0 {
			fail = errors.New("away")
			after := r.IntN(2) == 0
			store.SetHook(func(_ context.Context, c memory.Call) error {
				if c.Method == "Put" && c.After == after && strings.HasPrefix(c.Key, "segments/") {
					return fail
				}
				return nil
			})
		}
		acks, err := g.Append(t.Context(), batch)
		store.SetHook(nil)
		switch {
		case err != nil && fail == nil:
			t.Fatal(err)
		case err == nil && acks[0].Refused == nil:
			todo = todo[1:]
		case !ordered:
			todo = append(todo[1:], todo[0])
		}
		if r.IntN(10) == 0 {
			store = copyOf(store)
			g = open(t, store)
		}
	}
	compare := func(state string) {
		t.Helper()
		l := reader(t, g, a)
		if got := raw(t, l); got != wantRaw {
			t.Fatalf("%s: raw has %d bytes, want %d", state, len(got), len(wantRaw))
		}
		if got := shown(window1(t, l, 1, len(wantLines)+9)); got != shown(wantLines) {
			t.Fatalf("%s: lines =\n%s\nwant\n%s", state, got, shown(wantLines))
		}
		for range 10 {
			from, n := 1+r.IntN(len(wantLines)), 1+r.IntN(9)
			want := wantLines[from-1 : min(from-1+n, len(wantLines))]
			if got := shown(window1(t, l, int64(from), n)); got != shown(want) {
				t.Fatalf("%s: window %d+%d =\n%s\nwant\n%s", state, from, n, got, shown(want))
			}
			at := r.IntN(len(wantRaw) + 1)
			length := r.IntN(len(wantRaw) - at + 1)
			var b bytes.Buffer
			_, err := l.Raw(t.Context(), &b, int64(at), int64(length))
			if err != nil || b.String() != wantRaw[at:at+length] {
				t.Fatalf("%s: range %d+%d: %v", state, at, length, err)
			}
		}
	}
	compare("live")
	ref := seal(t, g, a, uint64(len(chunks)))
	compare("sealed")
	if err := g.Close(); err != nil { // waits for a fold that is under way
		t.Fatal(err)
	}
	g = open(t, copyOf(store))
	compare("reopened")
	if left := segments(t, store); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if ref.Gaps != gaps || ref.Lines != int64(len(wantLines)) {
		t.Errorf("ref = %+v", ref)
	}
	if e, err := g.Evidence(t.Context(), tenant, a); err != nil || len(e) != 0 {
		t.Errorf("evidence out of nothing: %+v, %v", e, err)
	}
}

func randomChunks(r *rand.Rand, a domain.AttemptID, withGaps bool) (chunks []Chunk, gaps int) {
	step := uint32(0)
	for i := range 20 + r.IntN(150) {
		var b strings.Builder
		for range r.IntN(4) {
			size := r.IntN(30)
			if r.IntN(60) == 0 {
				size = r.IntN(200_000)
			}
			b.WriteString(strings.Repeat(string(rune('a'+r.IntN(26))), size))
			if r.IntN(3) > 0 {
				b.WriteByte('\n')
			}
		}
		c := chunk(a, uint64(i+1), b.String())
		if r.IntN(12) == 0 {
			c.Mark, c.Dropped = "truncated:x", uint64(r.IntN(100))
			if withGaps && r.IntN(2) == 0 {
				c.Mark = "gap:y"
				gaps++
			}
		}
		if r.IntN(10) == 0 {
			step++
		}
		c.Step = step
		if r.IntN(10) == 0 {
			c.Step = StepRunner
		}
		chunks = append(chunks, c)
	}
	return chunks, gaps
}

// naive splits chunks into lines the obvious way.
func naive(chunks []Chunk) (string, []Line) {
	var all strings.Builder
	var lines []Line
	open := false
	step := uint32(0)
	mark := func(c *Chunk) {
		open = false
		lines = append(lines, Line{
			Number: int64(len(lines) + 1), Offset: int64(all.Len()), Step: c.Step, Mark: c.Mark, Dropped: c.Dropped,
		})
	}
	for i := range chunks {
		c := &chunks[i]
		if c.Step != step {
			step, open = c.Step, false
		}
		if c.Mark == "gap:y" {
			mark(c)
		}
		for _, ch := range c.Data {
			if !open {
				lines = append(lines, Line{Number: int64(len(lines) + 1), Offset: int64(all.Len()), Step: c.Step})
				open = true
			}
			all.WriteByte(ch)
			last := &lines[len(lines)-1]
			if ch == '\n' {
				open = false
			} else if last.Bytes++; last.Bytes <= LineBytesMax {
				last.Text = append(last.Text, ch)
			}
		}
		if c.Mark != "" && c.Mark != "gap:y" {
			mark(c)
		}
	}
	if open {
		lines[len(lines)-1].Open = true
	}
	return all.String(), lines
}

func TestOnFiles(t *testing.T) {
	store, err := file.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := open(t, store)
	push(t, g, chunk(attempt(1), 1, "hello\n"))
	g = open(t, store)
	ref := seal(t, g, attempt(1), 1)
	if got := raw(t, reader(t, g, attempt(1))); got != "hello\n" || ref.Bytes != 6 {
		t.Errorf("raw = %q, ref = %+v", got, ref)
	}
}
