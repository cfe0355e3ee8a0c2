package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/runner/job"
)

// Arg as first argument makes the program a supervisor.
const Arg = "__fairlead-supervise"

// orderFD is where a supervisor finds the socket that its runner tells it on what to do.
const orderFD = 0

// Limits.
const (
	// controlBytesMax bounds a message on the socket.
	controlBytesMax = 64 << 10
	// orderBytesMax bounds the order: a manifest and a little more.
	orderBytesMax = manifest.MaxBytes + 1<<20
	// marginPart and marginMax: the killing starts this much before abandonBy, so that
	// it is over by then: a fifth of what is left of the lease, at most five seconds.
	marginPart = 5
	marginMax  = 5 * time.Second
	// stallPatience is how long a step that has filled the spool waits for a server which
	// takes nothing. After that its output is dropped, and marked.
	stallPatience = 5 * time.Second
	// destroyPatience is how long a sandbox may take to disappear.
	destroyPatience = 2 * time.Minute
)

// Blank is what a supervisor gets that is started before there is an attempt for it.
type Blank struct {
	Folder string `json:"folder"` // its own, absolute
	Driver string `json:"driver"`
	// Sandbox is what is started ahead: like that of the attempts to come, but with an ID
	// and a folder of its own.
	Sandbox isolate.Spec `json:"sandbox"`
	// Said is set when a file to print into comes with it: the one of before was the last
	// attempt's.
	Said bool `json:"said,omitempty"`
}

// instruction is a message of the runner on the order socket. An order comes with two
// files: the socket to listen on, and where to print.
type instruction struct {
	Blank *Blank `json:"blank,omitempty"`
	Order *Order `json:"order,omitempty"`
}

// Order is what a runner hands to a supervisor, once.
type Order struct {
	Folder   string             `json:"folder"` // the attempt's own, absolute
	Driver   string             `json:"driver"`
	Sandbox  isolate.Spec       `json:"sandbox"`
	Manifest *manifest.Manifest `json:"manifest"`
	Server   string             `json:"server"`
	Runner   job.Runner         `json:"runner"`
	Env      []string           `json:"env"`
	// AbandonAt is when nothing of the job may be alive unless it was extended.
	AbandonAt Instant `json:"abandon_at"`
	// SpoolBytesMax bounds chunks that wait for the server; 0 means the default.
	SpoolBytesMax int64 `json:"spool_bytes_max,omitempty"`
}

// State is what the folder says about its attempt. It is replaced as a whole. That of a
// supervisor which waits for an order has no attempt.
type State struct {
	Attempt   domain.AttemptID `json:"attempt"`
	Epoch     uint64           `json:"epoch"`
	Slot      domain.SlotToken `json:"slot"`
	Driver    string           `json:"driver"`
	Sandbox   isolate.Spec     `json:"sandbox"`
	Effectful bool             `json:"effectful"`
	// Steps are the names of the steps, for the result of an attempt whose supervisor died.
	Steps []string `json:"steps"`
	// Boot identifies the boot of the machine that AbandonAt belongs to.
	Boot      string  `json:"boot"`
	AbandonAt Instant `json:"abandon_at"`
	// Pid and Born identify the supervisor's process; Born is its start time in ticks.
	Pid  int    `json:"pid"`
	Born string `json:"born"`
	// Started is set before the first step of the author's runs: from then on a death
	// without result leaves side effects unknown.
	Started bool `json:"started"`
	// Warm is the folder in which the supervisor waited for its order, if it did.
	Warm Folder `json:"warm,omitempty"`
}

// Folder gives the paths within an attempt's folder.
type Folder string

func (f Folder) at(name string) string { return filepath.Join(string(f), name) }

// Spool is where what the attempt has to tell is kept.
func (f Folder) Spool() string { return f.at("spool") }

// Box is where the sandbox lives.
func (f Folder) Box() string { return f.at("box") }

// Said is where a supervisor prints what it can't report otherwise.
func (f Folder) Said() string { return f.at("supervisor.log") }

func (f Folder) socket() string { return f.at("control.sock") }

func (f Folder) state() string { return f.at("state.json") }

// Load reads the state. A folder without one was never begun: fs.ErrNotExist.
func (f Folder) Load() (State, error) {
	var s State
	text, err := os.ReadFile(f.state())
	if err != nil {
		return s, fmt.Errorf("load attempt state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("load attempt state %s: %w", f.state(), err)
	}
	return s, nil
}

// save replaces the state at once: a reader sees the old one or the new one.
func (f Folder) save(s State) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("save attempt state: %w", err)
	}
	next := f.state() + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return fmt.Errorf("save attempt state: %w", err)
	}
	if err := os.Rename(next, f.state()); err != nil {
		return fmt.Errorf("save attempt state: %w", err)
	}
	return nil
}

// bornAt is when a process started, in ticks since boot: with its id it names the
// process for good.
func bornAt(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	const startTime = 19 // counted from after the parenthesis that ends the name
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) <= startTime {
		return ""
	}
	return fields[startTime]
}

// BootID names the current boot of the machine.
func BootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Operations of the runner, and events of the supervisor.
const (
	opExtend = "extend"
	opCancel = "cancel"
	opKill   = "kill"
	opAck    = "ack"

	// evSpooled says that there is more in the spool.
	evSpooled = "spooled"
)

// control is a message on the socket, in either direction: one JSON text a line.
type control struct {
	Op        string  `json:"op"`
	AbandonAt Instant `json:"abandon_at,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	GraceMS   int64   `json:"grace_ms,omitempty"`
	Chunks    uint64  `json:"chunks,omitempty"`
	Progress  uint64  `json:"progress,omitempty"`
}

// Begun reports whether a supervisor has taken up the attempt.
func (f Folder) Begun() bool {
	_, err := os.Lstat(f.state())
	return !errors.Is(err, fs.ErrNotExist)
}

// Finished reports whether the folder's sandbox is gone from disk.
func (f Folder) Finished() bool {
	_, err := os.Lstat(f.Box())
	return errors.Is(err, fs.ErrNotExist)
}
