package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// server is a PostgreSQL server on which databases are made.
type server struct {
	admin string // URL of a database that is there
	made  atomic.Int64
}

// shown are the settings that a figure depends on.
var shown = []string{"server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method",
	"shared_buffers", "max_connections", "autovacuum"}

// durable reads the settings, and refuses a server that acknowledges what it has not synced.
func (s *server) durable(ctx context.Context) (map[string]string, error) {
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	out := map[string]string{}
	for _, name := range shown {
		var value string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return nil, fmt.Errorf("read setting %s: %w", name, err)
		}
		out[name] = value
	}
	for _, name := range []string{"fsync", "synchronous_commit"} {
		if out[name] != "on" {
			return nil, fmt.Errorf("PostgreSQL has %s=%s: commits would not be durable, and figures worth nothing", name,
				out[name])
		}
	}
	return out, nil
}

// fresh makes an empty database, and lets the server write everything back before.
func (s *server) fresh(ctx context.Context) (database string, drop func(context.Context) error, err error) {
	name := fmt.Sprintf("fairlead_compare_%d_%d", os.Getpid(), s.made.Add(1))
	if err := s.execute(ctx, "CREATE DATABASE "+name+" TEMPLATE template0", "CHECKPOINT"); err != nil {
		return "", nil, err
	}
	at, err := url.Parse(s.admin)
	if err != nil {
		return "", nil, fmt.Errorf("read URL of PostgreSQL: %w", err)
	}
	at.Path = "/" + name
	return at.String(), func(ctx context.Context) error {
		return s.execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	}, nil
}

func (s *server) execute(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	for _, statement := range statements {
		if _, err = conn.Exec(ctx, statement); err != nil {
			err = fmt.Errorf("%s: %w", statement, err)
			break
		}
	}
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
