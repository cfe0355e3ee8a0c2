package review

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/fairlead-ci/fairlead/internal/core/run"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/trigger/snapshot"
	"github.com/fairlead-ci/fairlead/internal/workflow/compare"
	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// partMax is how many differences of a part are listed; further ones are counted in a note.
const partMax = 200

// valueBytesMax bounds what is compared key by key: as a tree it takes many times its bytes. Of what
// is larger only that it differs is said.
const valueBytesMax = 16 << 20

// Parts of a comparison, in the order in which they are given.
const (
	PartSource     = "source"
	PartWorkflow   = "workflow"
	PartEvaluator  = "evaluator"
	PartInputs     = "inputs"
	PartEvent      = "event"
	PartComponents = "components"
	PartPlan       = "plan"
	PartOutcome    = "outcome"
)

// Difference is one thing that differs.
type Difference struct {
	Part string
	compare.Difference
}

// Comparison is in what two runs differ.
type Comparison struct {
	Before, After *run.State
	Differences   []Difference
	Lines         []compare.Line // of the workflow's file
	Notes         []string       // what could not be compared, and what was left out
}

// Diff compares two runs of a tenant. Whether the caller may read both is for the caller to know.
func (r *Reviewer) Diff(ctx context.Context, tenant domain.TenantID, before, after domain.RunID) (*Comparison, error) {
	leave, err := r.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c := &Comparison{}
	a, err := r.load(ctx, tenant, before, c)
	if err != nil {
		return nil, err
	}
	b, err := r.load(ctx, tenant, after, c)
	if err != nil {
		return nil, err
	}
	c.Before, c.After = a.state, b.state
	c.source(a, b)
	c.texts(a, b)
	if a.evaluator > 0 && b.evaluator > 0 {
		c.pairs(PartEvaluator, [3]string{"evaluator", strconv.Itoa(a.evaluator), strconv.Itoa(b.evaluator)})
	}
	c.values(PartInputs, a.inputs, b.inputs)
	c.values(PartEvent, a.github, b.github)
	c.components(a, b)
	c.plans(a, b)
	c.outcomes(a.state, b.state)
	return c, nil
}

// side is a run with what it rests on, as far as that is there.
type side struct {
	state          *run.State
	frozen         *snapshot.Snapshot // nil: it is not there, or newer
	evaluator      int                // 0: not known
	text           []byte
	textKnown      bool
	plan           *plan.Plan
	planBytes      int
	inputs, github []byte
}

func (s *side) planKnown() bool { return s.plan != nil || s.state.Request.Plan == "" }

// load reads what a run rests on. What is missing becomes a note.
func (r *Reviewer) load(ctx context.Context, tenant domain.TenantID, id domain.RunID, c *Comparison) (*side, error) {
	h, err := r.read.Read(ctx, tenant, id.Stream(), false)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	state, ok := h.State.(*run.State)
	if !ok {
		return nil, domain.Reject(domain.CodeNotFound, "There is no such run.")
	}
	out, q := &side{state: state}, &state.Request
	object := func(what string, digest domain.Digest) []byte {
		if digest == "" || err != nil {
			return nil
		}
		data, lost, fault := r.object(ctx, tenant, digest)
		if err = fault; lost != "" {
			c.note("The %s of %s can't be compared: %s", what, id, lost)
		}
		return data
	}
	if data := object("snapshot", q.Snapshot); data != nil {
		frozen, bad := snapshot.Decode(data)
		if bad != nil {
			c.note("The snapshot of %s can't be read by this server: %s.", id, compare.Shorten(bad.Error()))
		} else {
			out.frozen, out.evaluator, out.github = frozen, frozen.Evaluator, frozen.Github
			out.text = object("workflow file", frozen.Workflow.Digest)
			out.textKnown = out.text != nil
			if frozen.GithubObject != "" {
				out.github = object("event", frozen.GithubObject)
			}
		}
	}
	if data := object("plan", q.Plan); data != nil {
		p, bad := plan.Decode(data)
		if bad != nil {
			c.note("The plan of %s can't be read by this server: %s.", id, compare.Shorten(bad.Error()))
		}
		out.plan, out.planBytes = p, len(data)
	}
	out.inputs = object("inputs", q.Inputs)
	return out, err
}

func (c *Comparison) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

func (c *Comparison) add(part string, list []compare.Difference) {
	if more := len(list) - partMax; more > 0 {
		c.note("%d further differences of %s are not listed.", more, part)
		list = list[:partMax]
	}
	for _, d := range list {
		c.Differences = append(c.Differences, Difference{part, d})
	}
}

