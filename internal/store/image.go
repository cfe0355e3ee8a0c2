package store

import (
	"context"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Page says which rows of a table are read: up to Limit of them in key order, after a key
// or, going back from the end, before one. A nil key begins at the start or the end.
type Page struct {
	From  []any // values of the key columns, not part of the page
	Back  bool
	Limit int
}

// Image is a whole store at one moment, beside whoever writes to it: what backups are made
// of and what verification looks at. An Image is for one goroutine.
type Image interface {
	// Scan reads rows of a table of Schema. Where the storage below is damaged, the error
	// wraps ErrBroken, and other pages may still be read.
	Scan(ctx context.Context, table string, page Page) ([][]any, error)
	// Get reads the row with a key; ErrNotFound.
	Get(ctx context.Context, table string, key []any) ([]any, error)
	// Load is Log.Load at the image's moment.
	Load(
		ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
	) (History, error)
	// Close lets the moment go. A store can't tidy up behind an open image.
	Close() error
}

// Rewriter is one transaction over whole tables, for restoring and rebuilding. What it has
// put is seen by its own reads.
type Rewriter interface {
	// Scan, Get and Load are those of Image.
	Scan(ctx context.Context, table string, page Page) ([][]any, error)
	Get(ctx context.Context, table string, key []any) ([]any, error)
	Load(
		ctx context.Context, tenant domain.TenantID, stream domain.StreamID, withCheckpoint bool, encoding uint32,
	) (History, error)
	// Put writes rows as they are; one with a known key replaces the row that is there.
	Put(ctx context.Context, table string, rows [][]any) error
	// Delete removes rows by their key columns; removing none is no error.
	Delete(ctx context.Context, table string, keys [][]any) error
}

// Archive is the side of a database that operators use: databases have it, besides Store.
type Archive interface {
	// Image opens the store as it is now.
	Image(ctx context.Context) (Image, error)
	// Rewrite runs work in one transaction that no append can overlap: all of it is
	// durable when Rewrite returns nil, and nothing of it happened otherwise.
	Rewrite(ctx context.Context, work func(Rewriter) error) error
	// Examine looks at the storage below the tables and says what is damaged, each in one
	// line; damage is no error.
	Examine(ctx context.Context) ([]string, error)
}

// Sizer is an Archive that knows how large it is. Databases do.
type Sizer interface {
	// Size is how many bytes the tables and indexes take in the storage below, free pages
	// between them included; what was committed and not yet moved to its place may be missing.
	Size(ctx context.Context) (int64, error)
}
