// Package blob is the port to bytes: plans, snapshots, log segments, later artifacts
// and caches. Keys are paths made by the server, never by a client.
//
// It is deliberately not a file system: no rename, no append, no partial overwrite.
//
// Invariants: when Put returns nil the object is durable and whole; a key never changes
// its bytes; a half-written object is never visible.
//
// Read next: internal/blob/blobtest
package blob

import (
	"context"
	"errors"
	"io"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Faults, told apart with errors.Is.
var (
	// ErrNotFound: there is no such object.
	ErrNotFound = errors.New("object not found")
	// ErrExists: the key is taken. Keys never change their bytes.
	ErrExists = errors.New("object exists")
	// ErrFull: no space left; nothing was stored.
	ErrFull = errors.New("storage full")
	// ErrKey: the key is malformed (see ValidKey).
	ErrKey = errors.New("malformed object key")
)

// Entry is one listed object.
type Entry struct {
	Key  string
	Size int64
}

// Store keeps objects. All methods may be called from many goroutines.
type Store interface {
	// Put stores all of r durably, then returns. size is the exact length, or -1.
	Put(ctx context.Context, key string, r io.Reader, size int64) error
	// Open reads length bytes from offset; length -1 means to the end.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Size is the object's length in bytes.
	Size(ctx context.Context, key string) (int64, error)
	// List gives up to limit entries with the prefix, after a key, in key order.
	List(ctx context.Context, prefix, after string, limit int) ([]Entry, error)
	// Delete removes an object; removing none is no error.
	Delete(ctx context.Context, key string) error
}

// ObjectKey is the key of a content-addressed object of a tenant.
func ObjectKey(tenant domain.TenantID, digest domain.Digest) string {
	hex := digest.Hex()
	return string(tenant) + "/objects/" + hex[:2] + "/" + hex
}
