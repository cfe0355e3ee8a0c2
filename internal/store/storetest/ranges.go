package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

func (s *suite) rangePromises() []promise {
	return []promise{
		{"ARangeIsRecordedWithWhatItHolds", rangeRecorded},
		{"ARangeThatDoesNotFitChangesNothing", rangeRefused},
		{"AStaleOwnerArchivesNothing", rangeFenced},
		{"PruneKeepsWhatOwnersNeed", pruned},
		{"PruneIsBoundedAndMayBeRepeated", prunedInPieces},
		{"WhatIsArchivedIsThereAfterReopening", rangeReopened},
		{"AppendsGoOnBehindAnArchive", appendsGoOn},
	}
}

// ranged fills a log with batches of two rows each, of a stream that is live, one that is
// not, and one of another tenant.
func ranged(t *testing.T, w *world, batches int) {
	t.Helper()
	version := map[domain.StreamID]uint64{}
	for n := range batches {
		w.append(t, func(b *store.Batch) {
			b.At = at.Add(time.Duration(n) * time.Minute)
			for _, s := range []struct {
				tenant domain.TenantID
				stream domain.StreamID
				live   bool
			}{{tenant, "run/over", false}, {tenant, "pool/live", true}, {other, "run/theirs", false}}[n%2 : n%2+2] {
				version[s.stream]++
				add(b, s.tenant, s.stream, version[s.stream], 1, "event")
				b.Heads[len(b.Heads)-1].Live = s.live
			}
		})
	}
}

// rangeOf describes what the store holds in (from, to], as whoever archives does.
func rangeOf(t testing.TB, s store.Store, p domain.PartitionID, from, to store.Position) (
	r store.ArchivedRange, streams []store.ArchivedStream,
) {
	t.Helper()
	ctx := t.Context()
	r = store.ArchivedRange{Partition: p, From: from, To: to, At: at,
		Marks: store.ArchivedObject{Object: "archive/marks", Digest: "sha256:mm", Bytes: 9}}
	if from > 0 {
		before, _, err := s.BatchAt(ctx, p, from)
		if err != nil {
			t.Fatal(err)
		}
		r.Before = before
	}
	marks, err := s.Batches(ctx, p, from, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		if m.Position > to {
			break
		}
		if r.Marks.Rows++; r.Marks.Rows == 1 {
			r.Oldest = m.At
		}
		r.Newest, r.Digest, r.Epoch = m.At, m.Digest, m.Epoch
	}
	rows, err := s.Read(ctx, p, from, int(to-from))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		row := &rows[i]
		n := slices.IndexFunc(r.Objects, func(o store.ArchivedObject) bool { return o.Tenant == row.Tenant })
		if n < 0 {
			n = len(r.Objects)
			r.Objects = append(r.Objects, store.ArchivedObject{Tenant: row.Tenant, Object: string(row.Tenant) + "/archive",
				Digest: "sha256:ab", Bytes: 77})
		}
		r.Objects[n].Rows++
		r.Objects[n].Raw += int64(len(row.Events))
		if st := (store.ArchivedStream{Tenant: row.Tenant, Stream: row.Stream}); !slices.Contains(streams, st) {
			streams = append(streams, st)
		}
	}
	slices.SortFunc(r.Objects, func(a, b store.ArchivedObject) int {
		return strings.Compare(string(a.Tenant), string(b.Tenant))
	})
	return r, streams
}

func archive(t *testing.T, w *world, from, to store.Position) store.ArchivedRange {
	t.Helper()
	r, streams := rangeOf(t, w.store, part, from, to)
	if err := w.store.ArchiveRange(t.Context(), w.own.Epoch, r, streams); err != nil {
		t.Fatal(err)
	}
	return r
}

// Promises: [ARCHIVE-1].
func rangeRecorded(t *testing.T, w *world) {
	ranged(t, w, 8)
	before := w.everything(t)
	first, second := archive(t, w, 0, 4), archive(t, w, 4, 10)
	list := must[[]store.ArchivedRange](t)
	same(t, "all ranges", list(w.store.ArchivedRanges(t.Context(), part, 0, 10)), []store.ArchivedRange{first, second})
	same(t, "the first", list(w.store.ArchivedRanges(t.Context(), part, 0, 1)), []store.ArchivedRange{first})
	same(t, "with position 4", list(w.store.ArchivedRanges(t.Context(), part, 3, 1)), []store.ArchivedRange{first})
	same(t, "after it", list(w.store.ArchivedRanges(t.Context(), part, 4, 10)), []store.ArchivedRange{second})
	same(t, "after the last", list(w.store.ArchivedRanges(t.Context(), part, 10, 10)), nil)
	same(t, "of another partition", list(w.store.ArchivedRanges(t.Context(), "p-two", 0, 10)), nil)
	theirs := []store.ArchivedRange{first, second}
	for i := range theirs {
		theirs[i].Objects = theirs[i].Objects[1:]
	}
	same(t, "of a stream", list(w.store.ArchivedOf(t.Context(), other, "run/theirs")), theirs)
	same(t, "of no stream", list(w.store.ArchivedOf(t.Context(), tenant, "run/theirs")), nil)
	same(t, "of a name that can't be", list(w.store.ArchivedOf(t.Context(), tenant, "run/\x00")), nil)
	marks := must[[]store.BatchMark](t)(w.store.Batches(t.Context(), part, 4, 1))
	if len(marks) != 1 || marks[0].Position != 6 || !marks[0].At.Equal(at.Add(2*time.Minute)) ||
		marks[0].Epoch != w.own.Epoch {
		t.Errorf("batches after 4: %+v", marks)
	}
	img := w.everything(t)
	img.Tables, before.Tables, img.Archives = "", "", before.Archives
	same(t, "what the port shows", img, before)
	if _, err := w.store.ArchivedRanges(t.Context(), part, 0, 0); err == nil {
		t.Error("no limit is taken")
	}
}

