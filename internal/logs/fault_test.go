package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-ci/fairlead/internal/blob/memory"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var errAway = errors.New("store away")

func TestTheStoreGoesAwayAndComesBack(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a := attempt(1)
	push(t, g, chunk(a, 1, "a\n"))
	store.SetHook(func(_ context.Context, c memory.Call) error {
		if c.Method == "Put" || c.Method == "Open" {
			return errAway
		}
		return nil
	})
	for range 3 {
		_, err := g.Append(t.Context(), []Chunk{chunk(a, 2, "b\n")})
		if !errors.Is(err, errAway) || !errors.Is(err, domain.ErrRetry) {
			t.Fatalf("append: %v", err)
		}
	}
	if _, err := g.Seal(t.Context(), tenant, a, domain.ClassBatch, 2); !errors.Is(err, domain.ErrRetry) {
		t.Fatalf("seal: %v", err)
	}
	// What is in memory can be read meanwhile.
	if got := raw(t, reader(t, g, a)); got != "a\n" {
		t.Errorf("raw = %q", got)
	}
	store.SetHook(nil)
	if ack := push(t, g, chunk(a, 2, "b\n")); ack.Through != 2 {
		t.Errorf("through = %d", ack.Through)
	}
	seal(t, g, a, 2)
	if got := raw(t, reader(t, open(t, copyOf(store)), a)); got != "a\nb\n" {
		t.Errorf("raw = %q", got)
	}
}

func TestALostReplyLeavesNoRepeatAndNoOrphan(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a := attempt(1)
	store.SetHook(func(_ context.Context, c memory.Call) error {
		if c.Method == "Put" && c.After {
			return errAway
		}
		return nil
	})
	if _, err := g.Append(t.Context(), []Chunk{chunk(a, 1, "a\n")}); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	store.SetHook(nil)
	crashed := open(t, copyOf(store))
	if ack := push(t, crashed, chunk(a, 1, "a\n")); ack.Through != 1 {
		t.Errorf("ack = %+v", ack)
	}
	push(t, g, chunk(a, 1, "a\n"))
	for _, g := range []*Gateway{g, crashed} {
		if got := raw(t, reader(t, g, a)); got != "a\n" {
			t.Errorf("raw = %q", got)
		}
	}
	if err := g.Close(); err != nil { // waits for the deletion
		t.Fatal(err)
	}
	if left := segments(t, store); len(left) != 1 {
		t.Errorf("segments = %v", left)
	}
}

// Two segments that say different things can only come from a write that happened though its
// caller was told otherwise. The first in order wins, and the other is kept.
func TestAConflictFoundAtStartIsKept(t *testing.T) {
	store := memory.New()
	for n, text := range map[uint64]string{1: "first", 2: "other"} {
		c := chunk(attempt(1), 1, text)
		p := split([]Chunk{c})[0]
		table := contents{
			tenant: tenant, attempts: []domain.AttemptID{c.Attempt}, records: []record{{span: p.items[0].span}},
		}
		parts := encodeSegment(&table, [][]byte{c.Data})
		if err := store.Put(t.Context(), segmentKey(tenant, n), &gather{parts}, -1); err != nil {
			t.Fatal(err)
		}
	}
	g := open(t, store)
	if got := raw(t, reader(t, g, attempt(1))); got != "first" {
		t.Errorf("raw = %q", got)
	}
	e, err := g.Evidence(t.Context(), tenant, attempt(1))
	if err != nil || len(e) != 1 || string(e[0].Data) != "other" {
		t.Errorf("evidence = %+v, %v", e, err)
	}
}

