package cli

import (
	"context"
	"io"
	"time"
)

// LeaseDefault is how long a lease lasts if nobody says otherwise.
const LeaseDefault = 45 * time.Second

// leaseMin is the shortest lease: a heartbeat every third of it must be possible.
const leaseMin = 100 * time.Millisecond

// ServeOptions are what `up` and `server` were asked for.
type ServeOptions struct {
	Data      string // folder of everything this server keeps
	Listen    string // HOST:PORT; port 0 takes a free one
	PublicURL string // what people and runners reach it by; empty: from Listen
	Store     string // a PostgreSQL URL; empty: SQLite in Data
	TLSCert   string
	TLSKey    string
	Pprof     string // private address for profiles; empty: none

	// Up adds a runner in the same process.
	Up         bool
	Isolation  string // of that runner: auto, process or oci
	Capacity   int
	RunnerName string
	Labels     []string

	LogForm  string // text or json
	LogLevel string

	LeaseTTL     time.Duration // how long a renewal lasts; 0: LeaseDefault
	AbandonAfter time.Duration // after the last renewal the job must be gone; 0: twice LeaseTTL
	PollEvery    time.Duration // between two looks at a polled repository's branches
	CancelGrace  time.Duration // between asking a job to stop and killing it

	Version string
	Dev     bool // pages name the file that made them
	// Stdout gets the line "ready URL"; everything else goes to Stderr.
	Stdout, Stderr io.Writer
}

// Serve runs a server until ctx ends. Only cmd/fairlead can give one, since only it wires
// the rooms of the server together.
type Serve func(ctx context.Context, o ServeOptions) error
