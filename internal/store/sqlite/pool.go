package sqlite

import (
	"context"
	"database/sql"
	"sync"

	"github.com/fairlead-ci/fairlead/internal/store/sqlstore"
)

// pool reads. Every statement is one read transaction, and sees whole batches only.
type pool struct {
	db *sql.DB

	mu       sync.RWMutex // guards prepared
	prepared map[string]*sql.Stmt
}

var _ sqlstore.Querier = (*pool)(nil)

func openPool(source string, conns int) (*pool, error) {
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, err
	}
	if conns < 1 {
		conns = readersMax
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(min(readersKept, conns))
	db.SetConnMaxIdleTime(readerIdle)
	return &pool{db: db, prepared: map[string]*sql.Stmt{}}, nil
}

// Query implements sqlstore.Querier.
func (p *pool) Query(ctx context.Context, query string, each func(sqlstore.Row) error, args ...any) error {
	stmt, err := p.statement(ctx, query)
	if err != nil {
		return asStoreError(err)
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return asStoreError(err)
	}
	for rows.Next() {
		if err := each(rows); err != nil {
			_ = rows.Close()
			return err
		}
	}
	if err := rows.Err(); err != nil {
		_ = rows.Close()
		return asStoreError(err)
	}
	return asStoreError(rows.Close())
}

// statement parses each text once. There are few texts: the fixed ones, and one for
// every combination of filters of a list.
func (p *pool) statement(ctx context.Context, query string) (*sql.Stmt, error) {
	p.mu.RLock()
	stmt := p.prepared[query]
	p.mu.RUnlock()
	if stmt != nil {
		return stmt, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if stmt := p.prepared[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := p.db.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p.prepared[query] = stmt
	return stmt, nil
}

func (p *pool) close() error { return p.db.Close() }
