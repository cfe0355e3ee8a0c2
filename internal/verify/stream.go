package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/engine"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// streams replays every stream and compares what is stored beside its history.
func (c *check) streams(ctx context.Context) error {
	var done int64
	matched := false
	err := c.scan(ctx, store.TableStreams, func(row []any) error {
		p, head := store.HeadOf(row)
		if done++; done%progressEvery == 0 {
			c.Progress("streams", done, 0)
		}
		if c.Stream != "" && head.Stream != c.Stream || !c.chosen(string(head.Tenant)+" "+string(head.Stream), 0) {
			return nil
		}
		matched = true
		return c.stream(ctx, p, head)
	})
	if err == nil && c.Stream != "" && !matched {
		return fmt.Errorf("stream %s: %w", c.Stream, store.ErrNotFound)
	}
	return err
}

// stream examines one stream. Whatever is wrong with it stays with it.
func (c *check) stream(ctx context.Context, p domain.PartitionID, head store.Head) error {
	c.report.Streams++
	place := Finding{Partition: p, Tenant: head.Tenant, Stream: head.Stream}
	tell := func(code Code, fix, form string, args ...any) {
		f := place
		f.Code, f.Fix, f.Text = code, fix, fmt.Sprintf(form, args...)
		c.found(f)
	}
	kind := c.kinds[head.Stream.Kind()]
	if kind == nil {
		tell(UnknownKind, "use the version of fairlead that wrote it", "no such kind of stream is known")
		return nil
	}
	h, err := c.image.Load(ctx, head.Tenant, head.Stream, false, kind.Encoding)
	if c.unread(err) {
		return nil
	}
	if errors.Is(err, store.ErrBroken) {
		c.unreadable = true
		tell(StreamUnreadable, fixHistory, "its history can't be read: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	c.rowsOfStreams += int64(len(h.Rows))
	saved, err := c.checkpoint(ctx, kind, head, tell)
	if err != nil {
		return err
	}
	var follow follower
	got, err := replay(kind, p, h.Rows, follow.take)
	c.report.Events += int64(got.Events)
	var broken *Broken
	if errors.As(err, &broken) {
		place.Version, place.Position = broken.Version, broken.Position
		tell(StreamUnreadable, fixHistory, "its history can't be followed: %s", broken.Why)
		return c.references(ctx, p, head, got.State, &follow)
	}
	if err := c.compareState(ctx, kind, head, &got, tell); err != nil {
		return err
	}
	if why := saved.verdict(kind, h.Rows); why != "" {
		tell(CheckpointWrong, fixDerived, "%s", why)
	}
	return c.references(ctx, p, head, got.State, &follow)
}

type teller func(code Code, fix, form string, args ...any)

// compareState compares head and list rows with what replaying gave.
func (c *check) compareState(
	ctx context.Context, kind *engine.Kind, head store.Head, got *Replayed, tell teller,
) error {
	if err := checked(kind, got.State); err != nil {
		tell(InvariantBroken, fixHistory, "its history leads to a state that can't be: %v", err)
	}
	want := got.Head
	switch {
	case got.Version == 0:
		tell(StreamUnreadable, fixHistory, "it has a head at version %d and no history", head.Version)
		return nil
	case head.Version > got.Version:
		tell(StreamUnreadable, fixHistory, "its head is at version %d, and its history ends at %d", head.Version, got.Version)
	case head.Version != want.Version || head.Live != want.Live || !head.NextWake.Equal(store.StoredTime(want.NextWake)):
		tell(HeadWrong, fixDerived, "its head says version %d, live %v, wake %v; its history says %d, %v, %v",
			head.Version, head.Live, head.NextWake, want.Version, want.Live, want.NextWake)
	}
	return c.compareLists(ctx, got, tell)
}

func checked(kind *engine.Kind, state any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return kind.Check(state)
}

func (c *check) compareLists(ctx context.Context, got *Replayed, tell teller) error {
	rows := tableRows(got.Lists)
	for _, table := range slices.Sorted(maps.Keys(rows)) {
		t, _ := store.TableNamed(table)
		for _, want := range rows[table] {
			c.listRows[table]++
			have, err := c.image.Get(ctx, table, want[:t.Key])
			switch {
			case errors.Is(err, store.ErrNotFound):
				c.listRows[table]--
				tell(ListRowWrong, fixDerived, "its row %v in the list of %s is missing", want[:t.Key], table)
			case errors.Is(err, store.ErrBroken):
				tell(ListRowWrong, fixOfTable(table), "its row %v in the list of %s can't be read: %v", want[:t.Key], table, err)
			case err != nil:
				return err
			default:
				if differ := differing(&t, have, want); differ != "" {
					tell(ListRowWrong, fixDerived, "its row in the list of %s is wrong: %s", table, differ)
				}
			}
		}
	}
	return nil
}

// differing names the first column in which two rows differ.
func differing(t *store.Table, have, want []any) string {
	for i := range want {
		same := false
		if a, ok := have[i].([]byte); ok {
			same = bytes.Equal(a, want[i].([]byte))
		} else {
			same = have[i] == want[i]
		}
		if !same {
			return fmt.Sprintf("%s is %v, history says %v", t.Columns[i].Name, have[i], want[i])
		}
	}
	return ""
}

// saved is a stream's checkpoint.
type saved struct {
	there   bool
	version uint64
	state   []byte
}

func (c *check) checkpoint(ctx context.Context, kind *engine.Kind, head store.Head, tell teller) (*saved, error) {
	row, err := c.image.Get(ctx, store.TableCheckpoints, []any{string(head.Tenant), string(head.Stream)})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &saved{}, nil
	case errors.Is(err, store.ErrBroken):
		tell(CheckpointWrong, fixOfTable(store.TableCheckpoints), "its saved state can't be read: %v", err)
		return &saved{}, nil
	case err != nil:
		return nil, err
	}
	if uint32(row[3].(int64)) != kind.Encoding {
		return &saved{}, nil // of another encoding: nobody reads it
	}
	return &saved{there: true, version: uint64(row[2].(int64)), state: row[4].([]byte)}, nil
}

// verdict replays the rows up to the checkpoint once more and compares.
func (s *saved) verdict(kind *engine.Kind, rows []store.Row) string {
	if !s.there {
		return ""
	}
	end := slices.IndexFunc(rows, func(r store.Row) bool { return r.Version == s.version })
	if end < 0 {
		return fmt.Sprintf("its saved state is of version %d, where no row of its history ends", s.version)
	}
	state, err := kind.DecodeState(s.state)
	if err != nil {
		return fmt.Sprintf("its saved state of version %d can't be decoded: %v", s.version, err)
	}
	have, err := kind.EncodeState(state)
	if err != nil {
		return fmt.Sprintf("its saved state of version %d can't be encoded: %v", s.version, err)
	}
	then, err := replay(kind, "", rows[:end+1], nil)
	if err != nil {
		return "" // told as the stream's own damage
	}
	want, err := kind.EncodeState(then.State)
	if err != nil || !bytes.Equal(have, want) {
		return fmt.Sprintf("its saved state of version %d is not what its history leads to", s.version)
	}
	return ""
}

// missingHeads looks for history that no head leads to. It reads the log once more only if
// the rows do not add up.
func (c *check) missingHeads(ctx context.Context) error {
	if c.Percent != 0 || c.unreadable || c.report.Has(PositionGap) {
		if c.Percent != 0 {
			c.skip("history without a head, list rows of nothing, numbers given twice: a sample can't tell")
		} else {
			c.skip("history without a head: some rows can't be read, so they don't add up")
		}
		return nil
	}
	var logRows int64
	for _, p := range c.report.Partitions {
		logRows += int64(p.Position)
	}
	if logRows == c.rowsOfStreams {
		return nil
	}
	return eachHeadless(ctx, c.image, func(p domain.PartitionID, row *store.Row) error {
		c.found(Finding{Code: HeadMissing, Partition: p, Position: row.Position, Tenant: row.Tenant, Stream: row.Stream,
			Text: "the stream has history and no head, so nobody looks after it", Fix: fixDerived})
		return nil
	})
}

// eachHeadless finds the first row of every stream in the log that has no head.
func eachHeadless(ctx context.Context, from reader, each func(domain.PartitionID, *store.Row) error) error {
	known := map[string]bool{}
	return scanAll(ctx, from, store.TableLog, func(values []any) error {
		p, row := store.LogOf(values)
		id := string(row.Tenant) + " " + string(row.Stream)
		if known[id] {
			return nil
		}
		if len(known) > objectsKnownMax {
			clear(known)
		}
		known[id] = true
		_, err := from.Get(ctx, store.TableStreams, []any{string(row.Tenant), string(row.Stream)})
		if errors.Is(err, store.ErrNotFound) {
			return each(p, &row)
		}
		return err
	}, func([]any, error) {})
}

// orphans looks for list rows that no stream has. It looks for each only if they don't add up.
func (c *check) orphans(ctx context.Context) error {
	if c.Percent != 0 {
		return nil
	}
	tables := listTables()
	for _, table := range []string{store.TableRuns, store.TableRepositories, store.TableRunners} {
		var count int64
		if err := c.scan(ctx, table, func([]any) error { count++; return nil }); err != nil {
			return err
		}
		if count == c.listRows[table] {
			continue
		}
		if err := eachOrphan(ctx, c.image, table, tables[table], func(row []any, stream domain.StreamID) error {
			c.found(Finding{Code: ListRowOrphaned, Tenant: domain.TenantID(row[0].(string)), Stream: stream, Table: table,
				Row: row[1].(string), Text: fmt.Sprintf("the list of %s has a row %v of nothing", table, row[1]), Fix: fixDerived})
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func eachOrphan(
	ctx context.Context, from reader, table string, streamOf func([]any) domain.StreamID,
	each func(row []any, stream domain.StreamID) error,
) error {
	return scanAll(ctx, from, table, func(row []any) error {
		stream := streamOf(row)
		_, err := from.Get(ctx, store.TableStreams, []any{row[0], string(stream)})
		if errors.Is(err, store.ErrNotFound) {
			return each(row, stream)
		}
		return err
	}, func([]any, error) {})
}
