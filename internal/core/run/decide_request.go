package run

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairlead-ci/fairlead/internal/core/group"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

func (d *draft) requestRun(c RequestRun) (Decision, *domain.Rejection) {
	if d.s.Exists() {
		return Decision{Reply: RequestReply{Run: d.s.Request.Run, Repeat: true}}, nil
	}
	req := c.Request
	req.Limits = req.Limits.withDefaults()
	req.Trigger.ReceivedAt = utc(req.Trigger.ReceivedAt)
	req.Source.Title = clip(req.Source.Title, textBytesMax)
	if r := validRequest(&req); r != nil {
		return Decision{}, r
	}
	if len(req.Invalid) > 0 {
		req.Skeleton = nil
		req.Invalid = clipAll(req.Invalid)
	}
	d.emit(&RunRequested{Base: d.base(), Actor: c.Cause.Actor, Request: req})
	if len(req.Invalid) > 0 {
		d.emit(&RunConcluded{Base: d.base(), Round: 1, Outcome: domain.OutcomeInvalid, Reason: invalidReason(req.Invalid)})
	}
	if len(req.Invalid) == 0 {
		d.joinRun()
	}
	for j := range d.s.Jobs {
		d.consider(j)
	}
	return Decision{Reply: RequestReply{Run: req.Run}}, nil
}

const diagnosticsKept = 20

func clipAll(texts []string) []string {
	out := make([]string, 0, min(len(texts), diagnosticsKept+1))
	for i, text := range texts {
		if i == diagnosticsKept {
			return append(out, fmt.Sprintf("… and %d more", len(texts)-i))
		}
		out = append(out, clip(text, textBytesMax))
	}
	return out
}

func invalidReason(diagnostics []string) Reason {
	text := diagnostics[0]
	if n := len(diagnostics) - 1; n > 0 {
		text = fmt.Sprintf("%s (and %d more)", strings.TrimSuffix(text, "."), n)
	}
	return Reason{Code: ReasonInvalid, Message: text}
}

