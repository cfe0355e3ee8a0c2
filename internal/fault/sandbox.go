package fault

import (
	"context"
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// Driver stands before an isolation driver, and before the sandboxes and commands that it
// makes. A sandbox or command whose reply was lost exists; whoever asked for it has no handle.
type Driver struct {
	isolate.Driver
	gate gate
}

// NewDriver wraps an isolation driver.
func NewDriver(d isolate.Driver, plan *Plan) *Driver {
	return &Driver{d, gate{plan, PortSandbox, func(string, How) error { return nil }}}
}

var _ isolate.Driver = (*Driver)(nil)

// Prepare implements isolate.Driver.
func (d *Driver) Prepare(ctx context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	box, err := ask(d.gate, writes("prepare"), func() (isolate.Sandbox, error) { return d.Driver.Prepare(ctx, spec) })
	if err != nil {
		return nil, err
	}
	return &sandbox{box, d.gate}, nil
}

// Cleanup implements isolate.Driver.
func (d *Driver) Cleanup(ctx context.Context, spec isolate.Spec) error {
	return d.gate.do(writes("cleanup"), func() error { return d.Driver.Cleanup(ctx, spec) })
}

type sandbox struct {
	isolate.Sandbox
	gate gate
}

// Start implements isolate.Sandbox.
func (s *sandbox) Start(ctx context.Context, c isolate.Command) (isolate.Running, error) {
	r, err := ask(s.gate, writes("start"), func() (isolate.Running, error) { return s.Sandbox.Start(ctx, c) })
	if err != nil {
		return nil, err
	}
	return &running{r, s.gate}, nil
}

// KillAll implements isolate.Sandbox.
func (s *sandbox) KillAll(ctx context.Context) error {
	return s.gate.do(writes("kill_all"), func() error { return s.Sandbox.KillAll(ctx) })
}

// Destroy implements isolate.Sandbox.
func (s *sandbox) Destroy(ctx context.Context) error {
	return s.gate.do(writes("destroy"), func() error { return s.Sandbox.Destroy(ctx) })
}

type running struct {
	isolate.Running
	gate gate
}

// Wait implements isolate.Running. It can fail only once the command has ended.
func (r *running) Wait() (isolate.Exit, error) {
	return ask(r.gate, Call{"wait", []How{After}}, r.Running.Wait)
}

// Signal implements isolate.Running.
func (r *running) Signal(sig syscall.Signal) error {
	return r.gate.do(writes("signal"), func() error { return r.Running.Signal(sig) })
}

// Kill implements isolate.Running.
func (r *running) Kill() error { return r.gate.do(writes("kill"), r.Running.Kill) }