// values compares two JSON values, if both are there.
func (c *Comparison) values(part string, a, b []byte) {
	switch {
	case len(a) == 0 || len(b) == 0 || bytes.Equal(a, b):
	case len(a)+len(b) > valueBytesMax:
		c.large(part)
	default:
		c.add(part, compare.JSON(a, b))
	}
}

func (c *Comparison) large(part string) {
	c.note("The %s differs, and is too large to be compared key by key.", part)
}

func (c *Comparison) plans(a, b *side) {
	switch {
	case !a.planKnown() || !b.planKnown() || a.state.Request.Plan == b.state.Request.Plan:
	case a.planBytes+b.planBytes > valueBytesMax:
		c.large(PartPlan)
	default:
		c.add(PartPlan, compare.Plans(a.plan, b.plan))
	}
}

// pairs adds what differs of named values: name, before, after.
func (c *Comparison) pairs(part string, all ...[3]string) {
	var list []compare.Difference
	for _, one := range all {
		if d, differs := compare.Between(one[0], one[1], one[2]); differs {
			list = append(list, d)
		}
	}
	c.add(part, list)
}

func (c *Comparison) source(a, b *side) {
	x, y := &a.state.Request, &b.state.Request
	pairs := [][3]string{
		{"repository", x.RepositoryName, y.RepositoryName}, {"commit", x.Source.Commit, y.Source.Commit},
		{"ref", x.Source.Ref, y.Source.Ref}, {"trigger", x.Trigger.Event, y.Trigger.Event},
		{"actor", x.Trigger.Actor.ID, y.Trigger.Actor.ID}, {"tier", string(x.Tier), string(y.Tier)},
		{"class", string(x.Class), string(y.Class)},
	}
	if a.frozen != nil && b.frozen != nil {
		pairs = append(pairs, [3]string{"tree", a.frozen.Source.Tree, b.frozen.Source.Tree},
			[3]string{"captured", strconv.FormatBool(a.frozen.Source.Captured), strconv.FormatBool(b.frozen.Source.Captured)},
			[3]string{"policy", a.frozen.Policy, b.frozen.Policy})
	}
	c.pairs(PartSource, pairs...)
}

// texts compares the workflow's file. Other files of the commits are named by these only.
func (c *Comparison) texts(a, b *side) {
	c.pairs(PartWorkflow, [3]string{"path", a.state.Request.WorkflowPath, b.state.Request.WorkflowPath})
	if !a.textKnown || !b.textKnown || bytes.Equal(a.text, b.text) {
		return
	}
	c.pairs(PartWorkflow, [3]string{"text", string(a.frozen.Workflow.Digest), string(b.frozen.Workflow.Digest)})
	c.Lines = compare.Lines(string(a.text), string(b.text))
}

// components compares what the workflow's references were resolved to.
func (c *Comparison) components(a, b *side) {
	if a.frozen == nil || b.frozen == nil {
		return
	}
	c.add(PartComponents, compare.JSON(componentsJSON(a.frozen), componentsJSON(b.frozen)))
}

// componentsJSON is the list by name, so that one more does not move all others.
func componentsJSON(s *snapshot.Snapshot) []byte {
	all := map[string]any{}
	for i := range s.Components {
		all[s.Components[i].Name] = s.Components[i]
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic("encode components: " + err.Error()) // strings and numbers: can't happen
	}
	return data
}

// outcomes compares what came of the runs and of their jobs, by key.
func (c *Comparison) outcomes(a, b *run.State) {
	x, y := map[string]string{}, map[string]string{}
	var keys []string
	for _, one := range []struct {
		s    *run.State
		into map[string]string
	}{{a, x}, {b, y}} {
		for j := range one.s.Jobs {
			key := one.s.Skeleton(j).Key
			if x[key] == "" && y[key] == "" {
				keys = append(keys, key)
			}
			one.into[key] = outcome(one.s.Jobs[j])
		}
	}
	pairs := [][3]string{{"run", runOutcome(a), runOutcome(b)}}
	for _, key := range keys {
		pairs = append(pairs, [3]string{"job " + key, x[key], y[key]})
	}
	c.pairs(PartOutcome, pairs...)
}

func outcome(j *run.Job) string {
	if j.State == run.StateConcluded {
		return string(j.Outcome)
	}
	return string(j.State)
}

func runOutcome(s *run.State) string {
	if s.Concluded() {
		return string(s.Outcome)
	}
	return "open"
}
