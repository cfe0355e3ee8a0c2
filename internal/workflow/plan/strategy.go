package plan

import (
	"encoding/json"
	"strconv"
)

// Strategy says how the legs of a job run.
type Strategy struct {
	// FailFast: a leg that fails cancels the others that have not concluded.
	FailFast bool `json:"fail_fast,omitempty"`
	// MaxParallel is how many legs may run at the same time; 0: all.
	MaxParallel int `json:"max_parallel,omitempty"`
	// Later is set when only the results of other jobs tell the legs. The plan has none of
	// them then: they are made when the job's condition holds.
	Later *Later `json:"later,omitempty"`
}

// Later is a strategy as it is written, with its ${{ }}. All of it is text of templates; an
// empty one is a key that is not given.
type Later struct {
	// Matrix is JSON: the value of the key matrix, in which every text may be a template.
	Matrix      json.RawMessage `json:"matrix"`
	FailFast    string          `json:"fail_fast,omitempty"`
	MaxParallel string          `json:"max_parallel,omitempty"`
	Name        string          `json:"name,omitempty"`
	RunsOn      []string        `json:"runs_on,omitempty"`
	Timeout     string          `json:"timeout_minutes,omitempty"`
	SoftFail    string          `json:"continue_on_error,omitempty"`
}

// Leg is one combination of a matrix. What it does not say is as its job says.
type Leg struct {
	Of     int             `json:"of"`     // index of the job whose leg it is
	Key    string          `json:"key"`    // unique in the plan: the job's key, a dot and a number from 1
	Name   string          `json:"name"`   // for people; may repeat
	Matrix json.RawMessage `json:"matrix"` // the context matrix
	RunsOn []string        `json:"runs_on,omitempty"`
	// TimeoutSeconds is 0, and SoftFail nil, where the job's own is meant.
	TimeoutSeconds int64 `json:"timeout_seconds,omitempty"`
	SoftFail       *bool `json:"continue_on_error,omitempty"`
}

// LegKey is the key of the leg with that number, from 1. A dot is in no key of a job, so it
// collides with none.
func LegKey(job string, number int) string { return job + "." + strconv.Itoa(number) }

// LegsOf lists the positions in Legs of the job at that index.
func (p *Plan) LegsOf(job int) []int {
	var out []int
	for i := range p.Legs {
		if p.Legs[i].Of == job {
			out = append(out, i)
		}
	}
	return out
}
