package expr

import "strings"

// Status answers the status functions of a condition. ids are the names given to
// success('a') or failure('a'); empty means everything that went before.
type Status interface {
	Success(ids []string) bool
	Failure(ids []string) bool
	Cancelled() bool
}

// StepStatus is the status that steps see: the job's own state so far. Exactly one of
// its fields is true once something went wrong; none is while all is well.
type StepStatus struct {
	Failed  bool // a step failed without continue-on-error
	Stopped bool // the job was cancelled
}

// Success implements Status.
func (s StepStatus) Success([]string) bool { return !s.Failed && !s.Stopped }

// Failure implements Status.
func (s StepStatus) Failure([]string) bool { return s.Failed && !s.Stopped }

// Cancelled implements Status.
func (s StepStatus) Cancelled() bool { return s.Stopped }

// JobResult is the result of one job in the words of the language: "success",
// "failure", "cancelled" or "skipped".
type JobResult struct {
	ID     string
	Result string
}

// JobStatus is the status that a job's condition sees: the results of all its ancestors
// (not only of its direct needs), and whether the run is being cancelled.
type JobStatus struct {
	Ancestors []JobResult
	Stopped   bool
}

// Success implements Status: every ancestor succeeded. A skipped one did not.
func (s JobStatus) Success(ids []string) bool {
	if s.Stopped {
		return false
	}
	if len(ids) == 0 {
		for _, a := range s.Ancestors {
			if a.Result != "success" {
				return false
			}
		}
		return true
	}
	for _, id := range ids {
		if s.result(id) != "success" {
			return false
		}
	}
	return true
}

// Failure implements Status: some ancestor failed.
func (s JobStatus) Failure(ids []string) bool {
	if s.Stopped {
		return false
	}
	if len(ids) == 0 {
		for _, a := range s.Ancestors {
			if a.Result == "failure" {
				return true
			}
		}
		return false
	}
	for _, id := range ids {
		if s.result(id) == "failure" {
			return true
		}
	}
	return false
}

// Cancelled implements Status.
func (s JobStatus) Cancelled() bool { return s.Stopped }

func (s JobStatus) result(id string) string {
	for _, a := range s.Ancestors {
		if strings.EqualFold(a.ID, id) {
			return a.Result
		}
	}
	return ""
}
