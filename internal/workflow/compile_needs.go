package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// needs connects the jobs and refuses what could never start.
func (c *compiler) needs() {
	index := make(map[string]int, len(c.jobIDs))
	for i, id := range c.jobIDs {
		index[strings.ToUpper(id)] = i
	}
	for i, job := range c.file.Jobs {
		for _, n := range job.Needs {
			need, ok := index[strings.ToUpper(scalarText(n))]
			switch {
			case !ok:
				c.reports.Add(syntax.CodeUnknownNeed, n.Range,
					fmt.Sprintf("the job %s needs %s, which does not exist", syntax.Quote(job.ID.Value),
						syntax.Quote(scalarText(n))), c.reports.Suggest(scalarText(n), c.jobIDs, c.otherJobs(i)))
			case need == i:
				c.reports.Add(syntax.CodeSelfNeed, n.Range,
					fmt.Sprintf("the job %s needs itself", syntax.Quote(job.ID.Value)), "remove it")
			case slices.Contains(c.plan.Jobs[i].Needs, need):
				c.reports.Add(syntax.CodeDuplicateNeed, n.Range,
					fmt.Sprintf("the job %s names the need %s twice", syntax.Quote(job.ID.Value),
						syntax.Quote(scalarText(n))), "remove one")
			default:
				c.plan.Jobs[i].Needs = append(c.plan.Jobs[i].Needs, need)
			}
		}
	}
	c.circles()
}

// otherJobs names the jobs that a job could need, if they are few.
func (c *compiler) otherJobs(job int) string {
	const few = 8
	if len(c.jobIDs) < 2 || len(c.jobIDs) > few {
		return ""
	}
	return "the other jobs are " + strings.Join(slices.Delete(slices.Clone(c.jobIDs), job, job+1), ", ")
}

// circles reports every group of jobs that wait for each other, once.
func (c *compiler) circles() {
	const (
		unseen = iota
		open
		done
	)
	state := make([]int, len(c.plan.Jobs))
	var path []int
	var visit func(job int)
	visit = func(job int) {
		state[job] = open
		path = append(path, job)
		for _, need := range c.plan.Jobs[job].Needs {
			switch state[need] {
			case unseen:
				visit(need)
			case open:
				if c.reports.Full() {
					continue
				}
				c.circle(path[slices.Index(path, need):])
			}
		}
		path = path[:len(path)-1]
		state[job] = done
	}
	for job := range c.plan.Jobs {
		if state[job] == unseen {
			visit(job)
		}
	}
}

// circle reports one circle, starting at the job that comes first in the file.
func (c *compiler) circle(path []int) {
	start := slices.Index(path, slices.Min(path))
	turned := append(slices.Clone(path[start:]), path[:start]...)
	var names []string
	for i, job := range append(turned, turned[0]) {
		if i == cycleJobsMax {
			names = append(names, "…")
			break
		}
		names = append(names, c.jobIDs[job])
	}
	first := c.file.Jobs[turned[0]]
	at := first.ID.Range
	for _, n := range first.Needs {
		if len(turned) > 1 && strings.EqualFold(scalarText(n), c.jobIDs[turned[1]]) {
			at = n.Range
		}
	}
	c.reports.Add(syntax.CodeNeedCycle, at, "these jobs need each other, so none can start: "+strings.Join(names, " → "),
		"remove one of the needs")
}
