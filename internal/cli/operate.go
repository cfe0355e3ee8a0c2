package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Belongings say where a server keeps what it has. The commands that get them work on the
// files and the database themselves, with or without a server.
type Belongings struct {
	Data   string // folder
	Shared string // folder that the servers of a fleet share; empty: none
	Store  string // a PostgreSQL URL; empty: SQLite in Data
	// Progress is told how far a stage has come; total is 0 where it is not known.
	Progress func(stage string, done, total int64)
	Version  string
	Actor    string // who asks, for records
}

// BackupRequest asks for a backup.
type BackupRequest struct {
	Folder, Base string
	Secrets      bool
}

// RestoreRequest asks for a server's belongings to be made of a backup.
type RestoreRequest struct {
	Folder         string
	WithoutSecrets bool
}

// VerifyRequest asks for an examination.
type VerifyRequest struct {
	Backup  string // examine this backup instead of the server's belongings
	Stream  string // only this stream
	Percent int    // only this share; 0: everything
	Seed    uint64 // which share
}

// LossRequest accepts that history is gone.
type LossRequest struct {
	Partition string
	Position  uint64
	Note      string
}

// Result is what such a command came to.
type Result struct {
	Value any    // for --json
	Text  string // for people
	// Damaged: it did what it could, and something is not as it should be; exit code 1.
	Damaged bool
}

// Operator carries out what operators ask for. Only cmd/fairlead can give one, since only
// it links the rooms of the server.
type Operator interface {
	Backup(ctx context.Context, of Belongings, r BackupRequest) (Result, error)
	Restore(ctx context.Context, to Belongings, r RestoreRequest) (Result, error)
	Verify(ctx context.Context, of Belongings, r VerifyRequest) (Result, error)
	Rebuild(ctx context.Context, of Belongings, stream string) (Result, error)
	AcceptLoss(ctx context.Context, of Belongings, r LossRequest) (Result, error)
	Losses(ctx context.Context, of Belongings) (Result, error)
	Tally(ctx context.Context, of Belongings, r TallyRequest) (Result, error)
	Archive(ctx context.Context, of Belongings, r ArchiveRequest) (Result, error)
	Seed(ctx context.Context, of Belongings, r SeedRequest) (Result, error)
}

// operates gives a command the flags that name belongings, and runs work on them.
func (a *app) operates(
	command *cobra.Command, work func(ctx context.Context, of Belongings, args []string) (Result, error),
) *cobra.Command {
	var of Belongings
	flags := pflag.NewFlagSet("belongings", pflag.ContinueOnError)
	flags.StringVar(&of.Store, "store", "", "PostgreSQL `URL` (default SQLite in the data folder)")
	flags.StringVar(&of.Shared, "shared", "", "`folder` that all servers of the fleet use")
	command.Flags().AddFlagSet(flags)
	command.RunE = a.do(func(ctx context.Context, args []string) (err error) {
		if err := a.environment(flags); err != nil {
			return err
		}
		if of.Shared != "" && of.Store == "" {
			return usagef("--shared belongs to a fleet, whose servers share a database: give --store as well")
		}
		if of.Data, err = a.dataFolder(); err != nil {
			return err
		}
		if a.Operator == nil {
			return a.whole()
		}
		of.Version, of.Actor, of.Progress = a.Version, whoAsks(), newTicker(a.Stderr).tell
		got, err := work(ctx, of, args)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(got.Value)
		} else {
			_, err = fmt.Fprint(a.out, got.Text)
		}
		if err == nil && got.Damaged {
			err = &ended{ExitFailed}
		}
		return err
	})
	return a.withJSON(command)
}

// whoAsks is the person at this machine, for the record.
func whoAsks() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return name + "@" + host
}

// tickEvery is how often a person hears that something goes on.
const tickEvery = 2 * time.Second

// ticker says on standard error how far a long command has come.
type ticker struct {
	out io.Writer

	mu   sync.Mutex
	last time.Time
}

func newTicker(out io.Writer) *ticker { return &ticker{out: out, last: time.Now()} }

func (t *ticker) tell(stage string, done, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) < tickEvery {
		return
	}
	t.last = time.Now()
	switch {
	case total > 0:
		fmt.Fprintf(t.out, "fairlead: %s: %d of %d\n", stage, done, total)
	case done > 0:
		fmt.Fprintf(t.out, "fairlead: %s: %d\n", stage, done)
	default:
		fmt.Fprintf(t.out, "fairlead: %s\n", stage)
	}
}
