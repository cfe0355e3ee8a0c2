package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

type runOptions struct {
	workflow, event, ref, repository, key string
	inputs                                []string
	committed, detach, quiet, lines       bool
}

func (a *app) cmdRun() *cobra.Command {
	o := &runOptions{}
	command := a.withJSON(&cobra.Command{
		Use:   "run",
		Short: "Run a workflow of this repository and follow it",
		Long: `Run a workflow of the git repository that you stand in, on the files as they are now, and follow it.

Uncommitted changes are captured as an immutable commit and sent to the server; ignored files, the
index and every ref stay as they are. The repository is registered at its first run.

The exit code is the result. Ctrl-C stops watching, not the run: it goes on, and the program says how
to come back to it or cancel it.`,
		Example: `  fairlead run
  fairlead run --workflow ci.yml --input level=debug
  fairlead run --committed --detach
  fairlead run --json | tail -n 1`,
		Args: cobra.NoArgs,
	})
	flags := command.Flags()
	flags.StringVarP(&o.workflow, "workflow", "w", "",
		"`file` of the workflow, by path or name; needed when several match")
	flags.StringVarP(&o.event, "event", "e", "", "event to start it by: push or workflow_dispatch "+
		"(default workflow_dispatch where declared, else push)")
	flags.StringArrayVarP(&o.inputs, "input", "i", nil, "input as `name=value`; may be repeated")
	flags.BoolVar(&o.committed, "committed", false, "run HEAD, whatever the working tree looks like")
	flags.StringVar(&o.ref, "ref", "", "run the commit that this branch or tag has on the server")
	flags.StringVarP(&o.repository, "repository", "R", "", "`name` of the repository on the server "+
		"(default from its origin, else its folder)")
	flags.StringVar(&o.key, "idempotency-key", "", "`key` that makes this request one run, however often it is sent")
	flags.BoolVarP(&o.detach, "detach", "d", false, "do not follow the run")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "show only the lines of logs, and the result")
	flags.BoolVar(&o.lines, "lines", false, "with --json: print the lines of logs as well")
	command.MarkFlagsMutuallyExclusive("committed", "ref")
	command.RunE = a.do(func(ctx context.Context, _ []string) error {
		if o.key == "" && flags.Changed("idempotency-key") {
			return usagef("--idempotency-key is empty: a script whose variable is not set would start a run each time")
		}
		return a.runRun(ctx, o)
	})
	a.complete(command, "repository", a.completeRepositories)
	fixed(command, "event", "push", "workflow_dispatch")
	return command
}

func (a *app) runRun(ctx context.Context, o *runOptions) error {
	// Whatever happens, the last line of --json has run and outcome.
	a.last = func(answer json.RawMessage) any {
		return map[string]any{"event": "refused", "run": nil, "outcome": nil, "error": answer}
	}
	inputs, err := pairs("input", o.inputs)
	if err != nil {
		return err
	}
	if o.event != "" {
		if err := oneOf("event", o.event, "push", "workflow_dispatch"); err != nil {
			return err
		}
	}
	a.awaits = true
	c, err := a.connect()
	if err != nil {
		return err
	}
	s, err := a.open(ctx, c, o)
	if err != nil {
		return err
	}
	if s.tree != nil && s.capture != nil && !o.committed {
		a.sources.root = s.tree.Root
	}
	key := o.key
	if key == "" {
		key = client.NewKey()
	}
	response, err := s.create(ctx, c, key, s.request(o, inputs))
	if left := s.close(); left != nil {
		a.note("what was made to send the working tree is left behind: %v", left)
	}
	if err != nil {
		return a.unanswered(ctx, key, err)
	}
	return a.accepted(ctx, c, s, o, response)
}

