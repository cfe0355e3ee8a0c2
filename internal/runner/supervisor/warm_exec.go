package supervisor

import (
	"context"
	"fmt"
	"os"

	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// Warm is the runner's side of a supervisor that waits for an order.
type Warm struct {
	blank  Blank
	driver isolate.Driver
	p      *process
	ready  chan struct{}
	gone   chan struct{}
}

// WarmUp starts a supervisor that has no attempt yet. It can be given one at once; until
// Ready is closed it only has less of a head start.
func WarmUp(program string, b Blank, d isolate.Driver) (*Warm, error) {
	fail := func(err error) (*Warm, error) { return nil, fmt.Errorf("start a supervisor ahead: %w", err) }
	if err := os.MkdirAll(b.Folder, 0o700); err != nil {
		return fail(err)
	}
	said, err := openSaid(Folder(b.Folder))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = said.Close() }()
	p, err := start(program, b.Sandbox.ID, said)
	if err != nil {
		return fail(err)
	}
	w := &Warm{blank: b, driver: d, p: p, ready: make(chan struct{}), gone: make(chan struct{})}
	go w.read()
	if err := tell(p.conn, instruction{Blank: &b}); err != nil {
		_ = p.cmd.Process.Kill()
		return fail(err)
	}
	return w, nil
}

// read waits for the one byte that says that everything is there, and for the end.
func (w *Warm) read() {
	var said [1]byte
	if n, err := w.p.conn.Read(said[:]); n == 1 && err == nil {
		close(w.ready)
	}
	<-w.p.ended
	close(w.gone)
}

// Ready is closed when everything was started that can be.
func (w *Warm) Ready() <-chan struct{} { return w.ready }

// Gone is closed when the process has ended.
func (w *Warm) Gone() <-chan struct{} { return w.gone }

// Fits reports whether the supervisor can be given an attempt with such a sandbox.
func (w *Warm) Fits(spec isolate.Spec) bool {
	select {
	case <-w.gone:
		return false
	default:
		return isolate.Alike(w.blank.Sandbox, spec)
	}
}

// Give hands over the order. Afterwards the supervisor is like one that Spawn started;
// after an error it is gone, and the attempt has not begun.
func (w *Warm) Give(order Order) (*Handle, error) {
	place, err := furnish(Folder(order.Folder))
	if err == nil {
		defer place.close()
		order.Sandbox.Warm = w.blank.Sandbox.ID
		var h *Handle
		if h, err = w.p.give(order, place); err == nil {
			return h, nil
		}
	}
	_ = w.p.cmd.Process.Kill()
	<-w.gone
	return nil, fmt.Errorf("give %s to a waiting supervisor: %w", order.Manifest.Attempt, err)
}

// LastWords is the end of what it printed.
func (w *Warm) LastWords() string { return lastWords(Folder(w.blank.Folder)) }

// Clear removes what a supervisor left that has ended without an order.
func (w *Warm) Clear(ctx context.Context) error {
	return Sweep(ctx, Folder(w.blank.Folder), func(string) (isolate.Driver, error) { return w.driver, nil })
}

// Dismiss lets a supervisor go that is not needed any more, and waits until nothing of it
// is left.
func (w *Warm) Dismiss(ctx context.Context) error {
	_ = w.p.conn.Close()
	select {
	case <-w.gone:
	case <-ctx.Done():
	}
	return w.Clear(ctx)
}
