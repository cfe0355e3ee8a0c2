package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// Code names a kind of damage. Codes are stable; docs/ops/backup.md explains each.
type Code string

// Codes of findings.
const (
	StorageDamaged   Code = "storage_damaged"    // the database's own check complains
	TableUnreadable  Code = "table_unreadable"   // rows of a table can't be read
	RowUnreadable    Code = "row_unreadable"     // a row of the log can't be read
	PositionGap      Code = "position_gap"       // a position of the log is missing
	BatchWrong       Code = "batch_digest_wrong" // rows are not those that were committed
	TailWrong        Code = "tail_wrong"         // the log does not end where its partition says
	StreamUnreadable Code = "stream_unreadable"  // a stream's history can't be read or replayed
	InvariantBroken  Code = "invariant_broken"   // the state that history leads to can't be
	HeadWrong        Code = "head_wrong"         // a stream's head is not what history leads to
	HeadMissing      Code = "head_missing"       // history of a stream without a head
	CheckpointWrong  Code = "checkpoint_wrong"   // a saved state is not what history leads to
	ListRowWrong     Code = "list_row_wrong"     // a list row is missing or says something else
	ListRowOrphaned  Code = "list_row_orphaned"  // a list row of nothing
	KeyOrphaned      Code = "key_orphaned"       // a key that leads to no stream
	CounterLow       Code = "counter_low"        // a counter that would give a number twice
	NumberTwice      Code = "number_twice"       // two runs have one number
	CursorAhead      Code = "cursor_ahead"       // a reactor is beyond the log's end
	ObjectMissing    Code = "object_missing"     // history names an object that is not there
	ObjectDamaged    Code = "object_damaged"     // an object has other bytes than its name says
	LogDamaged       Code = "log_damaged"        // a sealed log can't be decoded
	LogIncomplete    Code = "log_incomplete"     // acknowledged chunks of an open log are missing
	SegmentDamaged   Code = "segment_damaged"    // a segment of open logs can't be read
	CommitMissing    Code = "commit_missing"     // a run's commit is not in its mirror
	ArchiveMissing   Code = "archive_missing"    // an object of the archive is not there
	ArchiveDamaged   Code = "archive_damaged"    // an object of the archive is not what was archived
	ArchiveGap       Code = "archive_gap"        // the ranges of the archive don't follow each other
	UnknownKind      Code = "unknown_kind"       // a stream of a kind that this program does not know
)

// What to do about findings.
const (
	fixDerived = "fairlead admin rebuild-projections makes it anew from events"
	fixHistory = "the stream is quarantined and everything else goes on; restore a backup to have it back"
	fixObject  = "put the object back from a backup; everything else goes on"
	fixArchive = "put the object back from a backup; until then its runs answer an error, and everything else goes on"
	fixStorage = "check the disk, then restore a backup into another folder or database"
)

// Finding is one damaged place. Fields that do not apply are zero.
type Finding struct {
	Code      Code               `json:"code"`
	Partition domain.PartitionID `json:"partition,omitempty"`
	Position  store.Position     `json:"position,omitempty"`
	Tenant    domain.TenantID    `json:"tenant,omitempty"`
	Stream    domain.StreamID    `json:"stream,omitempty"`
	Version   uint64             `json:"version,omitempty"`
	Object    string             `json:"object,omitempty"`
	Table     string             `json:"table,omitempty"`
	Row       string             `json:"row,omitempty"` // which row of the table, where it has no place of its own
	Text      string             `json:"text"`
	Fix       string             `json:"fix"`
}

// Place is where the damage is, in one phrase.
func (f *Finding) Place() string {
	var parts []string
	add := func(form string, value any, there bool) {
		if there {
			parts = append(parts, fmt.Sprintf(form, value))
		}
	}
	add("partition %v", f.Partition, f.Partition != "")
	add("position %v", f.Position, f.Position != 0)
	add("stream %v", f.Stream, f.Stream != "")
	add("version %v", f.Version, f.Version != 0)
	add("object %v", f.Object, f.Object != "")
	add("table %v", f.Table, f.Table != "")
	add("row %v", f.Row, f.Row != "")
	return strings.Join(parts, ", ")
}

// Report is what an examination came to.
type Report struct {
	At         time.Time         `json:"at"`
	Took       time.Duration     `json:"took_ns"`
	Partitions []store.Ownership `json:"-"`
	Sampled    int               `json:"sampled_percent,omitempty"` // 0: everything
	Stream     domain.StreamID   `json:"stream,omitempty"`          // the only one that was examined

	Rows    int64 `json:"rows"`
	Streams int64 `json:"streams"`
	Events  int64 `json:"events"`
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"object_bytes"`
	Logs    int64 `json:"logs"`
	Removed int64 `json:"removed_logs,omitempty"` // of Logs: because they are not kept so long
	Keys    int64 `json:"keys"`

	// NotExamined says what was left out, and why.
	NotExamined []string  `json:"not_examined,omitempty"`
	Findings    []Finding `json:"findings"`
	// More is how many findings there were beyond those that are listed.
	More int64 `json:"more_findings,omitempty"`
}

// Damaged reports whether anything was found.
func (r *Report) Damaged() bool { return len(r.Findings) > 0 }

// Has reports whether there is a finding of that code.
func (r *Report) Has(code Code) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Code == code })
}

// findingsMax bounds the list of a report: whoever has more has lost the store.
const findingsMax = 10_000