// unanswered says how to find out about a run whose request has no answer. Nobody may take that
// for a refusal and ask for another one.
func (a *app) unanswered(ctx context.Context, key string, err error) error {
	if judge(ctx, err, true).exit == ExitRefused {
		return err
	}
	a.last = func(answer json.RawMessage) any {
		return map[string]any{"event": "unknown", "run": nil, "outcome": nil, "error": answer, "idempotency_key": key}
	}
	why := "there is no answer"
	if ctx.Err() != nil && client.Refusal(err) == nil {
		why, err = "interrupted before the answer", ctx.Err()
	}
	a.note("%s; whether the run was accepted shows the same command with --idempotency-key %s", why, key)
	return err
}

// request is the message that asks for the run. It depends only on what was asked for and
// on the commit: the same key must always come with the same message.
func (s *source) request(o *runOptions, inputs map[string]string) *fairleadv1.CreateRunRequest {
	request := &fairleadv1.CreateRunRequest{Repository: s.name, Workflow: o.workflow, Event: o.event,
		Inputs: inputs, Ref: o.ref}
	if s.capture != nil {
		request.Commit, request.Captured, request.Ref = s.capture.Commit, s.capture.Captured, s.tree.Branch
	}
	if s.tree != nil {
		request.Workflow = inRepository(s.tree.Root, o.workflow)
	}
	return request
}

// inRepository makes a path below the working folder one below the repository's root. A
// name that is no such file is left to the server.
func inRepository(root, file string) string {
	if !strings.ContainsRune(file, '/') {
		return file
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return file
	}
	if _, err := os.Stat(path); err != nil {
		return file
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return file
	}
	if inside, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(inside) {
		return filepath.ToSlash(inside)
	}
	return file
}

// acceptedEvent is the first object of run --json, and the last one with --detach.
type acceptedEvent struct {
	Event      string            `json:"event"` // "accepted"
	Run        string            `json:"run"`
	Outcome    *string           `json:"outcome"`
	Repeat     bool              `json:"repeat"` // the key had acted before
	Repository string            `json:"repository"`
	Registered bool              `json:"registered"` // by this call
	Workflow   string            `json:"workflow"`
	Trigger    string            `json:"trigger"`
	Ref        string            `json:"ref"`
	Commit     string            `json:"commit"`
	Captured   bool              `json:"captured"`
	URL        string            `json:"url"`
	Warnings   []json.RawMessage `json:"warnings"`
}

// endEvent is the last object of run --json.
type endEvent struct {
	Event string `json:"event"` // "concluded" or "detached"
	runJSON
	Trigger string `json:"trigger"` // what show calls event
}

// accepted says that the run exists, and follows it.
func (a *app) accepted(ctx context.Context, c *client.Client, s *source, o *runOptions,
	response *fairleadv1.CreateRunResponse) error {
	run := response.GetRun()
	if !a.json {
		fmt.Fprint(a.Stderr, a.sources.render(response.GetWarnings()))
		if !o.quiet || o.detach {
			fmt.Fprint(a.out, a.greeting(s, response))
		}
	} else {
		event := acceptedEvent{Event: "accepted", Run: run.GetRun(), Repeat: response.GetRepeat(), Repository: s.name,
			Registered: s.created, Workflow: run.GetSummary().GetWorkflow(), Trigger: run.GetSummary().GetEvent(),
			Ref: run.GetSummary().GetRef(), Commit: run.GetSummary().GetCommit(),
			Captured: s.capture != nil && s.capture.Captured, URL: run.GetUrl(), Warnings: []json.RawMessage{}}
		for _, warning := range response.GetWarnings() {
			content, err := client.JSON(warning)
			if err != nil {
				return err
			}
			event.Warnings = append(event.Warnings, content)
		}
		if err := a.printJSON(event); err != nil {
			return err
		}
	}
	if o.detach {
		return nil
	}
	return a.follow(ctx, &follower{client: c, run: run.GetRun(), logs: !a.json || o.lines}, o.quiet)
}

