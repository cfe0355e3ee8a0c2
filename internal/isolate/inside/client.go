package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/fairlead-ci/fairlead/internal/isolate"
)

// Client is the owner's side: it starts commands through the init of one sandbox.
type Client struct {
	conn  *net.UnixConn
	mark  string
	hello chan struct{}
	gone  chan struct{}

	// sendMu serialises messages; it is never held together with mu.
	sendMu sync.Mutex
	// mu guards what follows.
	mu      sync.Mutex
	next    uint64
	pid     int
	waiting map[uint64]chan reply // for the answer to a start or a kill_all
	running map[uint64]*command
}

// NewClient makes a client and the file that the init must get as descriptor 3. The
// caller closes the file once the init has it. id is the value of isolate.Marker.
func NewClient(id string) (*Client, *os.File, error) {
	conn, child, err := pair()
	if err != nil {
		return nil, nil, err
	}
	c := &Client{
		conn:    conn,
		mark:    isolate.Marker + "=" + id,
		hello:   make(chan struct{}),
		gone:    make(chan struct{}),
		waiting: make(map[uint64]chan reply),
		running: make(map[uint64]*command),
	}
	go c.read()
	return c, child, nil
}

// Hello waits until the init is there.
func (c *Client) Hello(ctx context.Context) error {
	select {
	case <-c.hello:
		return nil
	case <-c.gone:
		return fmt.Errorf("wait for the sandbox's init: %w", isolate.ErrGone)
	case <-ctx.Done():
		return fmt.Errorf("wait for the sandbox's init: %w", context.Cause(ctx))
	}
}

// Gone is closed when the init has ended or was let go.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close lets the init go; it kills all it started and ends.
func (c *Client) Close() { _ = c.conn.Close() }

func (c *Client) read() {
	greeted := false
	for {
		var r reply
		if _, err := receive(c.conn, &r); err != nil {
			break
		}
		switch r.Event {
		case evHello:
			if !greeted {
				greeted = true
				c.mu.Lock()
				c.pid = r.Pid
				c.mu.Unlock()
				close(c.hello)
			}
		case evExited:
			c.mu.Lock()
			cmd := c.running[r.ID]
			delete(c.running, r.ID)
			c.mu.Unlock()
			if cmd != nil {
				cmd.exit = isolate.Exit{Code: r.Code, Signal: syscall.Signal(r.Signal)}
				close(cmd.done)
			}
		default:
			c.mu.Lock()
			to := c.waiting[r.ID]
			delete(c.waiting, r.ID)
			c.mu.Unlock()
			if to != nil {
				to <- r
			}
		}
	}
	c.mu.Lock()
	left := c.running
	c.running = make(map[uint64]*command)
	c.mu.Unlock()
	for _, cmd := range left {
		cmd.err = isolate.ErrGone
		close(cmd.done)
	}
	close(c.gone)
}

func (c *Client) send(req request, files ...*os.File) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := send(c.conn, req, files...); err != nil {
		if isGone(err) {
			return isolate.ErrGone
		}
		return err
	}
	return nil
}

func isGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// ask sends a request and waits for its answer.
func (c *Client) ask(ctx context.Context, req request, cmd *command, files ...*os.File) (reply, error) {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.next++
	req.ID = c.next
	c.waiting[req.ID] = answer
	if cmd != nil {
		cmd.id = req.ID
		c.running[req.ID] = cmd
	}
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		delete(c.waiting, req.ID)
		delete(c.running, req.ID)
		c.mu.Unlock()
	}
	if err := c.send(req, files...); err != nil {
		forget()
		return reply{}, err
	}
	select {
	case r := <-answer:
		return r, nil
	case <-c.gone:
		forget()
		return reply{}, isolate.ErrGone
	case <-ctx.Done():
		forget()
		return reply{}, context.Cause(ctx)
	}
}

// Start runs a command; see isolate.Sandbox.
func (c *Client) Start(ctx context.Context, cmd isolate.Command) (isolate.Running, error) {
	env := cmd.Env
	if !slices.Contains(env, c.mark) {
		env = append(slices.Clone(env), c.mark)
	}
	run := &command{client: c, done: make(chan struct{})}
	req := request{Op: opStart, Args: cmd.Args, Env: env, Dir: cmd.Dir}
	r, err := c.ask(ctx, req, run, cmd.Stdout, cmd.Stderr)
	if err != nil {
		return nil, fmt.Errorf("start command: %w", err)
	}
	if r.Event != evStarted {
		c.mu.Lock()
		delete(c.running, r.ID)
		c.mu.Unlock()
		if r.Absent {
			return nil, fmt.Errorf("start command: %w: %s", isolate.ErrProgramNotFound, r.Message)
		}
		if r.Asked {
			return nil, fmt.Errorf("start command: %w: %s", isolate.ErrUnstartable, r.Message)
		}
		return nil, fmt.Errorf("start command: %s", r.Message)
	}
	return run, nil
}

// Rehearse has the init start a shell that does nothing. What a first command costs more
// than a second is paid for ahead, and that commands can be started is known.
func (c *Client) Rehearse(ctx context.Context) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	defer func() { _ = null.Close() }()
	run, err := c.Start(ctx, isolate.Command{
		Args: []string{"sh", "-c", ":"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Stdout: null, Stderr: null,
	})
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	exit, err := run.Wait()
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("a shell that does nothing ended with %s", exit)
	}
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	return c.KillAll(ctx)
}

// Name gives the init of a warm sandbox the ID of its attempt. It comes before the first
// Start.
func (c *Client) Name(ctx context.Context, id string) error {
	r, err := c.ask(ctx, request{Op: opName, Name: id}, nil)
	if err != nil {
		return fmt.Errorf("name the sandbox's init: %w", err)
	}
	if r.Message != "" {
		return fmt.Errorf("name the sandbox's init: %s", r.Message)
	}
	c.mark = isolate.Marker + "=" + id
	return nil
}

// KillAll ends everything that the init started, but not the init.
func (c *Client) KillAll(ctx context.Context) error {
	r, err := c.ask(ctx, request{Op: opKillAll}, nil)
	switch {
	case errors.Is(err, isolate.ErrGone):
		return nil
	case err != nil:
		return fmt.Errorf("kill everything: %w", err)
	case r.Message != "":
		return errors.New(r.Message)
	}
	return nil
}

// command is a started command.
type command struct {
	client *Client
	id     uint64
	done   chan struct{}
	// exit and err are written before done is closed.
	exit isolate.Exit
	err  error
}

func (c *command) Wait() (isolate.Exit, error) {
	<-c.done
	return c.exit, c.err
}

func (c *command) Signal(sig syscall.Signal) error {
	return c.client.send(request{Op: opSignal, ID: c.id, Signal: int(sig)})
}

func (c *command) Kill() error {
	return c.client.send(request{Op: opKill, ID: c.id})
}