func rangeRefused(t *testing.T, w *world) {
	ranged(t, w, 8)
	archive(t, w, 0, 4)
	refuse := func(what string, want error, change func(r *store.ArchivedRange, streams *[]store.ArchivedStream)) {
		t.Helper()
		r, streams := rangeOf(t, w.store, part, 4, 8)
		change(&r, &streams)
		before := w.everything(t)
		if err := w.store.ArchiveRange(t.Context(), w.own.Epoch, r, streams); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		same(t, "after "+what, w.everything(t), before)
	}
	refuse("a gap", store.ErrConflict, func(r *store.ArchivedRange, s *[]store.ArchivedStream) {
		*r, *s = rangeOf(t, w.store, part, 6, 8)
	})
	refuse("an overlap", store.ErrConflict, func(r *store.ArchivedRange, s *[]store.ArchivedStream) {
		*r, *s = rangeOf(t, w.store, part, 2, 8)
	})
	refuse("the same again", store.ErrConflict, func(r *store.ArchivedRange, s *[]store.ArchivedStream) {
		*r, *s = rangeOf(t, w.store, part, 0, 4)
	})
	refuse("the last batch", store.ErrConflict, func(r *store.ArchivedRange, s *[]store.ArchivedStream) {
		*r, *s = rangeOf(t, w.store, part, 4, 16)
	})
	refuse("another history", store.ErrConflict, func(r *store.ArchivedRange, _ *[]store.ArchivedStream) {
		r.Digest = "sha256:other"
	})
	refuse("another history before", store.ErrConflict, func(r *store.ArchivedRange, _ *[]store.ArchivedStream) {
		r.Before = "sha256:other"
	})
	for what, change := range map[string]func(r *store.ArchivedRange, streams *[]store.ArchivedStream){
		"too few rows":         func(r *store.ArchivedRange, _ *[]store.ArchivedStream) { r.Objects[0].Rows-- },
		"no marks":             func(r *store.ArchivedRange, _ *[]store.ArchivedStream) { r.Marks.Object = "" },
		"no objects":           func(r *store.ArchivedRange, _ *[]store.ArchivedStream) { r.Objects = nil },
		"objects in no order":  func(r *store.ArchivedRange, _ *[]store.ArchivedStream) { slices.Reverse(r.Objects) },
		"no streams":           func(_ *store.ArchivedRange, s *[]store.ArchivedStream) { *s = nil },
		"nothing":              func(r *store.ArchivedRange, _ *[]store.ArchivedStream) { r.To = r.From },
		"no digest before":     func(r *store.ArchivedRange, _ *[]store.ArchivedStream) { r.Before = "" },
		"a stream of nobody's": func(_ *store.ArchivedRange, s *[]store.ArchivedStream) { (*s)[0].Tenant = "tnt_none" },
		"a stream with NUL":    func(_ *store.ArchivedRange, s *[]store.ArchivedStream) { (*s)[0].Stream = "run/\x00" },
	} {
		refuse(what, store.ErrInvalid, change)
	}
}

