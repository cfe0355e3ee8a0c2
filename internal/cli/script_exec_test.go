package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fairlead": func() { os.Exit(Run(context.Background(), testProgram())) }})
}

// testProgram is the program with a server that only says what it was asked for.
func testProgram() Program {
	return Program{
		Version: "0.0-test", Args: os.Args[1:],
		Serve: func(ctx context.Context, o ServeOptions) error {
			fmt.Fprintf(o.Stderr, "data=%s store=%q up=%v isolation=%s capacity=%d labels=%v lease=%s abandon=%s "+
				"poll=%s grace=%s\n", filepath.Base(o.Data), o.Store, o.Up, o.Isolation, o.Capacity,
				o.Labels, o.LeaseTTL, o.AbandonAfter, o.PollEvery,
				o.CancelGrace)
			fmt.Fprintf(o.Stdout, "ready http://%s\n", o.Listen)
			if file := os.Getenv("TEST_READY"); file != "" {
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					return err
				}
			}
			<-ctx.Done()
			fmt.Fprintln(o.Stderr, "stopped")
			return nil
		},
		Probe: func(context.Context) []Finding {
			return []Finding{{"isolation oci", findFail, "no runtime", "apt install crun"},
				{"isolation process", findOK, "plain processes", ""}}
		},
	}
}

type doubleKey struct{}

// Scripts run the program as a process, against a double of the server that is theirs
// alone. The command server speaks with the double; see serverCommand.
func TestScript(t *testing.T) {
	program, err := exec.LookPath("fairlead") // testscript put it there
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			d, err := newDouble(context.Background(), filepath.Join(env.WorkDir, ".mirrors"))
			if err != nil {
				return err
			}
			env.Defer(func() { _ = d.stop() })
			env.Values[doubleKey{}] = d
			env.Setenv("PROGRAM", program)
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
			for name, value := range map[string]string{
				"FAIRLEAD_SERVER": "http://" + d.listen, "FAIRLEAD_TOKEN": doubleToken, "DOUBLE": "http://" + d.listen,
				"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
				"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c",
				"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z", "TZ": "UTC",
			} {
				env.Setenv(name, value)
			}
			return os.Mkdir(filepath.Join(env.WorkDir, ".home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){

			"server": serverCommand, "nowhere": nowhere, "exits": exits, "discovery": discovery, "rawcmp": rawcmp,
			"await": await,
		},
	})
}

// nowhere sets FAIRLEAD_SERVER to an address where nobody listens.
func nowhere(ts *testscript.TestScript, _ bool, _ []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(listener.Close())
	ts.Setenv("FAIRLEAD_SERVER", "http://"+listener.Addr().String())
}

// exits is "exits CODE PROGRAM ARGS": it runs the program and checks its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// discovery writes the file of a data folder that leads to the double.
func discovery(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value(doubleKey{}).(*double)
	token := filepath.Join(args[0], "token")
	ts.Check(os.WriteFile(token, []byte(doubleToken+"\n"), 0o600))
	ts.Check(client.WriteDiscovery(args[0], "http://"+d.listen, token))
}

// await waits for a file.
func await(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(doubleDeadline); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s did not appear", args[0])
		}
	}
}

// rawcmp compares standard output byte for byte with text.
func rawcmp(ts *testscript.TestScript, _ bool, args []string) {
	if got, want := ts.ReadFile(args[0]), unescape(args[1]); got != want {
		ts.Fatalf("got %q, want %q", got, want)
	}
}

func unescape(text string) string {
	return strings.NewReplacer(`\n`, "\n", `\x1b`, "\x1b", `\r`, "\r").Replace(text)
}

// serverCommand is "server VERB ARGS" of scripts:
//
//	server plan one|two, server ends success|failure|uncertain   how further runs go
//	server log TEXT          what their jobs print; \n and \x1b are understood
//	server hold, server quick   further runs stop in the middle, or not
//	server go                runs that stopped go on
//	server refuse CODE MESSAGE [CHOICE...]   the next run is refused
//	server diagnose FILE     the next run is refused with what the compiler says of FILE
//	server following, server watched   wait until a log is followed, or a run
//	server restart           cut every connection, and serve again at the same address
//	server warn FILE TEXT    further runs are accepted with a warning
//	server calls             print the calls so far
//	server requests          print the paths of all requests so far, sorted
func serverCommand(ts *testscript.TestScript, neg bool, args []string) {
	d := ts.Value(doubleKey{}).(*double)
	if neg || len(args) == 0 {
		ts.Fatalf("usage: server VERB ARGS")
	}
	if args[0] == "restart" {
		ts.Check(d.stop())
		ts.Check(d.start(d.listen))
		return
	}
	if args[0] == "go" {
		d.release()
		return
	}
	if count := map[string]*int{"following": &d.streams, "watched": &d.watches}[args[0]]; count != nil {
		ctx, cancel := context.WithTimeout(context.Background(), doubleDeadline)
		defer cancel()
		ts.Check(d.await(ctx, func() bool {
			seen := *count > 0
			if seen {
				*count = 0
			}
			return seen
		}))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch args[0] {
	case "plan":
		d.plan = args[1]
	case "ends":
		d.ends = args[1]
	case "log":
		d.logText = unescape(args[1])
	case "hold":
		d.hold = true
	case "late":
		d.late = true
	case "quick":
		d.hold = false
	case "warn":
		d.warnings = []*fairleadv1.Diagnostic{{Code: "c", Severity: "warning", Path: args[1], Line: 1,
			Column: 1, Message: args[2]}}
	case "refuse":
		d.refusal = &fairleadv1.ErrorInfo{Code: args[1], Message: args[2], Choices: args[3:], Request: "req_1"}
	case "diagnose":
		d.refusal = &fairleadv1.ErrorInfo{Code: "workflow_invalid", Message: "The workflow can't be executed.",
			Diagnostics: diagnosticsOf(args[1], []byte(ts.ReadFile(args[1])))}
	case "calls":
		fmt.Fprintln(ts.Stdout(), strings.Join(d.calls, "\n"))
		d.calls = nil
	case "requests":
		slices.Sort(d.asked)
		fmt.Fprintln(ts.Stdout(), strings.Join(d.asked, "\n"))
		d.asked = nil
	default:
		ts.Fatalf("unknown verb %q", args[0])
	}
}
