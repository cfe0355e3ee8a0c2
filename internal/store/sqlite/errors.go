package sqlite

import (
	"context"
	"errors"
	"fmt"

	moderncsqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// asStoreError gives an error of SQLite its meaning for the port. It is for statements
// before the commit; asCommitError is stricter.
func asStoreError(err error) error {
	var failure *moderncsqlite.Error
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if !errors.As(err, &failure) {
		return err
	}
	meaning := store.ErrBroken
	switch failure.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		meaning = store.ErrFull
	case sqlite3.SQLITE_CONSTRAINT:
		meaning = store.ErrConflict
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT:
		meaning = domain.ErrRetry
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM:
		meaning = domain.ErrRetry // the process is out of files or memory; the disk is not at fault
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_TOOBIG:
		return err // a defect of a statement or a value, not of the disk
	case sqlite3.SQLITE_IOERR:
		if failure.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
			// The index of the write-ahead log could not grow: no space, and nothing written.
			meaning = store.ErrFull
		}
	}
	return fmt.Errorf("%w: %w", meaning, err)
}

// asCommitError is for COMMIT: either there was no space for the pages, and SQLite has
// rolled back; or nobody knows what the disk holds.
func asCommitError(err error) error {
	var failure *moderncsqlite.Error
	if err == nil {
		return nil
	}
	if errors.As(err, &failure) && failure.Code()&0xff == sqlite3.SQLITE_FULL {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return fmt.Errorf("commit: %w: %w", store.ErrBroken, err)
}
