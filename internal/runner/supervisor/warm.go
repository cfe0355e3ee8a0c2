package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// warmPatience bounds what a warm sandbox takes to start.
const warmPatience = time.Minute

// nest is a supervisor's state while it waits for its order. It refers to nothing of any job.
type nest struct {
	folder Folder
	box    isolate.Warm
	came   <-chan intaken // the order
	erased chan struct{}  // closed when the folder is gone, after take, or could not be removed
	stays  bool           // it could not be removed; to be read after erased
}

// settle starts ahead what every attempt needs, and writes down how to clean it up. A process
// that has served an attempt has rehearsed.
func settle(b Blank, drivers []isolate.Driver, came <-chan intaken, served bool) (*nest, error) {
	d, err := driverOf(b.Driver, drivers)
	if err != nil {
		return nil, err
	}
	warmer, ok := d.(isolate.Warmer)
	if !ok {
		return nil, fmt.Errorf("the isolation driver %s starts nothing ahead", b.Driver)
	}
	n := &nest{folder: Folder(b.Folder), came: came, erased: make(chan struct{})}
	if err := n.folder.save(State{
		Driver: b.Driver, Sandbox: b.Sandbox, Boot: BootID(), Pid: os.Getpid(), Born: bornAt(os.Getpid()),
	}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), warmPatience)
	defer cancel()
	if n.box, err = warmer.Warm(ctx, b.Sandbox); err != nil {
		return nil, err
	}
	if served || len(came) > 0 {
		return n, nil // a job that is there already would wait for longer than it gains
	}
	if err := rehearse(Folder(n.folder.at(rehearsed))); err != nil {
		return nil, errors.Join(err, n.leave())
	}
	return n, nil
}

// wait returns the order, or nil when there will be none: the runner is gone, the
// machine goes down, or somebody killed what was started ahead.
func (n *nest) wait(ending <-chan os.Signal) (*Order, error) {
	select {
	case a := <-n.came:
		switch {
		case a.err == nil:
			return a.Order, nil
		case over(a.err):
			return nil, nil
		}
		return nil, fmt.Errorf("read order: %w", a.err)
	case <-ending:
	case <-n.box.Gone():
	}
	return nil, nil
}

// leave ends without ever having had an order.
func (n *nest) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), destroyPatience)
	defer cancel()
	return errors.Join(n.box.Discard(ctx), isolate.Erase(string(n.folder)))
}

// take makes what was started ahead the attempt's. The folder goes afterwards, and what
// fails of that is for Sweep.
func (n *nest) take(ctx context.Context, spec isolate.Spec) (isolate.Sandbox, error) {
	box, err := n.box.Take(ctx, spec)
	go func() {
		defer close(n.erased)
		if err := isolate.Erase(string(n.folder)); err != nil {
			n.stays = true
			fmt.Fprintln(os.Stderr, "supervisor:", err)
		}
	}()
	return box, err
}

// Sweep ends a supervisor that waits in a folder, if it still does, and removes what it
// started ahead. It must not be called for one that has an order.
func Sweep(ctx context.Context, folder Folder, driver func(name string) (isolate.Driver, error)) error {
	state, err := folder.Load()
	if err == nil {
		if err := state.end(warmPatience); err != nil {
			return err
		}
		d, err := driver(state.Driver)
		if err != nil {
			return err
		}
		if err := d.Cleanup(ctx, state.Sandbox); err != nil {
			return fmt.Errorf("sweep %s: %w", folder, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return isolate.Erase(string(folder))
}
