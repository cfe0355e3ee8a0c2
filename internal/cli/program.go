package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead-ci/fairlead/api/client"
)

// Program is what main hands in. Every field but Args may be zero.
type Program struct {
	// Serve runs a server, for up and server.
	Serve Serve
	// Probe asks every isolation driver whether it works here, for doctor.
	Probe func(context.Context) []Finding
	// Operator looks after what servers keep, for admin.
	Operator Operator
	// Whole becomes the program that has all of the above, with the same arguments, and returns
	// only if it can't. It stands for what is missing.
	Whole func() error
	// Extra are commands that main adds.
	Extra   []*cobra.Command
	Version string

	Args           []string // without the program's name
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run does what the arguments ask for and returns the exit code.
func Run(ctx context.Context, p Program) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the program at once
	a := newApp(p)
	root := a.root()
	root.SetArgs(p.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitSuccess
	}
	return a.fail(ctx, err)
}

// whole has a command done by the program that can.
func (a *app) whole() error {
	if a.Whole == nil {
		return errors.New("this program was built without a server")
	}
	return a.Whole()
}

// Root is the tree of commands, for documentation.
func Root(p Program) *cobra.Command { return newApp(p).root() }

// app is one call of the program.
type app struct {
	Program
	out      *output
	json     bool
	data     string
	patience time.Duration
	awaits   bool // its first contact is patient, too
	started  bool // a command began its work
	last     func(answer json.RawMessage) any
	sources  sources // of the diagnostics that a refusal may carry
	client   *client.Client
}

func newApp(p Program) *app {
	if p.Getenv == nil {
		p.Getenv = os.Getenv
	}
	if p.Stdin == nil {
		p.Stdin = os.Stdin
	}
	if p.Stdout == nil {
		p.Stdout = os.Stdout
	}
	if p.Stderr == nil {
		p.Stderr = os.Stderr
	}
	a := &app{Program: p}
	a.out = newOutput(p.Stdout, p.Getenv)
	return a
}

// fail says what went wrong and gives the exit code. With --json the answer goes to
// standard output as well, so that a script reads one stream.
func (a *app) fail(ctx context.Context, err error) int {
	var done *ended
	if errors.As(err, &done) {
		return done.code
	}
	v := judge(ctx, err, a.started)
	fmt.Fprint(a.Stderr, v)
	fmt.Fprint(a.Stderr, a.sources.render(v.answer.GetDiagnostics()))
	if v.exit == ExitUsage {
		fmt.Fprintln(a.Stderr, "Try --help.")
	}
	if a.json {
		answer, problem := client.JSON(v.answer)
		if problem != nil {
			return ExitFault
		}
		var last any = map[string]any{"error": json.RawMessage(answer)}
		if a.last != nil {
			last = a.last(answer)
		}
		_ = a.printJSON(last)
	}
	return v.exit
}

// printJSON writes one value on one line.
func (a *app) printJSON(value any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err := a.Stdout.Write(out.Bytes())
	return err
}

// printMessage writes an answer of the API as its REST paths do.
func (a *app) printMessage(message proto.Message) error {
	content, err := client.JSON(message)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(append(content, '\n'))
	return err
}

// connect gives the client of the server that the environment names.
func (a *app) connect() (*client.Client, error) {
	if a.client != nil {
		return a.client, nil
	}
	place, err := a.locate()
	if err != nil {
		return nil, err
	}
	options := client.Options{Patience: a.patience, Await: a.awaits, UserAgent: "fairlead/" + a.Version,
		Waiting: func(err error, until time.Time) {
			a.note("%s. Trying until %s (--patience %s)", clean(client.Explain(err)), until.Local().Format(time.TimeOnly),
				a.patience)
		}}
	if options.Patience == 0 {
		options.Patience = -1 // a person who says none means none
	}
	a.client, err = client.New(place.Server, place.Token, options)
	if err != nil {
		return nil, &usageError{err.Error() + " (from " + place.From + ")"}
	}
	return a.client, nil
}

func (a *app) locate() (client.Place, error) {
	var place client.Place
	var err error
	if a.data != "" {
		place, err = client.LocateIn(a.data)
	} else {
		place, err = client.Locate(a.Getenv)
	}
	if err != nil && !errors.Is(err, client.ErrNoServer) {
		return place, &usageError{err.Error()}
	}
	return place, err
}

// dataFolder is the folder that up and server keep everything in.
func (a *app) dataFolder() (string, error) {
	folder := a.data
	if folder == "" {
		folder = a.Getenv("FAIRLEAD_DATA")
	}
	if folder == "" {
		var err error
		if folder, err = client.DefaultDataFolder(a.Getenv); err != nil {
			return "", &usageError{err.Error()}
		}
	}
	return filepath.Abs(folder)
}

// do wraps the work of a command.
func (a *app) do(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.started = true
		return work(cmd.Context(), args)
	}
}

// call wraps the work of a command that needs the server.
func (a *app) call(work func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command,
	[]string) error {
	return a.do(func(ctx context.Context, args []string) error {
		a.awaits = true
		c, err := a.connect()
		if err != nil {
			return err
		}
		return work(ctx, c, args)
	})
}

func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "fairlead: "+format+"\n", args...)
}
