package web

import (
	"fmt"
	"slices"

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
// follow them. The jobs of a called workflow follow the job or leg that calls it.
func grouped(jobs []*fairleadv1.Job) []*fairleadv1.Job {
	called := map[string][]*fairleadv1.Job{}
	var own []*fairleadv1.Job
	ins := map[string]string{} // of jobs, for their legs
	for _, job := range jobs {
		ins[job.GetKey()] = job.GetIn()
	}
	for _, job := range jobs {
		in := job.GetIn()
		if of := job.GetLegOf(); of != "" {
			in = ins[of]
		}
		if in == "" {
			own = append(own, job)
		} else {
			called[in] = append(called[in], job)
		}
	}
	if len(called) == 0 {
		return legsGrouped(jobs)
	}
	out := make([]*fairleadv1.Job, 0, len(jobs))
	var add func(of []*fairleadv1.Job)
	add = func(of []*fairleadv1.Job) {
		for _, job := range legsGrouped(of) {
			out = append(out, job)
			inside := called[job.GetKey()]
			delete(called, job.GetKey()) // each once, whatever a server says
			add(inside)
		}
	}
	add(own)
	return out
}

// legsGrouped does so for the jobs of one workflow.
func legsGrouped(jobs []*fairleadv1.Job) []*fairleadv1.Job {
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

// withoutLegs are the jobs of the run's own workflow, without legs.
func withoutLegs(jobs []*fairleadv1.Job) []*fairleadv1.Job {
	var out []*fairleadv1.Job
	for _, job := range jobs {
		if job.GetLegOf() == "" && job.GetIn() == "" {
			out = append(out, job)
		}
	}
	return out
}

// legsOf lists the legs of a job, or the jobs that it calls, as its block shows them.
func legsOf(run *fairleadv1.Run, job *fairleadv1.Job) []legView {
	calls := slices.ContainsFunc(run.GetJobs(), func(j *fairleadv1.Job) bool { return j.GetIn() == job.GetKey() })
	if len(job.GetLegs()) == 0 && !calls {
		return nil
	}
	wanted := map[string]bool{}
	for _, key := range job.GetLegs() {
		wanted[key] = true
	}
	var out []legView
	for _, leg := range grouped(run.GetJobs()) {
		called := leg.GetLegOf() == "" && leg.GetIn() == job.GetKey()
		if called || leg.GetLegOf() == job.GetKey() && wanted[leg.GetKey()] {
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
