package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/isolate/inside"
	"github.com/fairlead-ci/fairlead/internal/runner/supervisor"
)

// Config says what a runner is.
type Config struct {
	Server   string // base URL; of a fleet, those of several servers, separated by commas
	Token    string // one-time registration token; needed until the runner is registered
	Name     string // unique in its pool
	Data     string // folder of its own; one runner at a time
	Labels   []string
	Capacity int // slots; 0 means 1
	// Driver isolates jobs, and Report is what its Probe found.
	Driver isolate.Driver
	Report isolate.Report
	// Drivers are all there are: an earlier process may have used another one.
	Drivers []isolate.Driver
	// Mask lists further paths that jobs must not see where the driver has walls. The
	// runner's own folder is always among them.
	Mask []string
	// PassEnv names further variables of this process that steps get; see passed.
	PassEnv []string
	// Cold starts no supervisor before there is an attempt for it.
	Cold    bool
	Version string
	Logger  *slog.Logger
	// Ready is called once, when the server has accepted the runner's offers.
	Ready func(Ready)

	program string // what supervisors are started from; "" is this program
	servers *servers
}

// Ready is what there is to tell people when a runner can take work.
type Ready struct {
	Name, Runner, Pool string
	Isolation, Reason  string
	Capacity           int
}

// passed lists the variables of the runner's machine that steps get if they are set.
// Everything else stays outside.
var passed = []string{
	"PATH", "LANG", "LC_ALL", "TZ", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// pathDefault is for a runner that was started without a PATH.
const pathDefault = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// MaybeSupervise turns the process into one of the two that a runner starts of its own
// program, a supervisor or the init of a sandbox, and then never returns. Every program
// that calls Run calls it first thing in main.
func MaybeSupervise(drivers ...isolate.Driver) {
	inside.Maybe()
	supervisor.Maybe(drivers)
}

// complete fills in defaults and refuses what can't work.
func (c *Config) complete() error {
	var err error
	if c.servers, err = parseServers(c.Server); err != nil {
		return err
	}
	c.Server = c.servers.text()
	if c.Data == "" || c.Name == "" {
		return errors.New("configure runner: it needs a name and a data folder")
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return fmt.Errorf("configure runner: %w", err)
	}
	if c.Capacity == 0 {
		c.Capacity = 1
	}
	if c.Capacity < 1 || c.Capacity > CapacityMax {
		return fmt.Errorf("configure runner: capacity %d is not between 1 and %d", c.Capacity, CapacityMax)
	}
	if c.Driver == nil {
		return errors.New("configure runner: it needs an isolation driver")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func(Ready) {}
	}
	slices.Sort(c.Labels)
	c.Labels = slices.Compact(c.Labels)
	return nil
}

// env is what steps get of this machine's environment.
func (c *Config) env() []string {
	var out []string
	for _, name := range slices.Concat(passed, c.PassEnv) {
		value, ok := os.LookupEnv(name)
		if name == "PATH" && value == "" {
			value, ok = pathDefault, true
		}
		if ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// sandbox describes a sandbox of this runner.
func (c *Config) sandbox(id string, folder supervisor.Folder, network string) isolate.Spec {
	return isolate.Spec{
		ID: id, Dir: folder.Box(), Choice: c.Report.Choice, Mask: slices.Concat(c.Mask, []string{c.Data}), Network: network,
	}
}

func (c *Config) driver(name string) (isolate.Driver, error) {
	for _, d := range slices.Concat([]isolate.Driver{c.Driver}, c.Drivers) {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("no isolation driver is called %q", name)
}

func platform() (string, string) { return runtime.GOOS, runtime.GOARCH }
