package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Migrate brings the schema up to date. Migrations only add (expand, then contract in a
// later release), so servers of two neighbouring versions can share a database.
// The caller keeps others from migrating at the same time.
func Migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS) error {
	provider, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate schema: %w", err)
	}
	return nil
}
