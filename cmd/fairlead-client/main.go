// Command fairlead-client is the command line alone. Installed as "fairlead" beside the whole
// program, which is then called "fairlead-server", it is what people type: it starts in half the
// time, and hands over what it has not.
//
// It is deliberately only a door: which commands need a server is the command line's to say.
//
// Invariants: it links nothing of a server; a command that is handed over is the same process,
// with the same arguments, and has printed nothing before.
//
// Read next: whole_exec.go, ../../internal/cli/program.go, ../fairlead/main.go
package main

import (
	"context"
	"os"

	"github.com/fairlead-ci/fairlead/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), cli.Program{Whole: whole, Version: cli.BuildVersion(), Args: os.Args[1:]}))
}
