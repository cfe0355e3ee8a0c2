//go:build hold

// Package hold keeps dependencies in go.mod while rooms are built; it is removed when they all are.
package hold

import (
	_ "charm.land/lipgloss/v2"
	_ "connectrpc.com/connect/v2"
	_ "connectrpc.com/vanguard"
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/a-h/templ"
	_ "github.com/buildkite/terminal-to-html/v3"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/opencontainers/runtime-spec/specs-go"
	_ "github.com/pressly/goose/v3"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	_ "go.opentelemetry.io/otel/exporters/prometheus"
	_ "go.opentelemetry.io/otel/sdk/metric"
	_ "go.opentelemetry.io/otel/sdk/trace"
	_ "go.opentelemetry.io/otel/semconv/v1.43.0/cicdconv"
	_ "go.yaml.in/yaml/v4"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sync/singleflight"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/time/rate"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite"
	_ "mvdan.cc/sh/v3/syntax"
	_ "pgregory.net/rapid"
)
