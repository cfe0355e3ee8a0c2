package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/isolate"
	"github.com/fairlead-ci/fairlead/internal/manifest"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// Runner is what a job may know of the machine it runs on.
type Runner struct {
	Name string `json:"name"`
	OS   string `json:"os"`   // as Go names it; empty means this machine's
	Arch string `json:"arch"` // as Go names it; empty means this machine's
}

func (r Runner) os() string {
	switch name := cmp.Or(r.OS, runtime.GOOS); name {
	case "linux":
		return "Linux"
	case "darwin":
		return "macOS"
	case "windows":
		return "Windows"
	default:
		return name
	}
}

func (r Runner) arch() string {
	switch name := cmp.Or(r.Arch, runtime.GOARCH); name {
	case "amd64":
		return "X64"
	case "386":
		return "X86"
	case "arm64":
		return "ARM64"
	case "arm":
		return "ARM"
	default:
		return strings.ToUpper(name)
	}
}

// Order is everything that Run needs besides a sandbox.
type Order struct {
	Manifest *manifest.Manifest
	Server   string // base URL that the source is fetched from
	Runner   Runner
	// Env holds "name=value" entries of the runner's machine that steps get, PATH first
	// of all. Nothing else of the machine's environment reaches a step.
	Env []string
}

// Stop asks a running job to end early.
type Stop struct {
	Reason string // "cancelled" or "timeout"
	Grace  time.Duration
}

// Killed is the cause with which a context is cancelled to end a job without grace; it
// says what the result shall be.
type Killed struct {
	Class   domain.FailureClass
	Message string
}

// Error implements error.
func (k *Killed) Error() string { return k.Message }

// job is the state of one execution.
type job struct {
	order  Order
	m      *manifest.Manifest
	box    isolate.Sandbox
	sink   Sink
	log    *log
	stops  <-chan Stop
	ctx    *contexts
	inside pathsInside
	files  *os.Root
	fixed  map[string]string // reserved variables
	path   []string          // folders added by GITHUB_PATH, first one first

	steps    []*runnerv1.Step
	progress uint64
	pumps    []*pump
	outputs  int // bytes of all outputs
	started  bool
	fetched  map[int]bool // of the manifest's components
	timeout  *time.Timer

	failed  bool
	class   domain.FailureClass
	message string
	// warnings are told with the result, however the job ended.
	warnings []string
	stop     *Stop
	until    time.Time // when the grace of stop is over
	killed   *Killed
}

// Run executes the job and returns its result when no process of it is left. Cancelling
// ctx kills it at once; the cause should be a *Killed. Each value of stops asks it to
// end; the first counts.
func Run(ctx context.Context, order Order, box isolate.Sandbox, sink Sink, stops <-chan Stop) *runnerv1.Result {
	m := order.Manifest
	j := &job{
		order: order, m: m, box: box, sink: sink, stops: stops,
		log: newLog(sink, string(m.Attempt), m.Epoch,
			cmp.Or(m.Limits.StepLogBytes, StepLogBytesDefault),
			cmp.Or(m.Limits.AttemptLogBytes, AttemptLogBytesDefault), time.Now),
	}
	for _, s := range m.Steps {
		j.steps = append(j.steps, &runnerv1.Step{Index: uint32(s.Index), Name: s.Name})
	}
	limit := time.Duration(m.TimeoutSeconds) * time.Second
	j.timeout = time.NewTimer(cmp.Or(limit, TimeoutDefault))
	defer j.timeout.Stop()
	if err := j.prepare(ctx); err != nil {
		j.fail(domain.FailurePlatform, err.Error())
	} else if err := j.jobEnv(); err != nil {
		j.fail(domain.FailureInvalid, err.Error())
	}
	for i := range m.Steps {
		j.notice(ctx)
		if j.killed != nil {
			break
		}
		j.step(ctx, i)
	}
	return j.finish(ctx)
}