// greeting says what was accepted.
func (a *app) greeting(s *source, response *fairleadv1.CreateRunResponse) string {
	run, summary := response.GetRun(), response.GetRun().GetSummary()
	var out strings.Builder
	if s.created {
		fmt.Fprintf(&out, "Registered the repository %s.\n", clean(s.name))
	}
	if response.GetRepeat() {
		out.WriteString("This key started a run before; here it is.\n")
	}
	parts := []string{run.GetRun(), clean(summary.GetWorkflow()), clean(summary.GetEvent())}
	if ref := summary.GetRef(); ref != "" {
		parts = append(parts, clean(strings.TrimPrefix(ref, "refs/heads/")))
	}
	if commit := summary.GetCommit(); len(commit) >= 7 {
		what := commit[:7]
		if s.capture != nil && s.capture.Captured {
			what += " (uncommitted changes)"
		}
		parts = append(parts, what)
	}
	out.WriteString(strings.Join(parts, "  ") + "\n")
	if run.GetUrl() != "" {
		out.WriteString(a.out.paint(faint, clean(run.GetUrl())) + "\n")
	}
	return out.String()
}

// follow shows a run until it concluded, and turns its outcome into the exit code.
func (a *app) follow(ctx context.Context, f *follower, quiet bool) error {
	started := time.Now()
	var live *liveView
	switch {
	case a.json:
		f.view = &jsonView{app: a}
	case a.out.tty && !quiet:
		f.ordered = true
		live = newLiveView(a.out, a.out.width)
		f.view = live
	default:
		plain := newPlainView(a.out)
		plain.quiet = quiet
		f.ordered = true
		f.view = plain
	}
	run, err := f.follow(ctx)
	if live != nil {
		live.close()
	}
	if run == nil {
		run = &fairleadv1.Run{Run: f.run}
	}
	if err != nil {
		return a.unfollowed(ctx, run, err)
	}
	if a.json {
		if err := a.printJSON(endEvent{"concluded", showRun(run), run.GetSummary().GetEvent()}); err != nil {
			return err
		}
	} else {
		fmt.Fprint(a.out, a.summary(run, time.Since(started)))
	}
	if run.GetOutcome() != string(domain.OutcomeSuccess) {
		return &ended{ExitFailed}
	}
	return nil
}

// unfollowed says how to come back to a run that can't be watched to its end.
func (a *app) unfollowed(ctx context.Context, run *fairleadv1.Run, err error) error {
	id := run.GetRun()
	a.last = func(answer json.RawMessage) any {
		return map[string]any{"event": "unfollowed", "run": id, "outcome": orNull(run.GetOutcome()), "error": answer}
	}
	if ctx.Err() == nil {
		a.note("%s goes on, whether it is watched or not. Come back with: fairlead logs -f %s", id, id)
		return err
	}
	a.note("stopped watching; %s goes on. Come back with: fairlead logs -f %s, or cancel it with: fairlead cancel %s",
		id, id, id)
	if a.json {
		if err := a.printJSON(endEvent{"detached", showRun(run), run.GetSummary().GetEvent()}); err != nil {
			return err
		}
	}
	return &ended{ExitInterrupted}
}

// summary is the end of a followed run for people.
func (a *app) summary(run *fairleadv1.Run, watched time.Duration) string {
	var out strings.Builder
	took := span(run.GetSummary().GetCreated(), run.GetSummary().GetConcluded(), time.Time{})
	if run.GetSummary().GetConcluded() == "" || took == "" {
		took = short(watched)
	}
	fmt.Fprintf(&out, "\n%s in %s: %s\n", a.out.paint(toneOf(run.GetOutcome()), run.GetOutcome()), took,
		clean(run.GetReason()))
	if len(run.GetJobs()) > 1 || run.GetOutcome() != string(domain.OutcomeSuccess) {
		var rows [][]string
		for _, job := range run.GetJobs() {
			rows = append(rows, []string{"  " + job.GetKey(), job.GetOutcome(), job.GetReason()})
		}
		if len(rows) > 0 {
			out.WriteString(a.out.table([]string{"  JOB", "OUTCOME", "REASON"}, rows, 1))
		}
	}
	for _, text := range run.GetDiagnostics() {
		fmt.Fprintf(&out, "  %s\n", clean(text))
	}
	if run.GetUrl() != "" {
		out.WriteString(clean(run.GetUrl()) + "\n")
	}
	return out.String()
}