// Segments of a log whose seal is recorded stay when the server dies before it removes them;
// they go when somebody tells, whether or not the gateway knew of the seal.
func TestACrashBetweenRecordingAndDeletingIsRepaired(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	a, b := attempt(1), attempt(2)
	push(t, g, chunk(a, 1, "a"))
	push(t, g, chunk(a, 2, "a"), chunk(b, 1, "b"))
	store.SetHook(func(_ context.Context, c memory.Call) error {
		if c.Method == "Delete" {
			return errAway
		}
		return nil
	})
	seal(t, g, a, 2)
	if left := segments(t, store); len(left) != 2 {
		t.Fatalf("segments = %v", left)
	}
	crashed := copyOf(store)
	g = open(t, crashed)
	tellSeals(t, g)
	if left := segments(t, crashed); len(left) != 1 {
		t.Errorf("segments = %v", left)
	}
	if c := g.Counters(); c.Live != 1 {
		t.Errorf("live = %d", c.Live)
	}
	seal(t, g, b, 1)
	if left := segments(t, crashed); left != nil {
		t.Errorf("segments = %v", left)
	}
	for _, x := range []domain.AttemptID{a, b} {
		if got := raw(t, reader(t, g, x)); strings.Trim(got, "ab") != "" || got == "" {
			t.Errorf("raw = %q", got)
		}
	}
}

// stuck opens a gateway whose writes wait until release is closed.
func stuck(t *testing.T, queue int64) (g *Gateway, release chan struct{}) {
	t.Helper()
	store := memory.New()
	g, err := Open(t.Context(), store, Config{QueueBytes: queue})
	if err != nil {
		t.Fatal(err)
	}
	release = make(chan struct{})
	store.SetHook(func(_ context.Context, c memory.Call) error {
		if c.Method == "Put" && !c.After {
			<-release
		}
		return nil
	})
	return g, release
}

// Promises: [LOG-12].
func TestAFullQueueIsBusyAndEmptiesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, release := stuck(t, 1000)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { push(t, g, chunk(attempt(1), uint64(i+1), "x")) })
			synctest.Wait()
		}
		_, err := g.Append(t.Context(), []Chunk{chunk(attempt(1), 4, strings.Repeat("x", 900))})
		var busy *Busy
		if !errors.As(err, &busy) || busy.After <= 0 || !errors.Is(err, domain.ErrRetry) {
			t.Errorf("append to a full queue: %v", err)
		}
		close(release)
		all.Wait()
		// The second and the third shared a write: while one is written the rest collects.
		if c := g.Counters(); c.Segments != 2 || c.Chunks != 3 {
			t.Errorf("counters = %+v", c)
		}
		push(t, g, chunk(attempt(1), 4, strings.Repeat("x", 900)))
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Append(t.Context(), []Chunk{chunk(attempt(1), 5, "x")}); !errors.Is(err, ErrClosed) {
			t.Errorf("append after close: %v", err)
		}
	})
}

func TestAHungStoreBecomesAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		g, err := Open(t.Context(), store, Config{WriteTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		store.SetHook(func(ctx context.Context, c memory.Call) error {
			if c.Method != "Put" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		_, err = g.Append(t.Context(), []Chunk{chunk(attempt(1), 1, "x")})
		if !errors.Is(err, domain.ErrRetry) {
			t.Errorf("append: %v", err)
		}
	})
}

func TestChunksThatComeWhileSealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		g, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		a := attempt(1)
		push(t, g, chunk(a, 1, "a"))
		hold := make(chan error)
		store.SetHook(func(_ context.Context, c memory.Call) error {
			if c.Method == "Put" && !c.After && strings.Contains(c.Key, "/sealed-logs/") {
				return <-hold
			}
			return nil
		})
		refs := make(chan Ref, 3)
		for range 3 {
			go func() {
				ref, err := g.Seal(context.Background(), tenant, a, domain.ClassBatch, 1)
				if err != nil && !errors.Is(err, errAway) {
					t.Error(err)
				}
				refs <- ref
			}()
		}
		synctest.Wait()
		acks, err := g.Append(t.Context(), []Chunk{chunk(a, 2, "b")})
		if err != nil || !errors.Is(acks[0].Refused, ErrBusy) {
			t.Errorf("while sealing: %+v, %v", acks, err)
		}
		hold <- errAway // the first seal fails: the log is open again, and the next one tries
		<-refs
		close(hold)
		one, two := <-refs, <-refs
		if one != two || one.Bytes != 1 {
			t.Errorf("refs %+v and %+v", one, two)
		}
		acks, err = g.Append(t.Context(), []Chunk{chunk(a, 2, "b")})
		if err != nil || !errors.Is(acks[0].Refused, ErrSealed) {
			t.Errorf("after: %+v, %v", acks, err)
		}
	})
}

func TestSealWaitsForWritesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		g, err := Open(t.Context(), store, Config{})
		if err != nil {
			t.Fatal(err)
		}
		hold := make(chan struct{})
		store.SetHook(func(_ context.Context, c memory.Call) error {
			if c.Method == "Put" && !c.After && strings.HasPrefix(c.Key, "segments/") {
				<-hold
			}
			return nil
		})
		var all sync.WaitGroup
		all.Go(func() { push(t, g, chunk(attempt(1), 1, "written")) })
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Seal(short, tenant, attempt(1), domain.ClassBatch, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("seal: %v", err)
		}
		all.Go(func() {
			if ref := seal(t, g, attempt(1), 1); ref.Bytes != 7 {
				t.Errorf("ref = %+v", ref)
			}
		})
		synctest.Wait()
		close(hold)
		all.Wait()
	})
}

// Promises: [LOG-7].
func TestFollowersSeeEverythingOnce(t *testing.T) {
	store := memory.New()
	// No room on the shelf: slow followers read from storage.
	g, err := Open(t.Context(), store, Config{RecentBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := attempt(1)
	var want bytes.Buffer
	var all sync.WaitGroup
	got := make([]bytes.Buffer, 8)
	for i := range got {
		all.Go(func() {
			for piece, err := range reader(t, g, a).Follow(context.Background(), 0) {
				if err != nil {
					t.Error(err)
					return
				}
				if piece.Offset != int64(got[i].Len()) {
					t.Errorf("piece at %d, want %d", piece.Offset, got[i].Len())
				}
				got[i].Write(piece.Bytes)
			}
		})
	}
	for i := range 200 {
		text := fmt.Sprintf("line %d\n", i)
		want.WriteString(text)
		push(t, g, chunk(a, uint64(i+1), text))
	}
	seal(t, g, a, 200)
	all.Wait()
	for i := range got {
		if !bytes.Equal(got[i].Bytes(), want.Bytes()) {
			t.Errorf("follower %d saw %d bytes of %d", i, got[i].Len(), want.Len())
		}
	}
}

func TestFollowBeforeTheFirstChunkAndFromTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := Open(t.Context(), memory.New(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		a := attempt(1)
		var got strings.Builder
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for piece, err := range reader(t, g, a).Follow(context.Background(), 2) {
				if err != nil {
					t.Error(err)
				}
				fmt.Fprintf(&got, "%d:%s|", piece.Offset, piece.Bytes)
			}
		}()
		synctest.Wait()
		push(t, g, chunk(attempt(2), 1, "of another log"))
		push(t, g, chunk(a, 1, "a"))
		synctest.Wait()
		push(t, g, chunk(a, 2, "bcd"), chunk(a, 3, "e"))
		synctest.Wait()
		if got.String() != "2:cd|4:e|" {
			t.Errorf("before the end: %q", got.String())
		}
		seen, err := reader(t, g, a).Wait(t.Context(), Totals{})
		if err != nil || seen.Bytes != 5 || seen.Sealed {
			t.Errorf("seen = %+v, %v", seen, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := reader(t, g, a).Wait(short, seen); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		seal(t, g, a, 3)
		<-ended
		if seen, err = reader(t, g, a).Wait(t.Context(), seen); err != nil || !seen.Sealed {
			t.Errorf("seen = %+v, %v", seen, err)
		}
	})
}

// A reader that began before the seal goes on although the segments are gone.
// Promises: [LOG-5].
func TestReadingAcrossTheSeal(t *testing.T) {
	store := memory.New()
	g, err := Open(t.Context(), store, Config{RecentBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := attempt(1)
	for i := range 3 {
		push(t, g, chunk(a, uint64(i+1), fmt.Sprintln("line", i+1)))
	}
	var got strings.Builder
	for piece, err := range reader(t, g, a).Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(piece.Bytes)
		if piece.Offset == 0 {
			seal(t, g, a, 3)
		}
	}
	if got.String() != "line 1\nline 2\nline 3\n" {
		t.Errorf("followed %q", got.String())
	}
}

// logOf pushes a log of many blocks and gives its text.
func logOf(t *testing.T, g *Gateway, a domain.AttemptID) string {
	t.Helper()
	var all strings.Builder
	for i := range 6 {
		var b strings.Builder
		for j := b.Len(); j < 200<<10; j = b.Len() {
			fmt.Fprintf(&b, "chunk %d, byte %d of it\n", i, j)
		}
		push(t, g, chunk(a, uint64(i+1), b.String()))
		all.WriteString(b.String())
	}
	return all.String()
}

// Promises: [LOG-8].
func TestADamagedBlockIsToldAndTheRestIsRead(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprint("sealed=", sealed), func(t *testing.T) {
			store := memory.New()
			g, err := Open(t.Context(), store, Config{})
			if err != nil {
				t.Fatal(err)
			}
			a := attempt(1)
			text := logOf(t, g, a)
			key := segmentKey(tenant, 3)
			if sealed {
				key = seal(t, g, a, 6).Object
			}
			size := int64(0)
			store.Corrupt(key, func(b []byte) []byte {
				b[len(b)/2] ^= 0x40
				size = int64(len(b))
				return b
			})
			l := reader(t, open(t, store), a)
			var b bytes.Buffer
			_, err = l.Raw(t.Context(), &b, 0, -1)
			var damage *Damage
			if !errors.As(err, &damage) || damage.Object != key || damage.Offset <= 0 || damage.Offset > size {
				t.Fatalf("raw: %v", err)
			}
			gone := damage.Next - int64(b.Len())
			if _, err := l.Raw(t.Context(), &b, damage.Next, -1); err != nil {
				t.Fatalf("raw behind it: %v", err)
			}
			before := text[:damage.Next-gone]
			if want := before + text[damage.Next:]; b.String() != want || gone <= 0 {
				t.Errorf("got %d bytes of %d, %d gone", b.Len(), len(want), gone)
			}
			first := int64(strings.Count(before, "\n"))
			lines := window1(t, l, max(first-1, 1), 6)
			told := 0
			for _, line := range lines {
				if strings.HasPrefix(line.Mark, MarkDamaged+":") && line.Dropped == uint64(gone) {
					told++
				}
			}
			if last := lines[len(lines)-1]; told != 1 || last.Mark != "" {
				t.Errorf("lines around it:\n%s", shown(lines))
			}
			var followed, errs int
			for piece, err := range l.Follow(t.Context(), 0) {
				if followed += len(piece.Bytes); err != nil {
					errs++
				}
				if followed == len(b.String()) {
					break
				}
			}
			if errs != 1 {
				t.Errorf("%d errors while following", errs)
			}
			if !sealed {
				// Sealing keeps what is left and marks what is not.
				ref, err := open(t, store).Seal(t.Context(), tenant, a, domain.ClassBatch, 6)
				if err != nil || ref.Gaps != 1 || ref.Bytes != int64(len(text))-gone {
					t.Errorf("sealed: %+v, %v", ref, err)
				}
			}
		})
	}
}

// Promises: [LOG-8].
func TestADamagedTableIsSetAside(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	push(t, g, chunk(attempt(1), 1, "a"))
	push(t, g, chunk(attempt(2), 1, "b"))
	store.Corrupt(segmentKey(tenant, 1), func(b []byte) []byte { return b[:len(b)-3] })
	g = open(t, store)
	d := g.Damaged()
	if len(d) != 1 || !errors.Is(d[0], ErrDamaged) || !strings.Contains(d[0].Error(), segmentKey(tenant, 1)) {
		t.Errorf("damaged = %v", d)
	}
	if got := raw(t, reader(t, g, attempt(2))); got != "b" {
		t.Errorf("raw = %q", got)
	}
	push(t, g, chunk(attempt(2), 2, "c"))
	seal(t, g, attempt(2), 2)
	if left := segments(t, store); len(left) != 1 || left[0] != segmentKey(tenant, 1) {
		t.Errorf("segments = %v: what is damaged is evidence", left)
	}
}

func TestALineOfTenMegabytes(t *testing.T) {
	g := open(t, memory.New())
	a := attempt(1)
	const piece, pieces = 512 << 10, 20
	for i := range uint64(pieces) {
		text := strings.Repeat("x", piece)
		if i == 0 {
			text = "head\n" + text
		}
		push(t, g, chunk(a, i+1, text))
	}
	push(t, g, chunk(a, pieces+1, "needle\ntail\n"))
	for _, state := range []string{"live", "sealed"} {
		l := reader(t, g, a)
		lines := window1(t, l, 1, 5)
		if len(lines) != 3 || len(lines[1].Text) != LineBytesMax || lines[1].Bytes != piece*pieces+6 || lines[1].Open {
			t.Errorf("%s: %d lines, the second has %d of %d bytes", state, len(lines), len(lines[1].Text), lines[1].Bytes)
		}
		if string(lines[2].Text) != "tail" || lines[2].Number != 3 {
			t.Errorf("%s: third = %+v", state, lines[2])
		}
		if hits, err := l.Search(t.Context(), []byte("xneedle"), 1, 9); err != nil || len(hits) != 1 || hits[0] != 2 {
			t.Errorf("%s: search = %v, %v", state, hits, err)
		}
		if state == "live" {
			seal(t, g, a, pieces+1)
		}
	}
}

func TestColoursReachAWindowFromFarAbove(t *testing.T) {
	g := open(t, memory.New())
	a := attempt(1)
	push(t, g, chunk(a, 1, "\x1b[1;31mred\n"+strings.Repeat("still red\n", 60_000)))
	push(t, g, chunk(a, 2, "red\x1b[0m\nplain\n"))
	for _, state := range []string{"live", "sealed"} {
		lines := window1(t, reader(t, g, a), 60_000, 9)
		if len(lines) != 4 || lines[0].Style.Text != 2 || lines[2].Style.Text != 2 || lines[3].Style.Text != 0 {
			t.Errorf("%s: %d lines, styles %+v … %+v", state, len(lines), lines[0].Style, lines[len(lines)-1].Style)
		}
		if hits, err := reader(t, g, a).Search(t.Context(), []byte("red"), 60_001, 5); err != nil || len(hits) != 2 {
			t.Errorf("%s: hits = %v, %v", state, hits, err)
		}
		if state == "live" {
			seal(t, g, a, 2)
		}
	}
}

// Promises: [FORMAT-4].
func TestASealedLogIsAnOrdinaryZstandardFile(t *testing.T) {
	store := memory.New()
	g := open(t, store)
	text := logOf(t, g, attempt(1))
	ref := seal(t, g, attempt(1), 6)
	r, err := store.Open(t.Context(), ref.Object, ref.Offset, ref.Length)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if domain.DigestOf(stored) != ref.Digest {
		t.Error("the digest is not that of the bytes")
	}
	plain, err := newCodec().unpack(stored, len(text))
	if err != nil || string(plain) != text {
		t.Errorf("unpacked %d bytes of %d, %v", len(plain), len(text), err)
	}
	if len(stored) > len(text)/5 {
		t.Errorf("%d bytes for %d: not compressed", len(stored), len(text))
	}
}

// Every k-th call of storage fails once, for every k, until a pass has no fault: the same
// work always ends with the same log.
// Promises: [LOG-1].
func TestFaultSweep(t *testing.T) {
	for _, after := range []bool{false, true} {
		for k := 1; ; k++ {
			store := memory.New()
			var n atomic.Int64
			store.SetHook(func(_ context.Context, c memory.Call) error {
				if c.After == after && n.Add(1) == int64(k) {
					return errAway
				}
				return nil
			})
			sweep(t, store, fmt.Sprintf("k=%d after=%v", k, after))
			if n.Load() < int64(k) {
				break
			}
		}
	}
}

// sweep does a little of everything and tries again what fails.
func sweep(t *testing.T, store *memory.Store, state string) {
	t.Helper()
	try := func(do func() error) {
		t.Helper()
		for range 3 {
			if err := do(); err == nil {
				return
			} else if !errors.Is(err, errAway) {
				t.Fatalf("%s: %v", state, err)
			}
		}
		t.Fatalf("%s: one fault fails three times", state)
	}
	var g *Gateway
	reopen := func() {
		try(func() (err error) {
			g, err = Open(t.Context(), store, Config{Recorded: historyOf(store).find})
			return
		})
		tellSeals(t, g)
	}
	appendAll := func(chunks ...Chunk) {
		try(func() error { _, err := g.Append(t.Context(), chunks); return err })
	}
	a, b := attempt(1), attempt(2)
	reopen()
	appendAll(chunk(a, 1, "a1\n"), chunk(b, 1, "b1\n"))
	appendAll(chunk(a, 1, "other\n"), chunk(a, 2, "a2\n"))
	reopen()
	appendAll(chunk(a, 2, "a2\n"), chunk(a, 3, "a3\n"))
	var ref Ref
	try(func() (err error) { ref, err = g.Seal(t.Context(), tenant, a, domain.ClassBatch, 3); return })
	historyOf(store).refs.Store(logID{tenant, a}, &ref)
	reopen()
	late := chunk(a, 4, "late\n")
	late.Ended = true
	appendAll(late, chunk(b, 2, "b2\n"))
	try(func() (err error) {
		again, err := g.Seal(t.Context(), tenant, a, domain.ClassBatch, 3)
		if err == nil && again != ref {
			t.Errorf("%s: %+v, then %+v", state, ref, again)
		}
		return err
	})
	for x, want := range map[domain.AttemptID]string{a: "a1\na2\na3\n", b: "b1\nb2\n"} {
		var got bytes.Buffer
		try(func() error {
			got.Reset()
			_, err := reader(t, g, x).Raw(t.Context(), &got, 0, -1)
			return err
		})
		if got.String() != want {
			t.Errorf("%s: %s has %q", state, x, got.String())
		}
	}
	var kept []Evidence
	try(func() (err error) { kept, err = g.Evidence(t.Context(), tenant, a); return })
	if len(kept) != 2 || kept[0].Reason != "conflict" || kept[1].Reason != "sealed" {
		t.Errorf("%s: evidence = %+v", state, kept)
	}
	try(func() (err error) { ref, err = g.Seal(t.Context(), tenant, b, domain.ClassBatch, 2); return })
	historyOf(store).refs.Store(logID{tenant, b}, &ref)
	reopen()
	store.SetHook(nil)
	reopen() // what could not be deleted is found at the next start
	if left := segments(t, store); left != nil {
		t.Errorf("%s: segments left: %v", state, left)
	}
}

// What is queued is counted once, however many attempts it is of: an upload of many attempts
// was refused beside anybody else's chunk.
// Promises: [LOG-12].
func TestAnUploadOfManyAttemptsIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, release := stuck(t, 100_000)
		var all sync.WaitGroup
		all.Go(func() { push(t, g, chunk(attempt(1), 1, "x")) })
		synctest.Wait()
		var many []Chunk
		for i := range 32 {
			many = append(many, chunk(attempt(i+2), 1, strings.Repeat("x", 2000)))
		}
		all.Go(func() { push(t, g, many...) })
		synctest.Wait()
		close(release)
		all.Wait()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
