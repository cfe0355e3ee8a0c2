package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

func (a *app) cmdWhy() *cobra.Command {
	command := a.withJSON(&cobra.Command{
		Use:   "why RUN [JOB]",
		Short: "Explain why a run or a job is as it is, and what will change that",
		Long: `Explain a run, or one of its jobs: why it is as it is, the events that led there (nearest first), and for
everything that waits the event, the timer or the person that ends the wait. Causes are followed through the jobs that a
job needs, with the values that its condition had, to the step, the runner or the person that it began with.`,
		Example: "  fairlead why latest\n  fairlead why latest deploy",
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: a.ask(a.completeRunJob),
	})
	command.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		s, err := a.subject(ctx, c, args[0])
		if err != nil {
			return err
		}
		job := string(s.job)
		if len(args) == 2 {
			job = args[1]
		}
		response, err := c.Runs.WhyRun(ctx, &fairleadv1.WhyRunRequest{Run: string(s.run), Job: job})
		if err != nil {
			return err
		}
		if a.json {
			return a.printMessage(response)
		}
		var out strings.Builder
		for i, explanation := range response.GetExplanations() {
			if i > 0 {
				out.WriteByte('\n')
			}
			a.explain(&out, explanation)
		}
		_, err = fmt.Fprint(a.out, out.String())
		return err
	})
	return command
}

// because writes a tree of causes, as deep as a terminal shows it.
func (a *app) because(out *strings.Builder, b *fairleadv1.Because, depth int) {
	const deepest = 16
	indent := strings.Repeat("  ", min(depth, deepest))
	fmt.Fprintf(out, "%s%s", indent, clean(b.GetText()))
	if b.GetEvent() != "" {
		fmt.Fprintf(out, " %s", a.out.paint(faint, fmt.Sprintf("[%s, version %d]", clean(b.GetEvent()), b.GetVersion())))
	}
	out.WriteByte('\n')
	for _, v := range b.GetValues() {
		value := clean(v.GetValue())
		if !v.GetKnown() {
			value = a.out.paint(faint, "not recorded")
		}
		fmt.Fprintf(out, "%s  %s = %s\n", indent, clean(v.GetPath()), value)
	}
	for _, cause := range b.GetBecause() {
		a.because(out, cause, depth+1)
	}
}

func (a *app) explain(out *strings.Builder, e *fairleadv1.Explanation) {
	fmt.Fprintf(out, "%s  %s\n  %s\n", a.out.paint(strong, clean(e.GetName())), a.out.word(clean(e.GetState())),
		clean(e.GetSentence()))
	if e.GetStory() != "" && e.GetStory() != e.GetSentence() {
		fmt.Fprintf(out, "  %s\n", clean(e.GetStory()))
	}
	if len(e.GetBecause().GetBecause())+len(e.GetBecause().GetValues()) > 0 {
		out.WriteString("  Causes:\n")
		a.because(out, e.GetBecause(), 2)
	}
	if len(e.GetCauses()) > 0 {
		out.WriteString("  Because:\n")
		for _, cause := range e.GetCauses() {
			fmt.Fprintf(out, "    %s  %s %s\n", a.out.paint(faint, clock(cause.GetAt())), clean(cause.GetText()),
				a.out.paint(faint, "["+clean(cause.GetEvent())+"]"))
		}
	}
	if len(e.GetEndings()) > 0 {
		out.WriteString("  What ends this:\n")
		for _, ending := range e.GetEndings() {
			fmt.Fprintf(out, "    %s: %s", clean(ending.GetKind()), clean(ending.GetText()))
			if at := clock(ending.GetAt()); at != "" && !strings.Contains(ending.GetText(), at) {
				fmt.Fprintf(out, " (%s)", at)
			}
			out.WriteByte('\n')
		}
	}
}
