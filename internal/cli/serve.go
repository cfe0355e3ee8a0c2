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

	// A fleet is several servers on one database. Shared makes this server one of them.
	Shared     string        // folder that all of them use: objects, mirrors, credentials
	Name       string        // unique among them; empty: made once, and kept in Data
	Advertise  string        // URL that the others reach it by; empty: PublicURL
	Partitions int           // of repositories and runs; 0: as recorded, else the default
	Spread     string        // of repositories over partitions: tenant or repository
	MemberTTL  time.Duration // how long a membership lasts without a renewal; 0: the default

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
	// ComponentSource is the address below which repositories are that workflows use and nobody
	// registered; "" is none.
	ComponentSource string
	PollEvery       time.Duration // between two looks at a polled repository's branches
	CancelGrace     time.Duration // between asking a job to stop and killing it
	ArchiveAfter    time.Duration // age at which history moves into objects; 0: never

	// KeepLogs is how many days sealed logs are kept, KeepLogsOf those of one class; 0: for ever.
	KeepLogs   int
	KeepLogsOf map[string]int

	// Bounds on jobs without an outcome, beyond which new work is refused; 0: none.
	OpenJobs              int // in a partition
	OpenJobsPerTenant     int
	OpenJobsPerRepository int

	Version string
	Dev     bool // pages name the file that made them
	// Stdout gets the line "ready URL"; everything else goes to Stderr.
	Stdout, Stderr io.Writer
}

// Serve runs a server until ctx ends. Only cmd/fairlead can give one, since only it wires
// the rooms of the server together.
type Serve func(ctx context.Context, o ServeOptions) error
