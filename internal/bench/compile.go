package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// CompileOptions are those of Compile.
type CompileOptions struct {
	Jobs  int // of a workflow
	Legs  int // of each of the four matrices of another workflow
	Texts int // that the server has not seen
	Again int // requests for one that it has
}

// CompileLegsMax is the most legs that each of four matrices may have.
const CompileLegsMax = 250

// CompileJobsMax is the most jobs that a workflow may have.
const CompileJobsMax = 1_000

// compileAgainAim is what we want of a workflow of CompileJobsMax jobs that is known, in milliseconds.
const compileAgainAim = 1

// Compile measures how long a server takes to validate a large workflow.
func Compile(ctx context.Context, o Options, of CompileOptions) (*Report, error) {
	settings := map[string]any{"jobs": of.Jobs, "legs": of.Legs, "texts": of.Texts, "again": of.Again}
	return measure(ctx, "compile", o, "server", settings, func(ctx context.Context, s *stage) error {
		if err := s.begin(); err != nil {
			return err
		}
		first, again, legs, legsAgain := newTimes(), newTimes(), newTimes(), newTimes()
		text, matrices := "", ""
		for n := range of.Texts {
			text = largeWorkflow(of.Jobs, n)
			if err := s.validate(ctx, text, of.Jobs, first); err != nil {
				return err
			}
		}
		if err := s.end(); err != nil {
			return err
		}
		used := s.report.Server.Usage.CPU
		for n := range of.Texts {
			matrices = fourMatrices(of.Legs, n)
			if err := s.validate(ctx, matrices, 4*of.Legs, legs); err != nil {
				return err
			}
		}
		if err := s.end(); err != nil {
			return err
		}
		usedLegs := s.report.Server.Usage.CPU - used
		for range of.Again {
			if err := s.validate(ctx, text, of.Jobs, again); err != nil {
				return err
			}
			if err := s.validate(ctx, matrices, 4*of.Legs, legsAgain); err != nil {
				return err
			}
		}
		r := s.report
		r.spread("validate", "a text that the server has not seen: request until answer, with its plan", first)
		r.spread("validate again", "the same text", again)
		r.aims(of.Jobs == CompileJobsMax, compileAgainAim)
		r.value("server's processor time", "for each text that it has not seen", 1000*used/float64(of.Texts), "ms")
		r.spread("validate matrices", "four matrices that the server has not seen", legs)
		r.spread("validate matrices again", "the same text", legsAgain)
		r.aims(of.Legs == CompileLegsMax, compileAgainAim)
		r.value("server's processor time for matrices", "for each text that it has not seen",
			1000*usedLegs/float64(of.Texts), "ms")
		r.value("text", "", float64(len(text))/1024, "KiB")
		r.note("every plan has %d jobs, or four jobs of %d legs", of.Jobs, of.Legs)
		return nil
	})
}

func (s *stage) validate(ctx context.Context, text string, jobs int, into *times) error {
	sent := time.Now()
	answer, err := s.server.client.Workflows.Lint(ctx, &fairleadv1.LintRequest{Path: "large.yml", Text: text})
	took := time.Since(sent)
	if err != nil {
		return fmt.Errorf("validate a workflow: %w", err)
	}
	for _, d := range answer.GetDiagnostics() {
		if d.GetSeverity() == "error" {
			return fmt.Errorf("validate a workflow: line %d: %s", d.GetLine(), d.GetMessage())
		}
	}
	if got := strings.Count(answer.GetPlanJson(), `"runs_on"`); got != jobs {
		return fmt.Errorf("validate a workflow: the plan has %d jobs of %d", got, jobs)
	}
	return into.add(took)
}

// largeWorkflow has as many jobs as asked for, as a matrix of four dimensions makes them: each
// with its own name, variables and conditions, and what four groups of them need.
func largeWorkflow(jobs, number int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "name: Large %d\non: push\nenv:\n  BUILD: '%d'\njobs:\n", number, number)
	for i := range jobs {
		fmt.Fprintf(&out, "  leg-%d:\n    name: Test (linux, %d, %d)\n    runs-on: ubuntu-latest\n", i, i%25, i/25)
		if i >= jobs/4 && jobs >= 8 {
			fmt.Fprintf(&out, "    needs: leg-%d\n", i-jobs/4)
		}
		fmt.Fprintf(&out, "    env:\n      LEG: '%d'\n"+
			"      KIND: ${{ github.ref == 'refs/heads/main' && 'full' || 'quick' }}\n", i)
		fmt.Fprintf(&out, "    steps:\n      - uses: actions/checkout@v4\n      - name: Test %d\n"+
			"        run: |\n          make test LEG=$LEG\n          make report\n", i)
		out.WriteString("      - if: failure()\n        run: cat report.txt\n")
	}
	return out.String()
}

// fourMatrices has four jobs of so many legs each; every leg has its own name and label.
func fourMatrices(legs, number int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "name: Matrices %d\non: push\njobs:\n", number)
	for j := range 4 {
		fmt.Fprintf(&out, "  test-%d:\n    name: Test ${{ matrix.n }}\n", j)
		out.WriteString("    runs-on: ${{ matrix.n == 0 && 'large' || 'small' }}\n")
		out.WriteString("    strategy:\n      matrix:\n        n: [0")
		for n := 1; n < legs; n++ {
			fmt.Fprintf(&out, ", %d", n)
		}
		out.WriteString("]\n    env:\n      LEG: ${{ matrix.n }}\n    steps:\n      - uses: actions/checkout@v4\n" +
			"      - run: |\n          make test LEG=$LEG\n          make report\n")
	}
	return out.String()
}