// prepare opens the exchange folder and lays out what steps find in it.
func (j *job) prepare(ctx context.Context) error {
	in := j.box.Inside()
	j.inside = pathsInside{
		workspace: in.Workspace, temp: in.Temp, home: in.Home, files: in.Files, tools: in.Tools,
		event: in.Files + "/event.json",
	}
	files, err := os.OpenRoot(j.box.Outside().Files)
	if err != nil {
		return fmt.Errorf("open the exchange folder: %w", err)
	}
	j.files = files
	j.ctx, err = newContexts(j.m, j.order.Runner, j.inside)
	if err != nil {
		return err
	}
	j.ctx.files = func(patterns []string) (string, error) { return j.hashFiles(ctx, patterns) }
	j.fixed = j.ctx.reserved(j.m, j.order.Runner, j.inside)
	var github struct {
		Event json.RawMessage `json:"event"`
	}
	if len(j.m.Github) > 0 {
		if err := json.Unmarshal(j.m.Github, &github); err != nil {
			return fmt.Errorf("read the github context of the manifest: %w", err)
		}
	}
	event := []byte(github.Event)
	if len(event) == 0 {
		event = []byte("{}")
	}
	return writeFile(files, "event.json", event, 0o444)
}

// jobEnv evaluates the env of workflow and job, in their order.
func (j *job) jobEnv() error {
	for _, b := range j.m.Env {
		value, err := expr.Interpolate(b.Value, j.ctx.evaluation("", nil, expr.StepStatus{}))
		if err != nil {
			return fmt.Errorf("the value of env %s: %w", b.Name, err)
		}
		j.ctx.env[b.Name] = value
	}
	return nil
}

// base is the environment below everything that a workflow says.
func (j *job) base() map[string]string {
	vars := make(map[string]string)
	for _, entry := range j.order.Env {
		if name, value, ok := strings.Cut(entry, "="); ok {
			vars[name] = value
		}
	}
	vars["HOME"] = j.inside.home
	vars["TMPDIR"] = j.inside.temp
	vars["CI"] = "true"
	return vars
}

// status is what conditions see.
func (j *job) status() expr.StepStatus {
	if j.ctx != nil && j.ctx.action != nil {
		return expr.StepStatus{Failed: j.ctx.action.failed, Stopped: j.stop != nil}
	}
	return expr.StepStatus{Failed: j.failed, Stopped: j.stop != nil}
}

// fail keeps the first failure: later ones are consequences more often than causes.
func (j *job) fail(class domain.FailureClass, message string) {
	if j.failed {
		return
	}
	j.failed, j.class, j.message = true, class, message
}

// notice takes whatever has come in between steps.
func (j *job) notice(ctx context.Context) {
	select {
	case <-ctx.Done():
		j.kill(ctx)
		return
	case <-j.log.broken:
		j.breakDown()
		return
	default:
	}
	select {
	case s := <-j.stops:
		j.begin(s)
	case <-j.timeout.C:
		j.begin(Stop{Reason: "timeout", Grace: j.grace()})
	default:
	}
}

// begin starts to stop. Only the first reason counts.
func (j *job) begin(s Stop) {
	if j.stop != nil {
		return
	}
	j.stop = &s
	j.until = time.Now().Add(s.Grace)
}

func (j *job) grace() time.Duration {
	return cmp.Or(time.Duration(j.m.Limits.GraceSeconds)*time.Second, GraceDefault)
}

func (j *job) kill(ctx context.Context) {
	if j.killed != nil {
		return
	}
	if !errors.As(context.Cause(ctx), &j.killed) {
		j.killed = &Killed{domain.FailurePlatform, fmt.Sprintf("the job was ended: %v", context.Cause(ctx))}
	}
}

func (j *job) breakDown() {
	if j.killed == nil {
		j.killed = &Killed{domain.FailurePlatform, fmt.Sprintf("the runner can't keep the job's output: %v", j.log.err())}
	}
}

// report tells of steps that changed. A sink that can't keep it has broken the log too.
func (j *job) report(observed domain.Observed, steps ...*runnerv1.Step) {
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	j.log.flush()
	j.progress++
	p := &runnerv1.Progress{
		Attempt: string(j.m.Attempt), Epoch: j.m.Epoch, Sequence: j.progress, Observed: string(observed),
		Steps: steps, AtUs: time.Now().UnixMicro(),
	}
	if err := j.sink.Progress(p); err != nil && j.log.fault == nil {
		j.log.fault = err
		close(j.log.broken)
	}
}