func invalidArgument(field, format string, args ...any) *domain.Rejection {
	return &domain.Rejection{Code: domain.CodeInvalidArgument, Field: field, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(field, format string, args ...any) *domain.Rejection {
	return &domain.Rejection{Code: domain.CodeTooLarge, Field: field, Message: fmt.Sprintf(format, args...)}
}

func validRequest(r *Request) *domain.Rejection {
	switch {
	case !domain.ValidID(domain.PrefixRun, string(r.Run)):
		return invalidArgument("run", "The run has no valid identifier.")
	case r.Tenant == "":
		return invalidArgument("tenant", "The run has no tenant.")
	case r.Tier.Rank() == 0:
		return invalidArgument("tier", "There is no trust tier %q.", r.Tier)
	case r.Class.Rank() == 0:
		return invalidArgument("class", "There is no class %q.", r.Class)
	case !valid(string(r.Repository), r.RepositoryName, r.WorkflowPath, r.WorkflowName, r.Trigger.Event, r.Trigger.Key,
		r.Trigger.Delivery, r.Source.Commit, r.Source.Ref):
		return invalidArgument("request", "A text of the request is not UTF-8.")
	case len(r.Invalid) > 0:
		return nil
	case len(r.Skeleton) == 0:
		return invalidArgument("skeleton", "The plan has no job.")
	case r.Concurrency != nil && group.Wrong(r.Concurrency.Group) != "":
		return invalidArgument("concurrency", "The run can't join: %s.", group.Wrong(r.Concurrency.Group))
	case len(r.Skeleton) > jobsMax:
		return tooLarge("skeleton", "The plan has %d jobs; the limit is %d.", len(r.Skeleton), jobsMax)
	}
	for i := range r.Skeleton {
		if rejection := validJob(r.Skeleton, i); rejection != nil {
			return rejection
		}
	}
	if j := cyclic(r.Skeleton); j >= 0 {
		return invalidArgument("skeleton", "Job %q needs itself, directly or through others.", r.Skeleton[j].Key)
	}
	return nil
}

func validJob(jobs []JobSkeleton, i int) *domain.Rejection {
	k := &jobs[i]
	switch {
	case k.Index != i:
		return invalidArgument("skeleton", "Job %q is at position %d but says %d.", k.Key, i, k.Index)
	case k.Key == "":
		return invalidArgument("skeleton", "Job %d has no key.", i)
	case k.TimeoutSeconds <= 0:
		return invalidArgument("skeleton", "Job %q has no timeout.", k.Key)
	case k.Retry.Max < 0 || k.Retry.BackoffSeconds < 0 || k.QueueTimeoutSeconds < 0:
		return invalidArgument("skeleton", "Job %q has a negative limit.", k.Key)
	case len(k.Steps) > stepsMax:
		return tooLarge("skeleton", "Job %q has %d steps; the limit is %d.", k.Key, len(k.Steps), stepsMax)
	case len(k.If) > expressionBytesMax:
		return tooLarge("skeleton", "The condition of job %q is over %d bytes.", k.Key, expressionBytesMax)
	}
	if c := k.Concurrency; c != nil && !c.Later && group.Wrong(c.Group) != "" {
		return invalidArgument("skeleton", "Job %q can't join: %s.", k.Key, group.Wrong(c.Group))
	}
	if !valid(k.Key, k.Name, k.If) || !valid(k.RunsOn...) || !valid(k.Steps...) {
		return invalidArgument("skeleton", "A text of job %d is not UTF-8.", i)
	}
	if r := validGroup(jobs, i); r != nil {
		return r
	}
	if r := validCall(jobs, i); r != nil {
		return r
	}
	for n, need := range k.Needs {
		if need < 0 || need >= len(jobs) || slices.Contains(k.Needs[:n], need) {
			return invalidArgument("skeleton", "Job %q needs job %d, which is unknown or named twice.", k.Key, need)
		}
	}
	return nil
}

// validGroup checks what ties a job with a matrix and its legs to each other.
func validGroup(jobs []JobSkeleton, i int) *domain.Rejection {
	k := &jobs[i]
	for _, need := range k.Needs {
		if need >= 0 && need < len(jobs) && jobs[need].Leg != nil {
			return invalidArgument("skeleton", "Job %q needs a leg of another.", k.Key)
		}
	}
	group := func(i int) *Group {
		if i < 0 || i >= len(jobs) {
			return nil
		}
		return jobs[i].Group
	}
	switch {
	case k.Leg != nil && (group(k.Leg.Of) == nil || group(k.Leg.Of).Later):
		return invalidArgument("skeleton", "Job %q is a leg of job %d, which has none.", k.Key, k.Leg.Of)
	case k.Leg != nil && (k.Group != nil || len(k.Needs) > 0 || k.If != "" || len(k.Steps) > 0):
		return invalidArgument("skeleton", "Leg %q has needs, a condition, steps or legs of its own.", k.Key)
	case k.Group == nil:
		return nil
	case k.Group.MaxParallel < 0:
		return invalidArgument("skeleton", "Job %q has a negative limit.", k.Key)
	case k.Group.Later != !slices.ContainsFunc(jobs, func(l JobSkeleton) bool { return l.Leg != nil && l.Leg.Of == i }):
		return invalidArgument("skeleton", "Job %q has no legs, or has them too early.", k.Key)
	}
	return nil
}

// cyclic finds a job that depends on itself, or -1. Jobs leave once all their needs left;
// whoever stays is on a cycle or behind one.
func cyclic(jobs []JobSkeleton) int {
	open := make([]int, len(jobs))
	var free []int
	for i := range jobs {
		if open[i] = len(jobs[i].Needs); open[i] == 0 {
			free = append(free, i)
		}
	}
	dependents := reverse(jobs)
	for len(free) > 0 {
		j := free[len(free)-1]
		free = free[:len(free)-1]
		for _, k := range dependents[j] {
			if open[k]--; open[k] == 0 {
				free = append(free, k)
			}
		}
	}
	return slices.IndexFunc(open, func(n int) bool { return n > 0 })
}

// reverse lists, for each job, the jobs that need it, in index order.
func reverse(jobs []JobSkeleton) [][]int {
	out := make([][]int, len(jobs))
	for i := range jobs {
		for _, need := range jobs[i].Needs {
			out[need] = append(out[need], i)
		}
	}
	return out
}

// SkeletonOf takes from a plan what the core schedules by. Names are cut to a documented
// length; a job without a retry list retries what is not its own fault.
func SkeletonOf(p *plan.Plan) []JobSkeleton {
	const timeoutDefault = 6 * 60 * 60 // of the workflow language
	out := make([]JobSkeleton, 0, len(p.Jobs))
	for i := range p.Jobs {
		job := &p.Jobs[i]
		k := JobSkeleton{
			Index: job.Index, Key: job.Key, Name: clip(job.Name, nameBytesMax),
			Needs: slices.Clone(job.Needs), If: job.If, RunsOn: slices.Clone(job.RunsOn),
			TimeoutSeconds:      job.TimeoutSeconds,
			QueueTimeoutSeconds: QueueTimeoutDefault.Milliseconds() / 1000,
			Retry: Retry{
				Max: job.Retry.Max, On: slices.Clone(job.Retry.On), BackoffSeconds: job.Retry.BackoffSeconds,
			},
			Effectful: job.Effectful, SoftFail: job.SoftFail,
		}
		k.In, k.ID, k.Call = job.In, job.ID, callOf(job.Call)
		k.Concurrency = concurrencyOf(job.Concurrency)
		if st := job.Strategy; st != nil {
			k.Group = &Group{FailFast: st.FailFast, MaxParallel: st.MaxParallel, Later: st.Later != nil}
		}
		if k.TimeoutSeconds <= 0 {
			k.TimeoutSeconds = timeoutDefault
		}
		if len(k.Retry.On) == 0 {
			k.Retry.On = []domain.FailureClass{domain.FailureRunnerLost, domain.FailurePlatform}
		}
		for s := range job.Steps {
			k.Steps = append(k.Steps, clip(job.Steps[s].Name, nameBytesMax))
		}
		out = append(out, k)
	}
	for i := range p.Legs {
		out = append(out, legOf(&p.Legs[i], out))
	}
	return out
}

// concurrencyOf is what the core knows of a job's group: all of it when nothing has to be evaluated.
func concurrencyOf(c *plan.Concurrency) *JobConcurrency {
	if c == nil {
		return nil
	}
	out := &JobConcurrency{Concurrency: Concurrency{Max: c.Queue == plan.QueueMax}}
	if strings.Contains(c.Group+c.Cancel, "${{") {
		out.Later = true
		return out
	}
	out.Group, out.Cancel = c.Group, c.Cancel == "true"
	return out
}

// legOf is the leg of a plan that follows the jobs in out.
func legOf(l *plan.Leg, out []JobSkeleton) JobSkeleton {
	group := &out[l.Of]
	soft := group.SoftFail
	if l.SoftFail != nil {
		soft = *l.SoftFail
	}
	k := legSkeleton(group, &NewLeg{Name: l.Name, RunsOn: l.RunsOn, TimeoutSeconds: l.TimeoutSeconds, SoftFail: soft})
	k.Index, k.Key, k.Leg, k.Call = len(out), l.Key, &Leg{Of: l.Of}, group.Call
	return k
}

// callOf is what the core knows of a call. Inputs that are over the bound of an event are asked for
// like those that have to be evaluated: the answer is an object.
func callOf(c *plan.Call) *CallSkeleton {
	if c == nil {
		return nil
	}
	inputs, literal := c.Literal()
	if !literal || len(inputs) > OutputBytesMax {
		return &CallSkeleton{Ask: true, Outputs: len(c.Outputs) > 0}
	}
	return &CallSkeleton{Inputs: inputs, Outputs: len(c.Outputs) > 0}
}

func legKey(job string, number int) string { return plan.LegKey(job, number) }

// valid reports whether all texts are UTF-8. Other bytes would not survive the encoding,
// and the state that was replayed would not be the state that was held.
func valid(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) })
}
