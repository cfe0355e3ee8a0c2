// Package isolate is the port between the runner and whatever keeps a job's processes
// and files apart from the machine: a Driver prepares one Sandbox per attempt, and the
// attempt's steps run inside it as commands.
//
// It is deliberately not a container engine: no images, no registries, no networks of
// its own. It knows nothing of steps, leases or logs either; those are the runner's.
//
// Invariants: a sandbox is prepared once per attempt and never used by another; after
// KillAll no process of a command exists, whatever it did to hide; after Destroy nothing
// of the sandbox itself and its storage exists; both can be repeated; Cleanup does the same for a sandbox whose
// owner has died, from its Spec alone.
//
// Read next: inside/doc.go, process/driver.go, oci/driver.go, isolatetest/suite.go
package isolate

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// Names of the drivers.
const (
	Process = "process" // plain processes: for pools of trusted work only
	OCI     = "oci"     // a container made by an OCI runtime
)

// Marker is the environment variable that every process of a sandbox carries; its
// value is Spec.ID. Where no cgroup can be made it is one of two ways to find what a
// dead owner left behind.
const Marker = "FAIRLEAD_ATTEMPT"

// Faults of a sandbox.
var (
	// ErrProgramNotFound: the command's program does not exist inside the sandbox.
	ErrProgramNotFound = errors.New("program not found")
	// ErrUnstartable: the command can't be started as it was asked for: its folder is not
	// there, its arguments or variables are too long. The sandbox is not to blame.
	ErrUnstartable = errors.New("the command can't be started like this")
	// ErrGone: the sandbox has ended, by KillAll or by a violent death.
	ErrGone = errors.New("sandbox is gone")
	// ErrUnavailable: the driver can't work on this machine; the text says what to do.
	ErrUnavailable = errors.New("isolation driver is unavailable")
	// ErrUnsupported: the driver can't give what the spec asks for.
	ErrUnsupported = errors.New("not supported by the isolation driver")
)

// Driver makes sandboxes. Its methods may be called from any goroutine.
type Driver interface {
	// Name is one of the constants above; it is what a runner registers with.
	Name() string
	// Probe finds out by doing whether the driver works here. The error wraps
	// ErrUnavailable and says what is missing.
	Probe(ctx context.Context) (Report, error)
	// Prepare makes an empty sandbox and starts what steps are started by.
	Prepare(ctx context.Context, spec Spec) (Sandbox, error)
	// Cleanup removes what is left of a sandbox whose owner has died: its processes,
	// its container and its storage. It is not an error if nothing is left.
	Cleanup(ctx context.Context, spec Spec) error
}

// Report says what Probe found.
type Report struct {
	// Choice is the driver's own note of what it will use; it goes into Spec.Choice.
	Choice string `json:"choice"`
	// Reason is one sentence for people: what is used, and why not something better.
	Reason string `json:"reason"`
}

// Spec describes one sandbox. It is small and plain so that it can be kept on disk for
// Cleanup.
type Spec struct {
	ID     string `json:"id"`  // unique, and safe as a file name
	Dir    string `json:"dir"` // absolute; created, owned and erased by the driver
	Choice string `json:"choice,omitempty"`
	// Mask lists absolute paths of the machine that the sandbox must not see. The
	// process driver can't honour it, which is why it is for trusted work only.
	Mask []string `json:"mask,omitempty"`
	// Network is "pool" (whatever the pool's machine can reach) or "none".
	Network string `json:"network,omitempty"`
	Limits  Limits `json:"limits"`
	// Warm is the ID under which the sandbox was started, if that was before it was
	// anybody's; see Warmer. What can't be renamed, as a container or a cgroup, keeps it.
	Warm string `json:"warm,omitempty"`
}

// Born is the ID under which the sandbox was started.
func (s Spec) Born() string { return cmp.Or(s.Warm, s.ID) }

// Limits bound a sandbox. Zero means the driver's default.
type Limits struct {
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	PidsMax     int64 `json:"pids_max,omitempty"`
}

// Paths are the folders of a sandbox.
type Paths struct {
	Workspace string // where steps work
	Temp      string // RUNNER_TEMP and TMPDIR
	Home      string // HOME
	Files     string // scripts and command files, exchanged with the runner
	Source    string // filled by the runner, read-only to steps where the driver can
	Tools     string // RUNNER_TOOL_CACHE
}

// Sandbox holds the processes and files of one attempt.
type Sandbox interface {
	// Inside gives the folders as steps see them, Outside as the runner sees them.
	//
	// Trust: all but Source can be changed by the job at any time, so the runner opens
	// what is in them through os.Root and follows no link.
	Inside() Paths
	Outside() Paths
	// Start runs a command. The error wraps ErrProgramNotFound, ErrUnstartable or ErrGone where
	// it applies; any other is a fault of the sandbox.
	Start(ctx context.Context, c Command) (Running, error)
	// Gone is closed when the sandbox has ended.
	Gone() <-chan struct{}
	// KillAll ends every process that commands started and returns when none is left. The
	// sandbox's own may still be on their way out, but run nothing any more: they were
	// killed, and Destroy waits for them.
	KillAll(ctx context.Context) error
	// Destroy is KillAll and then erases everything the sandbox stored.
	Destroy(ctx context.Context) error
}

// Command is a program to run in a sandbox, in a session and process group of its own.
type Command struct {
	Args []string // Args[0] is looked up in the PATH of Env, inside
	Env  []string // exactly this, and Marker
	Dir  string   // as seen inside
	// Stdout and Stderr may be the same file; standard input is empty.
	Stdout, Stderr *os.File
}

// Running is a started command.
type Running interface {
	// Wait returns how the command itself ended; processes it started may still run.
	// The error wraps ErrGone if the sandbox ended first.
	Wait() (Exit, error)
	// Signal sends a signal to the command's process group.
	Signal(sig syscall.Signal) error
	// Kill ends the command with all processes of its session and all its descendants.
	Kill() error
}

// Exit says how a command ended.
type Exit struct {
	Code   int            // exit code; 128 + Signal when a signal ended it
	Signal syscall.Signal // 0 when it exited by itself
}

// String is for people: "exit code 2" or "signal 9 (killed)".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal " + strconv.Itoa(int(e.Signal)) + " (" + e.Signal.String() + ")"
	}
	return "exit code " + strconv.Itoa(e.Code)
}
