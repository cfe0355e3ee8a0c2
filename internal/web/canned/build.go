package canned

import (
	"fmt"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// builder makes one run. Times are seconds since the run was asked for.
type builder struct {
	world *World
	run   *fairleadv1.Run
	start time.Time
}

// build begins a run that was asked for some time ago.
func (w *World) build(age time.Duration, title string) *builder {
	n := byte(len(w.runs) + 1)
	b := &builder{world: w, start: w.now().Add(-age)}
	id := identifier(domain.PrefixRun, n)
	b.run = &fairleadv1.Run{Run: id, Tier: "trusted", Class: "interactive", Desired: "run", Version: 1,
		PlanDigest: string(domain.DigestOf([]byte(title))),
		Summary: &fairleadv1.RunSummary{Run: id, Number: uint64(n), Repository: identifier(domain.PrefixRepository, 1),
			RepositoryName: "shop", Workflow: ".fairlead/workflows/ci.yaml", WorkflowName: "ci", Event: "push",
			Ref: "refs/heads/main", Commit: "c7f2a91b03d84e5f6a7b8c9d0e1f2a3b4c5d6e7f", Title: title, Actor: "ana",
			State: "queued", Desired: "run", Round: 1, Created: b.at(0)}}
	w.runs = append(w.runs, b.run)
	b.say(0, "run", "RunRequested", "A push of main by ana at c7f2a91b asked for this run of ci.")
	return b
}

func (b *builder) at(second float64) string {
	return stampOf(b.start.Add(time.Duration(second * float64(time.Second))))
}

func (b *builder) say(second float64, kind, event, text string) *builder {
	b.run.Version++
	b.run.Timeline = append(b.run.Timeline, &fairleadv1.Sentence{At: b.at(second), Text: text, Kind: kind, Event: event,
		Version: b.run.GetVersion()})
	return b
}

func (b *builder) state(state, reason string) *builder {
	b.run.Summary.State, b.run.Reason = state, reason
	b.run.Attention = state == "attention"
	return b
}

func (b *builder) conclude(second float64, outcome, reason string) *builder {
	b.run.Outcome, b.run.Summary.Outcome, b.run.Summary.State = outcome, outcome, "concluded"
	b.run.Reason, b.run.Summary.Concluded = reason, b.at(second)
	return b.say(second, "run", "RunConcluded", reason)
}

// jobBuilder makes one job of a run.
type jobBuilder struct {
	*builder
	job *fairleadv1.Job
}

func (b *builder) addJob(key string, needs ...string) *jobBuilder {
	index := len(b.run.GetJobs())
	job := &fairleadv1.Job{Id: string(domain.RunID(b.run.GetRun()).Job(index)), Index: int32(index), Key: key, Name: key,
		Needs: needs, State: "waiting", RunsOn: []string{"linux"}, Round: 1,
		Steps: []string{"Check out c7f2a91b", "go build ./...", "go test ./..."}}
	b.run.Jobs = append(b.run.Jobs, job)
	return &jobBuilder{b, job}
}

func (j *jobBuilder) is(state, reason, endsBy string) *jobBuilder {
	j.job.State, j.job.Reason, j.job.EndsBy = state, reason, endsBy
	return j
}

func (j *jobBuilder) segment(kind string, from, to float64, reason string) *jobBuilder {
	s := &fairleadv1.Segment{Kind: kind, From: j.at(from), Reason: reason}
	if to > 0 {
		s.To = j.at(to)
	}
	switch kind {
	case "preparing", "running", "finishing", "uncertain":
		s.Attempt = int32(len(j.job.GetAttempts()))
	}
	j.job.Segments = append(j.job.Segments, s)
	return j
}

// attempt adds the next attempt, leased at a second.
func (j *jobBuilder) attempt(second float64, observed string) *jobBuilder {
	number := len(j.job.GetAttempts()) + 1
	a := &fairleadv1.Attempt{
		Id:     string(domain.JobID(j.job.GetId()).Attempt(number)),
		Number: int32(number), Round: j.job.GetRound(), Epoch: uint64(number), Started: j.at(second), Pool: "default",
		Runner: identifier(domain.PrefixRunner, 1), RunnerName: "build-1",
		Requested: &fairleadv1.Requested{Desired: "run", By: "ana", At: j.at(0)},
		Observed:  &fairleadv1.Observation{State: observed, At: j.at(second + 1)}, SideEffect: "none",
		Log: &fairleadv1.LogInfo{},
	}
	j.job.Attempts = append(j.job.Attempts, a)
	j.job.State = "active"
	j.say(second, "lease", "LeaseGranted", fmt.Sprintf("Runner build-1 took attempt %d.", number))
	j.run.Timeline[len(j.run.GetTimeline())-1].Job = j.job.GetId()
	return j
}

func (j *jobBuilder) last() *fairleadv1.Attempt {
	return j.job.GetAttempts()[len(j.job.GetAttempts())-1]
}

// ends commits the newest attempt, and the job with it unless a retry follows.
func (j *jobBuilder) ends(second float64, outcome, class, message string) *jobBuilder {
	a := j.last()
	a.Outcome, a.FailureClass, a.Message, a.Concluded = outcome, class, message, j.at(second)
	a.Observed = &fairleadv1.Observation{State: "exited", At: j.at(second - 0.2)}
	j.job.State, j.job.Outcome, j.job.Concluded = "concluded", outcome, j.at(second)
	return j
}

// steps gives the newest attempt its steps; exit is of the last one, and -1 says that it
// still runs.
func (j *jobBuilder) steps(from float64, lengths []float64, exit int32) *jobBuilder {
	names := []string{"Check out c7f2a91b", "go build ./...", "go test ./..."}
	a := j.last()
	for i, length := range lengths {
		s := &fairleadv1.Step{Index: int32(i), Name: names[i%len(names)], Started: j.at(from)}
		from += length
		lastOne := i == len(lengths)-1
		switch {
		case lastOne && exit < 0:
		case lastOne && exit > 0:
			s.Outcome, s.Conclusion, s.ExitCode, s.Finished = "failure", "failure", exit, j.at(from)
		default:
			s.Outcome, s.Conclusion, s.Finished = "success", "success", j.at(from)
		}
		a.Steps = append(a.Steps, s)
	}
	for i := len(lengths); i < len(names); i++ {
		a.Steps = append(a.Steps, &fairleadv1.Step{Index: int32(i), Name: names[i]})
	}
	return j
}

// prints gives the newest attempt a log.
func (j *jobBuilder) prints(log Log) *jobBuilder {
	a := j.last()
	j.world.logs[a.GetId()] = log
	a.Log = &fairleadv1.LogInfo{Sealed: log.Sealed, Lines: log.Lines, Bytes: log.Lines * 64}
	return j
}

// works is an attempt from waiting for a runner to its end, with its bars.
func (j *jobBuilder) works(ready, leased, end float64) *jobBuilder {
	if ready > 0 {
		j.segment("needs", 0, ready, "")
	}
	j.segment("no_runner", ready, leased, "")
	j.attempt(leased, "running")
	j.segment("preparing", leased, leased+1.2, "")
	j.segment("running", leased+1.2, end-0.4, "")
	j.segment("finishing", end-0.4, end, "")
	j.job.Ready = j.at(ready)
	return j
}

func (j *jobBuilder) succeeds(end float64) *jobBuilder {
	j.ends(end, "success", "", "")
	j.steps(float64(0), []float64{1, 3, end / 2}, 0)
	j.prints(testLog(j.start, false))
	j.job.Reason = "Every step succeeded."
	return j
}
