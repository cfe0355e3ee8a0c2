package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/matrix"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Outcomes of steps.
const (
	outcomeSuccess   = string(domain.OutcomeSuccess)
	outcomeFailure   = string(domain.OutcomeFailure)
	outcomeTimedOut  = string(domain.OutcomeTimedOut)
	outcomeCancelled = string(domain.OutcomeCancelled)
	outcomeSkipped   = string(domain.OutcomeSkipped)
)

// ending is how a step ended.
type ending struct {
	outcome string
	class   domain.FailureClass
	code    int
	message string
}

func failed(class domain.FailureClass, format string, args ...any) ending {
	return ending{outcome: outcomeFailure, class: class, message: fmt.Sprintf(format, args...)}
}

// running is a step while it runs.
type running struct {
	plan    plan.Step
	state   *runnerv1.Step
	env     map[string]string // the step's own, evaluated
	outputs map[string]string
	limit   time.Duration // 0: only the job's
	soft    bool          // its failure is forgiven
	key     string        // in names of files: its place among the steps
	inner   bool          // it is a step of a composite action
}

// step runs one step, or says why not.
func (j *job) step(ctx context.Context, i int) {
	r := newRunning(j.m.Steps[i], j.steps[i], strconv.Itoa(j.m.Steps[i].Index))
	end, run := j.admit(r)
	if run {
		end, run = j.settle(r)
	}
	if run {
		r.state.StartedUs = time.Now().UnixMicro()
		j.started = j.started || r.plan.Uses != plan.UsesCheckout
		j.report(domain.ObservedRunning, r.state)
		end = j.perform(ctx, r)
		r.state.FinishedUs = time.Now().UnixMicro()
	}
	j.conclude(r, end)
	if run {
		j.report(domain.ObservedRunning, r.state)
	}
}

func newRunning(step plan.Step, state *runnerv1.Step, key string) *running {
	return &running{plan: step, state: state, outputs: make(map[string]string), key: key,
		limit: time.Duration(step.TimeoutSeconds) * time.Second, soft: step.SoftFail}
}

// perform does what the step is for.
func (j *job) perform(ctx context.Context, r *running) ending {
	switch r.plan.Uses {
	case plan.UsesCheckout:
		return j.checkout(ctx, r)
	case plan.UsesComposite:
		return j.composite(ctx, r)
	case plan.UsesRun:
		return j.runScript(ctx, r)
	}
	return failed(domain.FailureInvalid, "this runner can't execute a step of the kind %s", short(r.plan.Uses))
}

// admit evaluates what decides whether a step runs: its env, which its condition may
// name, its condition and its name.
func (j *job) admit(r *running) (ending, bool) {
	skip := func(message string) (ending, bool) {
		return ending{outcome: outcomeSkipped, message: message}, false
	}
	if j.stop != nil {
		if !r.plan.Cleanup {
			return ending{outcome: outcomeCancelled, message: "the job was stopped before this step"}, false
		}
		if !time.Now().Before(j.until) {
			return ending{outcome: outcomeCancelled, message: "the grace period was over before this step"}, false
		}
	}
	if j.ctx == nil {
		return skip("the job could not be prepared")
	}
	r.env = maps.Clone(j.ctx.outer)
	if r.env == nil {
		r.env = make(map[string]string)
	}
	for _, b := range r.plan.Env {
		value, err := expr.Interpolate(b.Value, j.ctx.evaluation(r.plan.ID, r.env, j.status()))
		if err != nil {
			return failed(domain.FailureInvalid, "the value of env %s: %v", b.Name, err), false
		}
		r.env[b.Name] = value
	}
	env := j.ctx.evaluation(r.plan.ID, r.env, j.status())
	if name, err := expr.Interpolate(r.plan.Name, env); err == nil {
		r.state.Name = cut(j.log, name) // a name that can't be evaluated stays as it is written
	}
	if r.plan.Cleanup && strings.TrimSpace(r.plan.If) == "" {
		return ending{}, true
	}
	condition, err := expr.ParseCondition(r.plan.If)
	if err != nil {
		return failed(domain.FailureInvalid, "its condition: %v", err), false
	}
	verdict, err := condition.Eval(env)
	switch {
	case err != nil:
		return failed(domain.FailureInvalid, "its condition: %v", err), false
	case verdict.Holds:
		return ending{}, true
	case verdict.ByStatus:
		return skip("an earlier step failed")
	}
	return skip("its condition is false: " + short(strings.TrimSpace(r.plan.If)))
}

