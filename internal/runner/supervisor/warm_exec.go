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
	given  chan *Handle // of the attempt that it has
	ready  chan struct{}
	free   chan struct{}
	gone   chan struct{}
}

func newWarm(b Blank, d isolate.Driver, p *process) *Warm {
	w := &Warm{
		blank: b, driver: d, p: p, given: make(chan *Handle, 1),
		ready: make(chan struct{}), free: make(chan struct{}), gone: make(chan struct{}),
	}
	go w.read()
	return w
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
	w := newWarm(b, d, p)
	if err := tell(p.conn, instruction{Blank: &b}); err != nil {
		_ = p.cmd.Process.Kill()
		return fail(err)
	}
	return w, nil
}

// Renew has the process of one that is Free wait for the next attempt, in a folder and with a
// sandbox of their own. It is used up by that; after an error its process is gone.
func (w *Warm) Renew(b Blank) (*Warm, error) {
	fail := func(err error) (*Warm, error) {
		_ = w.p.cmd.Process.Kill()
		<-w.gone
		return nil, fmt.Errorf("have a supervisor wait again: %w", err)
	}
	// What was said to the attempt that it had must not reach the next one.
	<-(<-w.given).Gone()
	if err := os.MkdirAll(b.Folder, 0o700); err != nil {
		return fail(err)
	}
	said, err := openSaid(Folder(b.Folder))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = said.Close() }()
	next := newWarm(b, w.driver, w.p)
	b.Said = true
	if err := tell(w.p.conn, instruction{Blank: &b}, said); err != nil {
		return fail(err)
	}
	return next, nil
}

// read waits for the byte that says that everything is there, for the one that says that it is
// free again, and for the end.
func (w *Warm) read() {
	var said [1]byte
	for {
		n, err := w.p.conn.Read(said[:])
		if n != 1 || err != nil {
			break
		}
		if said[0] == saidReady {
			close(w.ready)
			continue
		}
		close(w.free) // what comes from now on is for the next one
		break
	}
	<-w.p.ended
	close(w.gone)
}

// Ready is closed when everything was started that can be.
func (w *Warm) Ready() <-chan struct{} { return w.ready }

// Free is closed when the process has done with its attempt and may have another.
func (w *Warm) Free() <-chan struct{} { return w.free }

// Release says that it will not have another. It ends when it has done with the one it has.
func (w *Warm) Release() { w.p.leave() }

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
			w.given <- h
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
