package run

import (
	"slices"
	"time"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Live reports whether anything is still to happen: the run has no outcome, or the log of
// an attempt is not sealed. A run that is not live may leave memory.
func Live(s *State) bool {
	if !s.Exists() {
		return false
	}
	if !s.Concluded() {
		return true
	}
	for _, job := range s.Jobs {
		for i := range job.Attempts {
			if job.Attempts[i].logOpen() {
				return true
			}
		}
	}
	return false
}

// Open counts the jobs that have no outcome.
func Open(s *State) (jobs int) {
	for _, job := range s.Jobs {
		if job.State != StateConcluded {
			jobs++
		}
	}
	return jobs
}

// Opens is how many jobs an event adds to those that have no outcome: less than 0 when it gives
// one an outcome.
func Opens(e Event) int {
	switch e := e.(type) {
	case *RunRequested:
		return len(e.Request.Skeleton)
	case *RoundOpened:
		return len(e.Jobs)
	case *MatrixExpanded:
		if e.InputDigest != "" { // the others were open before
			return len(e.Legs)
		}
	case *JobConcluded:
		return -1
	}
	return 0
}

// Attention reports whether something waits for a person: an uncertain attempt that no
// timer settles.
func Attention(s *State) bool {
	for _, job := range s.Jobs {
		if a := job.Current(); a != nil && a.Held {
			return true
		}
	}
	return false
}

// Uncertain reports whether an attempt is uncertain until a time: its runner may act until then.
func Uncertain(s *State) bool {
	for _, job := range s.Jobs {
		if a := job.Current(); a != nil && a.Uncertain && !a.Held {
			return true
		}
	}
	return false
}

// ReadyJobs lists the jobs that wait for a runner, in index order.
func ReadyJobs(s *State) []int {
	var out []int
	for j, job := range s.Jobs {
		if job.State == StateReady {
			out = append(out, j)
		}
	}
	return out
}

// Lease is the right to execute that somebody holds or held last: what a lease keeper
// starts from when it takes over.
type Lease struct {
	Job        int
	Attempt    domain.AttemptID
	Number     int
	Epoch      uint64
	Runner     domain.RunnerID
	Session    domain.SessionID
	Pool       domain.PoolID
	Slot       domain.SlotToken
	Until      time.Time // as last committed; the keeper's own renewals may reach further
	AbandonBy  time.Time
	Uncertain  bool
	Desired    domain.Desired
	Stop       Reason    // why Desired is cancel
	GraceUntil time.Time // then processes are killed; zero unless Desired is cancel
	RenewUntil time.Time // no renewal may reach beyond; zero: no bound
}

// Leases lists the attempts without an outcome, in index order of their jobs.
func Leases(s *State) []Lease {
	var out []Lease
	for j, job := range s.Jobs {
		a := job.Current()
		if a == nil {
			continue
		}
		out = append(out, Lease{
			Job: j, Attempt: s.AttemptID(j, a.Number), Number: a.Number, Epoch: a.Epoch, Runner: a.Runner,
			Session: a.Session, Pool: a.Pool, Slot: a.Slot, Until: a.Until, AbandonBy: a.AbandonBy,
			Uncertain: a.Uncertain, Desired: a.Desired, Stop: a.Stop, GraceUntil: a.GraceUntil, RenewUntil: a.RenewUntil,
		})
	}
	return out
}

// Brief is what the order of an attempt says of its run: all of it stands fast once the lease
// is granted, so it may be kept for as long as the attempt lives.
type Brief struct {
	Request *Request // of the run; for reading only
	Job     int      // its index
	Number  int      // of the attempt
	Round   int
	Needs   []Need // what the job waited for, in the order of its needs
	Leg     *LegBrief
	// Inputs are those of the called workflow that the job is of; nil: the run's.
	Inputs *CallInputs
}

// LegBrief is what the order of a leg says of its matrix.
type LegBrief struct {
	Of int // index of the job whose leg it is
	// Matrix is JSON, and empty where the plan has the leg; then it has the next two as well.
	Matrix         string
	Name           string
	TimeoutSeconds int64
	FailFast       bool
	MaxParallel    int // 0: all
	Index, Total   int // among the legs of this round
}

// Need is a job that another one needed, as it ended.
type Need struct {
	Key     string
	Outcome domain.Outcome
	Outputs []Output // for reading only
}

// BriefOf is the brief of an attempt of the job at that index.
func BriefOf(s *State, job int, a *Attempt) Brief {
	b := Brief{Request: &s.Request, Job: job, Number: a.Number, Round: a.Round, Inputs: s.InputsOf(job)}
	if leg := s.Skeleton(job).Leg; leg != nil {
		group := s.Skeleton(leg.Of).Group
		k := s.Skeleton(job)
		b.Leg = &LegBrief{Of: leg.Of, Matrix: leg.Matrix, Name: k.Name, TimeoutSeconds: k.TimeoutSeconds,
			FailFast: group.FailFast, MaxParallel: group.MaxParallel,
			Index: slices.Index(s.Jobs[leg.Of].Legs, job), Total: len(s.Jobs[leg.Of].Legs)}
	}
	for _, n := range s.Needs(job) {
		b.Needs = append(b.Needs, Need{s.KeyInWorkflow(n), s.Jobs[n].Outcome, s.Outputs(n)})
	}
	return b
}

// MayAct says whether the holder of that epoch may still renew, upload, fetch or read
// secrets for the attempt; nil means yes. The answer is the same for an attempt that does
// not exist and one that is not the caller's.
//
// Trust: attempt and epoch are what the caller showed.
func MayAct(s *State, attempt domain.AttemptID, epoch uint64) *domain.Rejection {
	_, a, ok := s.AttemptByID(attempt)
	if !ok || a.Epoch != epoch || a.Outcome != domain.OutcomeNone {
		return domain.Reject(domain.CodeLeaseEpochStale, "The lease is not the current one.")
	}
	return nil
}
