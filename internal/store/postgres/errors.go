package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/store"
)

// SQLSTATE codes that have a meaning for the port.
const (
	stateUniqueViolation = "23505"
	stateDiskFull        = "53100"
	stateDataCorrupted   = "XX001"
	stateIndexCorrupted  = "XX002"
	stateNoPrivilege     = "42501"
)

// asReadError is asStoreError for reads, which can also find the disk's damage. An append
// that meets it wrote nothing, and the database itself goes on: no reason to end a process.
func asReadError(err error) error {
	var failure *pgconn.PgError
	if errors.As(err, &failure) && (failure.Code == stateDataCorrupted || failure.Code == stateIndexCorrupted) {
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
	return asStoreError(err)
}

// Classes of SQLSTATE in which nothing was written and trying again can help:
// connection, a login that is refused (a password or a rule on its way to being changed),
// transaction rollback (deadlock, serialization), resources, state of an object (lock
// timeout), intervention (shutdown, statement timeout).
var retryClasses = map[string]bool{"08": true, "28": true, "40": true, "53": true, "55": true, "57": true}

// transient reports whether an error of the server is about the moment, not the statement.
// A right that is missing is one too: somebody took it and can give it back, and meanwhile
// nobody who asks did anything wrong.
func transient(code string) bool {
	return code == stateNoPrivilege || len(code) == 5 && retryClasses[code[:2]]
}

// asStoreError gives an error before COMMIT its meaning for the port: in every case
// nothing was written.
func asStoreError(err error) error {
	var failure *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &connect):
		return err
	case errors.As(err, &failure):
		switch {
		case failure.Code == stateUniqueViolation:
			return fmt.Errorf("%w: %w", store.ErrConflict, err)
		case failure.Code == stateDiskFull:
			return fmt.Errorf("%w: %w", store.ErrFull, err)
		case transient(failure.Code):
			return fmt.Errorf("%w: %w", domain.ErrRetry, err)
		}
		return err
	case errors.As(err, &connect), isConnectionLoss(err): // also a connection that took too long
		return fmt.Errorf("%w: %w", domain.ErrRetry, err)
	}
	return err
}

// isConnectionLoss reports whether the connection broke rather than the statement.
func isConnectionLoss(err error) bool {
	var network interface{ Timeout() bool } // net.Error, without the import of net
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || isEOF(err)
}

// asCommitError is for COMMIT. Only an answer of the server that its session survived
// says that nothing was written; everything else leaves the outcome open.
func asCommitError(err error) error {
	var failure *pgconn.PgError
	if err == nil {
		return nil
	}
	if errors.As(err, &failure) && failure.Severity == "ERROR" {
		return asStoreError(err)
	}
	return fmt.Errorf("commit: %w: %w", store.ErrUnknown, err)
}
