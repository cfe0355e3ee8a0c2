package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// Options are shared by all measurements.
type Options struct {
	Program   string   // path of the program fairlead, started as server and client
	Version   string   // of this program
	Folder    string   // where the temporary folder is made; "" is the system's
	Store     string   // a PostgreSQL URL for the server; "" is SQLite in the temporary folder
	Isolation string   // of the runner in `up`: auto, process or oci
	HTML      string   // path of a file that the report is also written to, as a page
	Profile   string   // path of a file for the server's processor profile of the window; "" is none
	Pprof     bool     // serve profiles without one being written
	Flags     []string // further ones of the server
	Progress  io.Writer

	lost func(error) // told when a server ends that nobody ended
}

// RunOptions are those of Run.
type RunOptions struct {
	Runs   int // whole processes of a run with one empty step
	Chains int // and of a run of ten jobs, one after the other
	Warm   int // runs before that, not counted
}

// LogOptions are those of Logs.
type LogOptions struct {
	Bytes      int64 // in all
	Runners    int   // each with one attempt that prints
	ChunkBytes int
	Rate       int64 // bytes printed in a second, in all; 0: as fast as they are acknowledged
	Followers  int   // logs that somebody watches
}

// IdleOptions are those of Idle.
type IdleOptions struct{ Seconds int }

// DispatchOptions are those of Dispatch.
type DispatchOptions struct {
	Runners int
	Jobs    int // one at a time, for the latency; and as many beside each other, for the rate
}

// stage is one measurement under way: a folder, a server in it, the report so far.
type stage struct {
	options Options
	folder  string
	server  *server
	report  *Report
	before  Usage // of the server
	own     Usage // of this process
	retries retries
}

// measure makes a folder, starts a server there, lets work measure it, and ends both.
func measure(ctx context.Context, kind string, o Options, command string, settings map[string]any,
	work func(context.Context, *stage) error) (_ *Report, err error) {
	folder, err := os.MkdirTemp(o.Folder, "fairlead-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w", kind, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	ctx, done := o.watched(ctx)
	defer done(nil)
	s := &stage{options: o, folder: folder, report: &Report{Bench: kind, Version: o.Version, Go: runtime.Version(),
		Settings: settings, Notes: []string{}}}
	if s.report.Machine, err = Describe(folder); err != nil {
		return nil, err
	}
	if s.report.Disk.Before, err = SyncTimes(folder); err != nil {
		return nil, err
	}
	s.progress("starting %s in %s", command, folder)
	if s.server, err = startServer(ctx, o, command, folder); err != nil {
		return nil, fmt.Errorf("bench %s: %w", kind, err)
	}
	defer func() { err = errors.Join(err, s.server.stop()) }()
	if s.report.Server, err = s.server.describe(ctx, o, command); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	err = work(ctx, s)
	if lost := context.Cause(ctx); err != nil && errors.Is(lost, errLost) {
		return nil, fmt.Errorf("bench %s: %w", kind, lost)
	}
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w\n%s", kind, err, s.server.words())
	}
	return s.report, s.finish()
}

// watched gives a context that also ends when a server that these options start ends by itself: a
// measurement that waits for an answer of it would wait for ever.
func (o *Options) watched(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	o.lost = cancel
	return ctx, cancel
}

// begin marks the moment from which on usage counts; a measurement calls it again when
// its preparations are done.
func (s *stage) begin() (err error) {
	if s.before, err = serverUsage(s.server.pid()); err != nil {
		return err
	}
	s.own, err = usageOf(os.Getpid())
	return err
}

// end reads what was taken since begin.
func (s *stage) end() error {
	now, err := serverUsage(s.server.pid())
	if err != nil {
		return err
	}
	s.report.Server.Usage = now.since(s.before)
	if now, err = usageOf(os.Getpid()); err != nil {
		return err
	}
	s.report.Generator = now.since(s.own)
	return nil
}

// finish completes the report after the work.
func (s *stage) finish() (err error) {
	if n, of := s.retries.count(); n > 0 {
		s.report.value("calls made again", "of the preparations, after an answer that it can't be done now",
			float64(n), "")
		s.report.note("calls were made again after: %s", of)
	}
	if s.report.Disk.After, err = SyncTimes(s.folder); err != nil {
		return err
	}
	if s.report.Machine.LoadAfter, err = Load(); err != nil {
		return err
	}
	if m := s.report.Machine; inMemory(m.FileSystem) {
		s.report.note("the folder is on %s: nothing here survives a crash, and syncing costs nothing", m.FileSystem)
	}
	if m := s.report.Machine; max(m.LoadBefore, m.LoadAfter) > float64(m.Cores) {
		s.report.note("the machine was busy with other things (load %.1f on %d cores): times are upper bounds",
			max(m.LoadBefore, m.LoadAfter), m.Cores)
	}
	return nil
}

func (s *stage) progress(format string, args ...any) {
	if s.options.Progress != nil {
		fmt.Fprintf(s.options.Progress, "bench: "+format+"\n", args...)
	}
}

// settings writes them in the order of their names.
func settings(of map[string]any) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s %v", name, of[name]))
	}
	return strings.Join(out, ", ")
}
