package web

import (
	"fmt"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// legView is a leg in the block of its job.
type legView struct {
	Name, Href string
	Status     status
}

// outputView is a value that a job gives to others.
type outputView struct{ Name, Value string }

// outputRunesMax is how much of an output's value a page shows.
const outputRunesMax = 200

// grouped puts the legs of a matrix behind their job, in their order; legs of earlier rounds
// follow them.
func grouped(jobs []*fairleadv1.Job) []*fairleadv1.Job {
	legs := map[string][]*fairleadv1.Job{}
	byKey := map[string]*fairleadv1.Job{}
	for _, job := range jobs {
		if of := job.GetLegOf(); of != "" {
			legs[of] = append(legs[of], job)
			byKey[job.GetKey()] = job
		}
	}
	if len(legs) == 0 {
		return jobs
	}
	out := make([]*fairleadv1.Job, 0, len(jobs))
	for _, job := range jobs {
		if job.GetLegOf() != "" {
			continue
		}
		out = append(out, job)
		placed := map[string]bool{}
		for _, key := range job.GetLegs() {
			if leg := byKey[key]; leg != nil {
				out, placed[key] = append(out, leg), true
			}
		}
		for _, leg := range legs[job.GetKey()] {
			if !placed[leg.GetKey()] {
				out = append(out, leg)
			}
		}
	}
	return out
}

// withoutLegs are the jobs that others can need.
func withoutLegs(jobs []*fairleadv1.Job) []*fairleadv1.Job {
	var out []*fairleadv1.Job
	for _, job := range jobs {
		if job.GetLegOf() == "" {
			out = append(out, job)
		}
	}
	return out
}

// legsOf lists the legs of a job, as its block shows them.
func legsOf(run *fairleadv1.Run, job *fairleadv1.Job) []legView {
	if len(job.GetLegs()) == 0 {
		return nil
	}
	wanted := map[string]bool{}
	for _, key := range job.GetLegs() {
		wanted[key] = true
	}
	var out []legView
	for _, leg := range grouped(run.GetJobs()) {
		if leg.GetLegOf() == job.GetKey() && wanted[leg.GetKey()] {
			out = append(out, legView{Name: orElse(leg.GetName(), leg.GetKey()), Status: statusOfJob(leg),
				Href: "#job-" + fmt.Sprint(leg.GetIndex())})
		}
	}
	return out
}

func outputsOf(job *fairleadv1.Job) []outputView {
	var out []outputView
	for _, o := range job.GetOutputs() {
		value := shorten(o.GetValue(), outputRunesMax)
		if value == "" {
			value = bytesText(o.GetBytes())
		}
		out = append(out, outputView{o.GetName(), value})
	}
	return out
}
