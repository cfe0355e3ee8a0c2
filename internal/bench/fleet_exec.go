package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// fleetStage is a fleet of servers on one database, with runners that know all of them.
type fleetStage struct {
	options Options
	folder  string
	report  *Report
	flags   []string
	members []*fleetMember
	runners []*exec.Cmd
}

// fleetMember is one server of the fleet, or the place of one that was killed.
type fleetMember struct {
	name, address string
	server        *server        // nil while it is dead
	client        *client.Client // of this address; it outlives the process
}

// measureFleet starts a fleet in a folder, lets work measure it, and ends everything.
func measureFleet(ctx context.Context, kind string, o Options, of FailoverOptions, settings map[string]any,
	work func(context.Context, *fleetStage) error) (_ *Report, err error) {
	folder, err := os.MkdirTemp(o.Folder, "fairlead-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w", kind, err)
	}
	defer func() { err = errors.Join(err, removeAll(folder)) }()
	ctx, done := o.watched(ctx)
	defer done(nil)
	s := &fleetStage{options: o, folder: folder, report: &Report{Bench: kind, Version: o.Version, Go: runtime.Version(),
		Settings: settings, Notes: []string{}}}
	if s.report.Machine, err = Describe(folder); err != nil {
		return nil, err
	}
	if s.report.Disk.Before, err = SyncTimes(folder); err != nil {
		return nil, err
	}
	s.flags = []string{"--store", o.Store, "--shared", filepath.Join(folder, "shared"), "--log-level", "warn",
		"--partitions", fmt.Sprint(failoverPartitions), "--spread", "repository"}
	if of.MemberTTL > 0 {
		s.flags = append(s.flags, "--member-ttl", of.MemberTTL.String())
	}
	defer func() { err = errors.Join(err, s.end()) }()
	for i := range of.Servers {
		if err := s.add(ctx, fmt.Sprintf("server-%d", i)); err != nil {
			return nil, fmt.Errorf("bench %s: %w", kind, err)
		}
	}
	if s.report.Server, err = s.members[0].server.describe(ctx, o, "server"); err != nil {
		return nil, err
	}
	for i := range of.Runners {
		if err := s.startRunner(ctx, fmt.Sprintf("runner-%d", i), throughLabel, slotsOf(of.Runners)); err != nil {
			return nil, fmt.Errorf("bench %s: %w", kind, err)
		}
	}
	if err := s.startRunner(ctx, "runner-spare", spareLabel, spareSlots(of.Servers)); err != nil {
		return nil, fmt.Errorf("bench %s: %w", kind, err)
	}
	if err := work(ctx, s); err != nil {
		return nil, fmt.Errorf("bench %s: %w\n%s", kind, err, s.words())
	}
	if s.report.Disk.After, err = SyncTimes(folder); err != nil {
		return nil, err
	}
	s.report.Machine.LoadAfter, err = Load()
	return s.report, err
}

// removeAll tries for a moment: what runners end writes its last words.
func removeAll(folder string) (err error) {
	for range 50 {
		if err = os.RemoveAll(folder); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// add starts one more server, at an address that it keeps.
func (s *fleetStage) add(ctx context.Context, name string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a port: %w", err)
	}
	m := &fleetMember{name: name, address: l.Addr().String()}
	if err := l.Close(); err != nil {
		return fmt.Errorf("find a port: %w", err)
	}
	if err := s.start(ctx, m); err != nil {
		return err
	}
	place, err := client.LocateIn(m.server.data)
	if err != nil {
		return err
	}
	m.client, err = client.New(place.Server, place.Token, client.Options{UserAgent: "fairlead-bench/" + s.options.Version,
		Patience: time.Millisecond})
	s.members = append(s.members, m)
	return err
}

// start starts a member's process.
func (s *fleetStage) start(ctx context.Context, m *fleetMember) (err error) {
	flags := append([]string{"--name", m.name, "--listen", m.address}, s.flags...)
	m.server, err = launch(ctx, s.options, "server", filepath.Join(s.folder, m.name), flags...)
	return err
}

// startRunner starts a runner of its own that knows all servers.
func (s *fleetStage) startRunner(ctx context.Context, name, label string, slots int) error {
	token, err := s.members[0].client.Pools.CreateRegistrationToken(ctx,
		&fairleadv1.CreateRegistrationTokenRequest{Pool: "default"})
	if err != nil {
		return fmt.Errorf("make registration token: %w", err)
	}
	var servers []string
	for _, m := range s.members {
		servers = append(servers, "http://"+m.address)
	}
	program := filepath.Join(filepath.Dir(s.options.Program), "fairlead-runner")
	cmd := exec.CommandContext(ctx, program, "--server", strings.Join(servers, ","), "--token", token.GetToken(),
		"--name", name, "--data", filepath.Join(s.folder, name), "--capacity", fmt.Sprint(slots), "--labels", label,
		"--isolation", "process")
	cmd.Env = environment("")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopPatience
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start %s beside this program: %w", name, err)
	}
	s.runners = append(s.runners, cmd)
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready") {
				ready <- true
			}
		}
		close(ready)
	}()
	timer := time.NewTimer(startPatience)
	defer timer.Stop()
	select {
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("start %s: it ended at once", name)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("start %s: not ready within %s", name, startPatience)
	}
}

// end stops runners, then servers.
func (s *fleetStage) end() (err error) {
	for _, cmd := range s.runners {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its exit code is of no interest any more
	}
	for _, m := range s.members {
		if m.server != nil {
			err = errors.Join(err, m.server.stop())
		}
	}
	return err
}

// words is the end of what the servers said.
func (s *fleetStage) words() string {
	var out strings.Builder
	for _, m := range s.members {
		if m.server != nil {
			fmt.Fprintf(&out, "--- %s\n%s\n", m.name, m.server.words())
		}
	}
	return out.String()
}

func (s *fleetStage) progress(format string, args ...any) {
	if s.options.Progress != nil {
		fmt.Fprintf(s.options.Progress, "bench: "+format+"\n", args...)
	}
}

// ask does something at some server that lives, and goes on to the next while none answers.
func (s *fleetStage) ask(ctx context.Context, from int, act func(*client.Client) error) error {
	deadline := time.Now().Add(failoverPatience)
	for i := from; ; i++ {
		err := act(s.members[i%len(s.members)].client)
		if err == nil || ctx.Err() != nil || !client.Retryable(err) || time.Now().After(deadline) {
			return err
		}
		timer := time.NewTimer(failoverLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
