// Command fairlead is everything in one program: a server with a runner in it, the server
// alone, and the commands that people and scripts use. It is enough by itself; beside
// fairlead-client it is installed as "fairlead-server".
//
// It deliberately decides nothing: it wires the rooms of the server together, hands what
// only it may link to the command line, and leaves.
//
// Invariants: a process that supervises a job is recognised before anything else happens;
// the exit code is one of those in internal/cli/exit.go.
//
// Read next: ../../internal/cli/program.go, server.go
package main

import (
	"context"
	"os"

	"github.com/fairlead-ci/fairlead/internal/cli"
	"github.com/fairlead-ci/fairlead/internal/isolate/choose"
	"github.com/fairlead-ci/fairlead/internal/runner"

	// Schedules have time zones, also where the system has no files of them.
	_ "time/tzdata"
)

func main() {
	runner.MaybeSupervise(choose.Drivers()...)
	os.Exit(cli.Run(context.Background(), cli.Program{
		Serve: serve, Probe: probe, Operator: operator{}, Version: cli.BuildVersion(), Args: os.Args[1:],
	}))
}

// probe asks every isolation driver whether it works on this machine, for doctor.
func probe(ctx context.Context) []cli.Finding {
	var out []cli.Finding
	for _, driver := range choose.Drivers() {
		found := cli.Finding{Name: "isolation " + driver.Name(), Status: "ok"}
		report, err := driver.Probe(ctx)
		if err != nil {
			found.Status, found.Text = "fail", err.Error()
			if driver.Name() == "oci" {
				found.Fix = "install an OCI runtime (apt install crun), or use --isolation process for trusted work"
			}
		} else {
			found.Text = report.Reason
		}
		out = append(out, found)
	}
	return out
}