// settle evaluates what only the runner can know of a step that runs: its time limit, and
// whether it may fail.
func (j *job) settle(r *running) (ending, bool) {
	env := j.ctx.evaluation(r.plan.ID, r.env, j.status())
	if text := r.plan.TimeoutText; text != "" {
		v, err := value(text, env)
		seconds, ok := matrix.TimeoutOf(v)
		if err != nil || !ok {
			return failed(domain.FailureInvalid, "its timeout-minutes: %s", problem(v, err, "a number of minutes")), false
		}
		r.limit = time.Duration(seconds) * time.Second
	}
	if text := r.plan.SoftFailText; text != "" {
		v, err := value(text, env)
		soft, ok := matrix.TruthOf(v)
		if err != nil || !ok {
			return failed(domain.FailureInvalid, "its continue-on-error: %s", problem(v, err, "true or false")), false
		}
		r.soft = soft
	}
	return ending{}, true
}

func value(text string, env expr.Env) (expr.Value, error) {
	t, err := expr.ParseTemplate(text)
	if err != nil {
		return expr.Null(), err
	}
	return t.Eval(env)
}

func problem(v expr.Value, err error, want string) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%q is not %s", short(v.Text()), want)
}

// conclude records how a step ended and what that means for the job.
func (j *job) conclude(r *running, end ending) {
	s := r.state
	s.Outcome, s.Conclusion, s.ExitCode = end.outcome, end.outcome, int32(end.code)
	s.Message = cut(j.log, end.message)
	if end.outcome == outcomeFailure || end.outcome == outcomeTimedOut {
		// A plain exit code is said by the step itself; what only the runner knows is
		// written where people look for it.
		if end.message != "" && end.code == 0 || end.outcome == outcomeTimedOut {
			j.log.say(s.GetIndex(), "%s", end.message)
		}
		// A platform that broke is no answer of the step, so there is nothing to forgive.
		if r.soft && end.class != domain.FailurePlatform {
			s.Conclusion = outcomeSuccess
		} else {
			j.failStep(r, end)
		}
	}
	if j.ctx != nil {
		j.ctx.record(r.plan.ID, r.outputs, s.GetOutcome(), s.GetConclusion())
	}
}

// runScript runs a step of the workflow's author.
func (j *job) runScript(ctx context.Context, r *running) ending {
	env := j.ctx.evaluation(r.plan.ID, r.env, j.status())
	script, err := expr.Interpolate(r.plan.Script, env)
	if err != nil {
		return failed(domain.FailureInvalid, "its script: %v", err)
	}
	folder, err := expr.Interpolate(r.plan.WorkDir, env)
	if err != nil {
		return failed(domain.FailureInvalid, "its working-directory: %v", err)
	}
	dir := j.inside.workspace
	if path.IsAbs(folder) {
		dir = path.Clean(folder)
	} else if folder != "" {
		dir = path.Join(dir, folder)
	}
	shell, err := expr.Interpolate(r.plan.Shell, env)
	if err != nil {
		return failed(domain.FailureInvalid, "its shell: %v", err)
	}
	sh, err := shellFor(strings.TrimSpace(shell))
	if err != nil {
		return failed(domain.FailureInvalid, "%v", err)
	}
	name := "step_" + r.key + sh.suffix
	if err := writeFile(j.files, name, []byte(sh.before+script+sh.after), 0o755); err != nil {
		return failed(domain.FailurePlatform, "%v", err)
	}
	extra, err := j.commandFiles(r)
	if err != nil {
		return failed(domain.FailurePlatform, "%v", err)
	}
	at := path.Join(j.inside.files, name)
	command := isolate.Command{Args: withScript(sh.args, at), Env: j.environment(r.env, extra), Dir: dir}
	end := j.execute(ctx, r, command, withScript(sh.fallback, at))
	if err := j.obeyFiles(r); err != nil && end.outcome == outcomeSuccess {
		return failed(domain.FailureUserCode, "%v", err)
	}
	return end
}

