package compare

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/plan"
)

// Plans compares two plans, job by job under their keys: where a job stands in its plan does not
// count. Evaluator and inputs are not compared, since a run has them by themselves. Either may be
// nil.
func Plans(before, after *plan.Plan) []Difference {
	out := values(headOf(before), headOf(after))
	a, b := jobsOf(before), jobsOf(after)
	for _, key := range keysOf(before, after) {
		x, inA := a[key]
		y, inB := b[key]
		name := "job " + key
		switch {
		case !inB:
			out = append(out, Difference{Name: name, Kind: Removed})
		case !inA:
			out = append(out, Difference{Name: name, Kind: Added})
		default:
			for _, d := range values(x, y) {
				d.Name = name + ": " + d.Name
				out = append(out, d)
			}
		}
	}
	return out
}

func headOf(p *plan.Plan) any {
	if p == nil {
		return map[string]any{}
	}
	head := *p
	head.Evaluator, head.Inputs, head.Jobs, head.Legs = 0, nil, nil, nil
	out := tree(head)
	delete(out, "evaluator")
	delete(out, "jobs")
	return out
}

// keysOf are the keys of all jobs and legs, in the order of the first plan, then of the second.
func keysOf(plans ...*plan.Plan) (keys []string) {
	seen := map[string]bool{}
	add := func(key string) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, p := range plans {
		if p == nil {
			continue
		}
		for i := range p.Jobs {
			add(p.Jobs[i].Key)
		}
		for i := range p.Legs {
			add(p.Legs[i].Key)
		}
	}
	return keys
}

// jobsOf are the jobs and legs of a plan by key, with keys where the plan has indexes.
func jobsOf(p *plan.Plan) map[string]any {
	out := map[string]any{}
	if p == nil {
		return out
	}
	key := func(i int) string {
		switch {
		case i >= 0 && i < len(p.Jobs):
			return p.Jobs[i].Key
		case i >= len(p.Jobs) && i-len(p.Jobs) < len(p.Legs):
			return p.Legs[i-len(p.Jobs)].Key
		}
		return "?"
	}
	for i := range p.Jobs {
		job := &p.Jobs[i]
		m := tree(job)
		delete(m, "index")
		if len(job.Needs) > 0 {
			var needs []any
			for _, n := range job.Needs {
				needs = append(needs, key(n))
			}
			slices.SortFunc(needs, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			m["needs"] = needs
		}
		if job.In != nil {
			m["in"] = key(*job.In)
		}
		out[job.Key] = m
	}
	for i := range p.Legs {
		m := tree(&p.Legs[i])
		m["of"] = key(p.Legs[i].Of)
		out[p.Legs[i].Key] = m
	}
	return out
}

// tree is a value as encoding/json reads it again.
func tree(v any) map[string]any {
	data, err := json.Marshal(v)
	if err != nil {
		panic("encode part of a plan: " + err.Error()) // strings, numbers and JSON that was read: can't happen
	}
	out, err := read(data)
	if m, ok := out.(map[string]any); ok && err == nil {
		return m
	}
	return map[string]any{}
}
