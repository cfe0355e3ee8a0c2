package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/internal/bench"
)

func (a *app) cmdBenchCompile() *cobra.Command {
	o, of := bench.Options{}, bench.CompileOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "compile",
		Short: "Time the compiler: a large workflow, and the same again",
		Long: `Ask a server to validate workflows with many jobs, and with four matrices of many legs, as fairlead lint
and editors do: first texts that it has never seen, then one that it has. Times are of whole requests, with
the plan in the answer.`,
		Example: "  fairlead bench compile --jobs 1000 --texts 50",
		Args:    cobra.NoArgs,
	})
	flags := command.Flags()
	benchFlags(flags, &o)
	flags.IntVar(&of.Jobs, "jobs", 1000, "jobs of a workflow, at most 1000")
	flags.IntVar(&of.Legs, "legs", bench.CompileLegsMax, "legs of each of four matrices, at most 250")
	flags.IntVar(&of.Texts, "texts", 50, "different workflows, each asked for once")
	flags.IntVar(&of.Again, "again", 200, "how often the last one is asked for again")
	command.RunE = a.bench(&o, func(ctx context.Context) (*bench.Report, error) {
		for flag, value := range map[string]int{"jobs": of.Jobs, "legs": of.Legs, "texts": of.Texts, "again": of.Again} {
			if err := atLeast(1, flag, value); err != nil {
				return nil, err
			}
		}
		if of.Jobs > bench.CompileJobsMax {
			return nil, usagef("--jobs is %d; a workflow has at most %d", of.Jobs, bench.CompileJobsMax)
		}
		if of.Legs > bench.CompileLegsMax {
			return nil, usagef("--legs is %d; four matrices have at most %d each", of.Legs, bench.CompileLegsMax)
		}
		return bench.Compile(ctx, o, of)
	})
	return command
}