func rangeFenced(t *testing.T, w *world) {
	ranged(t, w, 8)
	next := acquire(t, w.store, part)
	r, streams := rangeOf(t, w.store, part, 0, 4)
	before := w.everything(t)
	for _, epoch := range []uint64{w.own.Epoch, next.Epoch + 1} {
		if err := w.store.ArchiveRange(t.Context(), epoch, r, streams); !errors.Is(err, store.ErrFenced) {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
	r.Partition = "p-none"
	if err := w.store.ArchiveRange(t.Context(), 1, r, streams); !errors.Is(err, store.ErrFenced) {
		t.Errorf("no partition: %v", err)
	}
	same(t, "after what was fenced", w.everything(t), before)
	w.own = next
	archive(t, w, 0, 4)
}

// Promises: [ARCHIVE-1], [ARCHIVE-2].
func pruned(t *testing.T, w *world) {
	ranged(t, w, 8)
	before := w.everything(t)
	prune := func(after store.Position) store.Position {
		t.Helper()
		return must[store.Position](t)(w.store.Prune(t.Context(), part, after, 100))
	}
	if end := prune(0); end != 0 {
		t.Errorf("pruned to %d without an archive", end)
	}
	same(t, "without an archive", w.everything(t), before)
	archive(t, w, 0, 8)
	if end := prune(0); end != 8 {
		t.Errorf("pruned to %d", end)
	}
	if end := prune(8); end != 0 {
		t.Errorf("pruned to %d behind the archive", end)
	}
	live := func() (list []store.Position) {
		for _, r := range must[[]store.Row](t)(w.store.Read(t.Context(), part, 0, 100)) {
			if r.Position <= 8 {
				list = append(list, r.Position)
			}
		}
		return list
	}
	same(t, "rows of the live stream", live(), []store.Position{2, 3, 6, 7})
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "pool/live", true, encoding))
	if len(h.Rows) != 8 {
		t.Errorf("the live stream has %d rows", len(h.Rows))
	}
	h = must[store.History](t)(w.store.Load(t.Context(), tenant, "run/over", false, encoding))
	if len(h.Rows) != 2 || h.Head.Version != 4 {
		t.Errorf("the other has %d rows, head %+v", len(h.Rows), h.Head)
	}
	if _, _, err := w.store.BatchAt(t.Context(), part, 6); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the mark of an archived batch: %v", err)
	}
	if digest, _, err := w.store.BatchAt(t.Context(), part, 8); err != nil || digest == "" {
		t.Errorf("the mark where the range ends: %v", err)
	}
	// A checkpoint covers a row, a stream ends: nobody needs them any longer.
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "pool/live", 9, 1, "x")
		b.Checkpoints = []store.Checkpoint{{Tenant: tenant, Stream: "pool/live", Version: 3, Encoding: encoding}}
	})
	prune(0)
	same(t, "with a checkpoint", live(), []store.Position{7})
	w.append(t, func(b *store.Batch) {
		add(b, tenant, "pool/live", 10, 1, "x")
		b.Heads[0].Live = false
	})
	prune(0)
	same(t, "when it is over", live(), nil)
	if h := must[store.History](t)(w.store.Load(t.Context(), tenant, "pool/live", true, encoding)); h.Checkpoint != nil {
		t.Errorf("the checkpoint of what is over: %+v", h.Checkpoint)
	}
	archive(t, w, 8, 12)
	prune(8)
	if _, _, err := w.store.BatchAt(t.Context(), part, 8); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the mark where the range before ends: %v", err)
	}
}

func prunedInPieces(t *testing.T, w *world) {
	ranged(t, w, 8)
	archive(t, w, 0, 10)
	after, calls := store.Position(0), 0
	for {
		end := must[store.Position](t)(w.store.Prune(t.Context(), part, after, 3))
		if end == 0 {
			break
		}
		if end <= after || calls > 10 {
			t.Fatalf("call %d goes from %d to %d", calls, after, end)
		}
		if again := must[store.Position](t)(w.store.Prune(t.Context(), part, after, 3)); again > 10 {
			t.Errorf("again from %d: %d, then %d", after, end, again)
		}
		after = end
		calls++
	}
	if after != 10 && after != 9 || calls < 3 {
		t.Errorf("%d calls came to %d", calls, after)
	}
	rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, 0, 100))
	for _, r := range rows {
		if r.Position <= 10 && r.Stream != "pool/live" {
			t.Errorf("row %d of %s is left", r.Position, r.Stream)
		}
	}
	marks := must[[]store.BatchMark](t)(w.store.Batches(t.Context(), part, 0, 100))
	if len(marks) != 4 || marks[0].Position != 10 {
		t.Errorf("marks %+v", marks)
	}
}

// Promises: [ARCHIVE-1].
func rangeReopened(t *testing.T, w *world) {
	if w.suite.reopen == nil {
		return // the adapter forgets everything
	}
	ranged(t, w, 8)
	r := archive(t, w, 0, 6)
	// The crash comes in the middle of removing its rows.
	must[store.Position](t)(w.store.Prune(t.Context(), part, 0, 3))
	before := w.everything(t)
	w.store = w.suite.reopen(t, w.store)
	same(t, "after reopening", w.everything(t), before)
	must[store.Position](t)(w.store.Prune(t.Context(), part, 0, 100))
	same(t, "the range", must[[]store.ArchivedRange](t)(w.store.ArchivedRanges(t.Context(), part, 0, 9)),
		[]store.ArchivedRange{r})
}

func appendsGoOn(t *testing.T, w *world) {
	ranged(t, w, 8)
	archive(t, w, 0, 14)
	must[store.Position](t)(w.store.Prune(t.Context(), part, 0, 100))
	w.append(t, func(b *store.Batch) { add(b, tenant, "run/over", 5, 1, "again"); add(b, tenant, "run/new", 1, 1, "x") })
	rows := must[[]store.Row](t)(w.store.Read(t.Context(), part, 14, 100))
	if len(rows) != 4 || rows[3].Position != 18 {
		t.Errorf("rows %+v", rows)
	}
	h := must[store.History](t)(w.store.Load(t.Context(), tenant, "run/over", true, encoding))
	if len(h.Rows) != 1 || h.Head.Version != 5 || !h.Head.Live {
		t.Errorf("history %+v", h)
	}
	own := acquire(t, w.store, part)
	if own.Position != 18 || own.Digest != w.own.Digest {
		t.Errorf("the next owner has %+v", own)
	}
}