// execute runs a command in the sandbox with its output going to the step's log.
func (j *job) execute(ctx context.Context, r *running, command isolate.Command, fallback []string) ending {
	out := newOutput(j.log, r.state.GetIndex(), func(c workflowCommand) error { return j.obey(r, c) })
	p, end, err := startPump(out)
	if err != nil {
		return failed(domain.FailurePlatform, "make a pipe: %v", err)
	}
	j.pumps = append(j.pumps, p)
	command.Stdout, command.Stderr = end, end
	run, err := j.box.Start(ctx, command)
	if errors.Is(err, isolate.ErrProgramNotFound) && len(fallback) > 0 {
		command.Args = fallback
		run, err = j.box.Start(ctx, command)
	}
	_ = end.Close()
	switch {
	case errors.Is(err, isolate.ErrProgramNotFound):
		return failed(domain.FailureInvalid, "the shell %q is not installed on this runner: %v", command.Args[0], err)
	case errors.Is(err, isolate.ErrGone):
		return failed(domain.FailurePlatform, "the sandbox ended before the step could start")
	case errors.Is(err, isolate.ErrUnstartable):
		return failed(domain.FailureUserCode, "%v", err)
	case err != nil: // the machine is to blame: another one may do better
		return failed(domain.FailurePlatform, "%v", err)
	}
	exit, why, err := j.wait(ctx, r, run)
	p.drained()
	out.settle()
	out.obeyNothing()
	switch {
	case j.killed != nil:
		return ending{outcome: outcomeFailure, class: j.killed.Class, code: exit.Code, message: j.killed.Message}
	case errors.Is(err, isolate.ErrGone):
		return failed(domain.FailurePlatform, "the sandbox ended while the step ran")
	case err != nil:
		return failed(domain.FailurePlatform, "the sandbox lost sight of the step: %v", err)
	case why == whyTimeout:
		return ending{
			outcome: outcomeTimedOut, class: domain.FailureTimeout, code: exit.Code,
			message: fmt.Sprintf("timed out after %s", r.limit),
		}
	case why == whyStop:
		return ending{outcome: outcomeCancelled, code: exit.Code, message: "stopped: " + j.stop.Reason}
	case exit.Code != 0:
		return ending{
			outcome: outcomeFailure, class: domain.FailureUserCode, code: exit.Code, message: "ended with " + exit.String(),
		}
	case out.fault != nil:
		return failed(domain.FailureUserCode, "%v", out.fault)
	}
	return ending{outcome: outcomeSuccess}
}

// Why a step was asked to end.
const (
	whyNot = iota
	whyTimeout
	whyStop
)

// wait waits for the end of a step, and brings it about when it must.
func (j *job) wait(ctx context.Context, r *running, run isolate.Running) (isolate.Exit, int, error) {
	exited := make(chan struct{})
	var exit isolate.Exit
	var err error
	go func() {
		exit, err = run.Wait()
		close(exited)
	}()
	var limit <-chan time.Time
	if r.limit > 0 {
		t := time.NewTimer(r.limit)
		defer t.Stop()
		limit = t.C
	}
	kill := time.NewTimer(time.Hour)
	kill.Stop()
	defer kill.Stop()
	stops, timeout := j.stops, j.timeout.C
	if j.stop != nil { // a cleanup step: it has what is left of the grace
		stops, timeout = nil, nil
		kill.Reset(time.Until(j.until))
	}
	why := whyNot
	ask := func(reason int, grace time.Duration) {
		why, stops, timeout, limit = reason, nil, nil, nil
		_ = run.Signal(syscall.SIGTERM) // a sandbox that is gone shows in exited
		_ = run.Signal(syscall.SIGCONT) // or a stopped process would never hear of it
		kill.Reset(grace)
	}
	broken, done := j.log.broken, ctx.Done()
	for {
		select {
		case <-exited:
			return exit, why, err
		case s := <-stops:
			j.begin(s)
			ask(whyStop, s.Grace)
		case <-timeout:
			s := Stop{Reason: "timeout", Grace: j.grace()}
			j.begin(s)
			ask(whyStop, s.Grace)
		case <-limit:
			ask(whyTimeout, j.grace())
		case <-kill.C:
			_ = run.Kill()
			if why == whyNot {
				why = whyStop
			}
		case <-done:
			done = nil
			j.kill(ctx)
			_ = run.Kill()
		case <-broken:
			broken = nil
			j.breakDown()
			_ = run.Kill()
		}
	}
}