// finish kills what is left, collects the last output and writes the result.
func (j *job) finish(ctx context.Context) *runnerv1.Result {
	alone := context.WithoutCancel(ctx)
	for _, s := range j.steps {
		if s.GetOutcome() == "" {
			s.Outcome, s.Conclusion = outcomeSkipped, outcomeSkipped
			s.Message = "the job ended before this step"
		}
	}
	ending, cancel := context.WithTimeoutCause(alone, killPatience,
		errors.New("processes of the job can't be killed"))
	defer cancel()
	if err := j.box.KillAll(ending); err != nil {
		j.killed = &Killed{domain.FailurePlatform, err.Error()}
	} else {
		for _, p := range j.pumps {
			<-p.done // every writer is gone, so every pipe has an end
		}
	}
	if j.files != nil {
		_ = j.files.Close()
	}
	outputs := j.giveOutputs()
	for _, s := range j.steps {
		j.log.mu.Lock()
		j.log.finish(s.GetIndex())
		j.log.mu.Unlock()
	}
	if j.killed != nil {
		j.log.say(NoStep, "%s", j.killed.Message)
	}
	r := j.result()
	r.Outputs = outputs
	r.LogEnd = j.log.end()
	Seal(r)
	return r
}

func (j *job) result() *runnerv1.Result {
	r := &runnerv1.Result{
		Attempt: string(j.m.Attempt), Epoch: j.m.Epoch, Steps: j.steps,
		Outcome: string(domain.OutcomeSuccess), Effect: string(domain.EffectNone),
		AtUs: time.Now().UnixMicro(),
	}
	switch {
	case j.killed != nil:
		r.Outcome, r.FailureClass, r.Message = string(domain.OutcomeFailure), string(j.killed.Class), j.killed.Message
	case j.failed && j.stop == nil, j.failed && j.class == domain.FailurePlatform:
		r.Outcome, r.FailureClass, r.Message = string(domain.OutcomeFailure), string(j.class), j.message
	case j.stop != nil && j.interrupted():
		r.Outcome, r.FailureClass = string(domain.OutcomeCancelled), string(domain.FailureCancelled)
		r.Message = "cancelled"
		if j.stop.Reason == "timeout" {
			r.Outcome, r.FailureClass = string(domain.OutcomeTimedOut), string(domain.FailureTimeout)
			r.Message = fmt.Sprintf("the job timed out after %s",
				cmp.Or(time.Duration(j.m.TimeoutSeconds)*time.Second, TimeoutDefault))
		}
	case j.failed:
		r.Outcome, r.FailureClass, r.Message = string(domain.OutcomeFailure), string(j.class), j.message
	}
	if r.GetOutcome() == string(domain.OutcomeFailure) && r.GetFailureClass() == string(domain.FailureTimeout) {
		// A step that was over its limit and was not forgiven: the attempt timed out.
		r.Outcome = string(domain.OutcomeTimedOut)
	}
	if j.started && j.m.Effectful {
		r.Effect = string(domain.EffectUnknown)
		if r.GetOutcome() == string(domain.OutcomeSuccess) {
			r.Effect = string(domain.EffectConfirmed)
		}
	}
	if r.GetMessage() == "" {
		r.Message = strings.Join(j.warnings, "; ")
	}
	r.Message = cut(j.log, r.GetMessage())
	return r
}

// interrupted reports whether the stop kept any step from its natural end: a request
// that came after the last step had ended changed nothing.
func (j *job) interrupted() bool {
	for _, s := range j.steps {
		if s.GetOutcome() == outcomeCancelled {
			return true
		}
	}
	return false
}

// cut masks and bounds a message for people.
func cut(l *log, text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text = strings.ToValidUTF8(l.mask.Text(text), "\uFFFD")
	if len(text) > messageBytesMax {
		text = strings.ToValidUTF8(text[:messageBytesMax], "") + "…"
	}
	return text
}

// Seal sets the digest of a result's content, which tells a repeated report from a
// contradicting one. When it was written is not content.
func Seal(r *runnerv1.Result) {
	content, ok := proto.Clone(r).(*runnerv1.Result)
	if !ok {
		return
	}
	content.Digest, content.AtUs = "", 0
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		return // strings are valid UTF-8 by now, and nothing else can fail
	}
	r.Digest = string(domain.DigestOf(text))
}

// environment is everything a step's command gets.
func (j *job) environment(step map[string]string, extra map[string]string) []string {
	vars := j.base()
	maps.Copy(vars, j.ctx.env)
	maps.Copy(vars, step)
	maps.Copy(vars, j.fixed)
	maps.Copy(vars, extra)
	if len(j.path) > 0 {
		vars["PATH"] = strings.Join(append(append([]string{}, j.path...), vars["PATH"]), ":")
	}
	return list(vars)
}
