package sqlstore

import (
	"context"
	"time"
)

// Row is the current row of a result.
type Row interface {
	// Scan copies the columns into pointers of basic types.
	Scan(dest ...any) error
}

// Querier runs one statement that returns rows and calls each for every row in order.
// The rows come from one snapshot of the database.
type Querier interface {
	Query(ctx context.Context, query string, each func(Row) error, args ...any) error
}

// Micros is how a time is stored.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time is how a stored time is read.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// bytesOrNil makes "no bytes" one thing on every database.
func bytesOrNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