// Kinds of command files.
const (
	fileEnv     = "env"
	fileOutput  = "output"
	filePath    = "path"
	fileState   = "state"
	fileSummary = "summary"
)

var commandFileVariables = map[string]string{
	fileEnv: "GITHUB_ENV", fileOutput: "GITHUB_OUTPUT", filePath: "GITHUB_PATH", fileState: "GITHUB_STATE",
	fileSummary: "GITHUB_STEP_SUMMARY",
}

func commandFile(kind, key string) string { return kind + "_" + key }

// commandFiles makes the step's files and the variables that name them.
func (j *job) commandFiles(r *running) (map[string]string, error) {
	vars := maps.Clone(j.ctx.vars)
	if vars == nil {
		vars = make(map[string]string)
	}
	vars["GITHUB_ACTION"] = r.plan.ID
	for kind, variable := range commandFileVariables {
		name := commandFile(kind, r.key)
		if err := writeFile(j.files, name, nil, 0o666); err != nil {
			return nil, err
		}
		vars[variable] = path.Join(j.inside.files, name)
	}
	return vars, nil
}

// obeyFiles takes over what a step wrote into its files. What stands before an error
// counts.
func (j *job) obeyFiles(r *running) error {
	var all error
	for _, kind := range []string{fileEnv, fileOutput, filePath, fileState} {
		text, err := readCommandFile(j.files, commandFile(kind, r.key))
		if err == nil {
			err = j.obeyFile(r, kind, text)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", commandFileVariables[kind], err))
		}
		if err := j.files.Remove(commandFile(kind, r.key)); err != nil && !errors.Is(err, os.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

func (j *job) obeyFile(r *running, kind, text string) error {
	if kind == filePath {
		for _, folder := range parsePaths(text) {
			j.path = append([]string{folder}, j.path...)
		}
		return nil
	}
	pairs, err := parsePairs(text)
	for _, p := range pairs {
		switch kind {
		case fileEnv:
			if strings.EqualFold(p.name, "NODE_OPTIONS") {
				err = errors.Join(err, errors.New("NODE_OPTIONS can't be set this way: it would change every later program"))
				continue
			}
			j.ctx.env[p.name] = p.value
		case fileOutput:
			err = errors.Join(err, j.setOutput(r, p.name, p.value))
		}
	}
	return err
}

func (j *job) setOutput(r *running, name, value string) error {
	j.outputs += len(name) + len(value)
	if j.outputs > outputBytesMax {
		return fmt.Errorf("output %s: the outputs of this job exceed %d bytes", short(name), outputBytesMax)
	}
	r.outputs[name] = value
	return nil
}

// obey carries out a workflow command. It runs on the pump's goroutine while the job's
// own waits for the step, and never after the step was drained.
func (j *job) obey(r *running, c workflowCommand) error {
	switch c.name {
	case "set-output":
		if c.properties["name"] == "" {
			return errors.New("set-output: it has no name")
		}
		return j.setOutput(r, c.properties["name"], c.value)
	case "set-env", "add-path":
		return fmt.Errorf("the command %s is not available: write to the file that GITHUB_%s names",
			c.name, strings.ToUpper(strings.TrimPrefix(strings.TrimPrefix(c.name, "set-"), "add-")))
	}
	return nil
}
