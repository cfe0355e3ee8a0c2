package store

import (
	"fmt"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// ColumnKind is the type of a column's values.
type ColumnKind string

// Kinds of columns. In Go their values are string, int64, bool and []byte; there is no NULL.
const (
	ColumnText   ColumnKind = "text"
	ColumnNumber ColumnKind = "number" // times are microseconds since 1970 in UTC
	ColumnTruth  ColumnKind = "truth"
	ColumnBytes  ColumnKind = "bytes"
)

// Column is one column of a Table.
type Column struct {
	Name string     `json:"name"`
	Kind ColumnKind `json:"kind"`
}

// Table is a kind of record in the form in which copies carry it: all databases have the
// same tables with the same columns.
type Table struct {
	Name    string
	Key     int // the first Key columns identify a row; rows are read in their order
	Columns []Column
	// Derived: can be made anew from the other tables. Backups leave these out.
	Derived bool
}

// Names of tables that others read by name.
const (
	TablePartitions   = "partitions"
	TableBatches      = "batches"
	TableLog          = "log"
	TableStreams      = "streams"
	TableCheckpoints  = "checkpoints"
	TableKeys         = "keys"
	TableCounters     = "counters"
	TableCursors      = "cursors"
	TableLosses       = "losses"
	TableFleet        = "fleet"
	TableRuns         = "runs"
	TableRepositories = "repositories"
	TableRunners      = "runners"

	TableArchives        = "archives"
	TableArchiveObjects  = "archive_objects"
	TableArchivedStreams = "archived_streams"
)

// Schema lists every table that a copy of a store consists of, in the order in which one
// is written. Not in it is what belongs to processes and not to history: who is alive now.
func Schema() []Table {
	t, n, b, x := ColumnText, ColumnNumber, ColumnTruth, ColumnBytes
	return []Table{
		table(TablePartitions, 1, false, "partition", t, "epoch", n, "position", n, "digest", t, "owner", t, "acquired", n),
		table(TableArchives, 2, false, "partition", t, "position", n, "first", n, "before", t, "digest", t, "epoch", n,
			"oldest", n, "newest", n, "at", n),
		table(TableArchiveObjects, 3, false, "partition", t, "position", n, "tenant", t, "object", t, "digest", t,
			"bytes", n, "rows", n, "raw", n),
		table(TableArchivedStreams, 3, false, "tenant", t, "stream", t, "position", n, "partition", t),
		table(TableBatches, 2, false, "partition", t, "position", n, "epoch", n, "digest", t, "at", n),
		table(TableLog, 2, false, "partition", t, "position", n, "tenant", t, "stream", t, "version", n, "count", n,
			"at", n, "events", x),
		table(TableKeys, 3, false, "tenant", t, "scope", t, "key", t, "body", t, "reply", x, "stream", t, "at", n,
			"expired", b),
		table(TableCounters, 2, false, "tenant", t, "name", t, "value", n),
		table(TableCursors, 2, false, "partition", t, "reactor", t, "position", n),
		table(TableLosses, 3, false, "partition", t, "epoch", n, "kind", t, "through", n, "held", n, "digest", t, "actor", t,
			"note", t, "at", n),
		table(TableFleet, 1, false, "one", n, "partitions", n, "spread", t, "format", n),
		table(TableStreams, 2, true, "tenant", t, "stream", t, "partition", t, "version", n, "live", b, "next_wake", n),
		table(TableCheckpoints, 2, true, "tenant", t, "stream", t, "version", n, "encoding", n, "state", x),
		table(TableRuns, 2, true, "tenant", t, "run", t, "partition", t, "number", n, "repository", t,
			"repository_name", t, "workflow", t, "workflow_name", t, "event", t, "ref", t, "commit_id", t, "title", t,
			"actor", t, "state", t, "desired", t, "outcome", t, "round", n, "created", n, "concluded", n),
		table(TableRepositories, 2, true, "tenant", t, "repository", t, "partition", t, "name", t, "url", t,
			"default_branch", t, "registered", n, "poll", b),
		table(TableRunners, 2, true, "tenant", t, "runner", t, "pool", t, "name", t, "labels", t, "capacity", n,
			"isolation", t, "version", t, "registered", n, "removed", n),
	}
}

func table(name string, key int, derived bool, columns ...any) Table {
	t := Table{Name: name, Key: key, Derived: derived}
	for i := 0; i < len(columns); i += 2 {
		t.Columns = append(t.Columns, Column{Name: columns[i].(string), Kind: columns[i+1].(ColumnKind)})
	}
	return t
}

// TableNamed finds a table of Schema.
func TableNamed(name string) (Table, bool) {
	for _, t := range Schema() {
		if t.Name == name {
			return t, true
		}
	}
	return Table{}, false
}

// Fits says what is wrong with a row of the table: the number of its values, the type of
// one, or text that not every database can hold.
func (t *Table) Fits(values []any) error {
	if len(values) != len(t.Columns) {
		return fmt.Errorf("row of %s: %d values, want %d: %w", t.Name, len(values), len(t.Columns), ErrInvalid)
	}
	for i, c := range t.Columns {
		ok := false
		switch v := values[i].(type) {
		case string:
			ok = c.Kind == ColumnText && ValidText(v)
		case int64:
			ok = c.Kind == ColumnNumber
		case bool:
			ok = c.Kind == ColumnTruth
		case []byte:
			ok = c.Kind == ColumnBytes
		}
		if !ok {
			return fmt.Errorf("row of %s: column %s is no %s: %w", t.Name, c.Name, c.Kind, ErrInvalid)
		}
	}
	return nil
}

// The functions below read rows of Schema's tables in the words of the port. They panic
// on rows that Fits refuses.

// PartitionOf reads a row of TablePartitions.
func PartitionOf(v []any) Ownership {
	return Ownership{Partition: domain.PartitionID(v[0].(string)), Epoch: uint64(v[1].(int64)),
		Position: Position(v[2].(int64)), Digest: domain.Digest(v[3].(string))}
}

// BatchMark is where a batch ends: its digest chains to the mark before.
type BatchMark struct {
	Partition domain.PartitionID
	Position  Position // of the batch's last row
	Epoch     uint64
	Digest    domain.Digest
	At        time.Time
}

// BatchOf reads a row of TableBatches.
func BatchOf(v []any) BatchMark {
	return BatchMark{Partition: domain.PartitionID(v[0].(string)), Position: Position(v[1].(int64)),
		Epoch: uint64(v[2].(int64)), Digest: domain.Digest(v[3].(string)), At: microTime(v[4])}
}

// LogOf reads a row of TableLog.
func LogOf(v []any) (domain.PartitionID, Row) {
	row := Row{Position: Position(v[1].(int64)), Tenant: domain.TenantID(v[2].(string)),
		Stream: domain.StreamID(v[3].(string)), Version: uint64(v[4].(int64)), Count: uint32(v[5].(int64)),
		At: microTime(v[6]), Events: v[7].([]byte)}
	if len(row.Events) == 0 {
		row.Events = nil
	}
	return domain.PartitionID(v[0].(string)), row
}

// HeadOf reads a row of TableStreams.
func HeadOf(v []any) (domain.PartitionID, Head) {
	return domain.PartitionID(v[2].(string)), Head{Tenant: domain.TenantID(v[0].(string)),
		Stream: domain.StreamID(v[1].(string)), Version: uint64(v[3].(int64)), Live: v[4].(bool), NextWake: microTime(v[5])}
}

// HeadRow is the reverse of HeadOf.
func HeadRow(p domain.PartitionID, h Head) []any {
	return []any{string(h.Tenant), string(h.Stream), string(p), int64(h.Version), h.Live, h.NextWake.UnixMicro()}
}

// LossOf reads a row of TableLosses.
func LossOf(v []any) Loss {
	return Loss{Partition: domain.PartitionID(v[0].(string)), Epoch: uint64(v[1].(int64)), Kind: v[2].(string),
		Through: Position(v[3].(int64)), Held: Position(v[4].(int64)), Digest: domain.Digest(v[5].(string)),
		Actor: v[6].(string), Note: v[7].(string), At: microTime(v[8])}
}

// LossRow is the reverse of LossOf.
func LossRow(l Loss) []any {
	return []any{string(l.Partition), int64(l.Epoch), l.Kind, int64(l.Through), int64(l.Held), string(l.Digest),
		CleanText(l.Actor), CleanText(l.Note), l.At.UnixMicro()}
}

// RangeOf reads a row of TableArchives, without its objects.
func RangeOf(v []any) ArchivedRange {
	return ArchivedRange{Partition: domain.PartitionID(v[0].(string)), To: Position(v[1].(int64)),
		From: Position(v[2].(int64)), Before: domain.Digest(v[3].(string)), Digest: domain.Digest(v[4].(string)),
		Epoch: uint64(v[5].(int64)), Oldest: microTime(v[6]), Newest: microTime(v[7]), At: microTime(v[8])}
}

// RangeRow is the reverse of RangeOf.
func RangeRow(r *ArchivedRange) []any {
	return []any{string(r.Partition), int64(r.To), int64(r.From), string(r.Before), string(r.Digest), int64(r.Epoch),
		r.Oldest.UnixMicro(), r.Newest.UnixMicro(), r.At.UnixMicro()}
}

// ArchivedObjectOf reads a row of TableArchiveObjects.
func ArchivedObjectOf(v []any) ArchivedObject {
	return ArchivedObject{Tenant: domain.TenantID(v[2].(string)), Object: v[3].(string),
		Digest: domain.Digest(v[4].(string)), Bytes: v[5].(int64), Rows: v[6].(int64), Raw: v[7].(int64)}
}

// ArchivedObjectRows are the rows of a range's objects, the one of the marks first.
func ArchivedObjectRows(r *ArchivedRange) [][]any {
	row := func(o *ArchivedObject) []any {
		return []any{string(r.Partition), int64(r.To), string(o.Tenant), o.Object, string(o.Digest), o.Bytes, o.Rows, o.Raw}
	}
	rows := [][]any{row(&r.Marks)}
	for i := range r.Objects {
		rows = append(rows, row(&r.Objects[i]))
	}
	return rows
}

func microTime(v any) time.Time { return time.UnixMicro(v.(int64)).UTC() }

// BatchRow is the reverse of BatchOf.
func BatchRow(m *BatchMark) []any {
	return []any{string(m.Partition), int64(m.Position), int64(m.Epoch), string(m.Digest), m.At.UnixMicro()}
}

// LogRow is the reverse of LogOf.
func LogRow(p domain.PartitionID, r *Row) []any {
	events := r.Events
	if events == nil {
		events = []byte{}
	}
	return []any{string(p), int64(r.Position), string(r.Tenant), string(r.Stream), int64(r.Version), int64(r.Count),
		r.At.UnixMicro(), events}
}
