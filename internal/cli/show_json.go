package cli

import (
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// What scripts read of a run. It differs from the API's own JSON in two ways: requested
// and observed are words beside their details, and what is not committed is null.

type runJSON struct {
	Run            string         `json:"run"`
	Number         uint64         `json:"number"`
	Repository     string         `json:"repository"`
	RepositoryName string         `json:"repository_name"`
	Workflow       string         `json:"workflow"`
	WorkflowName   string         `json:"workflow_name"`
	Event          string         `json:"event"`
	Ref            string         `json:"ref"`
	Commit         string         `json:"commit"`
	Title          string         `json:"title"`
	Actor          string         `json:"actor"`
	Tier           string         `json:"tier"`
	Class          string         `json:"class"`
	State          string         `json:"state"`
	Desired        string         `json:"desired"`
	Outcome        *string        `json:"outcome"`
	Reason         string         `json:"reason"`
	Attention      bool           `json:"attention"`
	Created        *string        `json:"created"`
	Concluded      *string        `json:"concluded"`
	Round          int32          `json:"round"`
	Rounds         []roundJSON    `json:"rounds"`
	PlanDigest     string         `json:"plan_digest"`
	SnapshotDigest string         `json:"snapshot_digest"`
	Diagnostics    []string       `json:"diagnostics"`
	Version        uint64         `json:"version"`
	URL            string         `json:"url"`
	Jobs           []jobJSON      `json:"jobs"`
	Timeline       []sentenceJSON `json:"timeline,omitempty"`
	// Components are what the run uses from elsewhere, resolved; absent when there is none.
	Components []componentJSON `json:"components,omitempty"`
}

type componentJSON struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	File      string `json:"file"`
}

func componentsJSON(list []*fairleadv1.Component) (out []componentJSON) {
	for _, c := range list {
		out = append(out, componentJSON{c.GetReference(), c.GetDigest(), c.GetFile()})
	}
	return out
}

type roundJSON struct {
	Number    int32   `json:"number"`
	Mode      string  `json:"mode"`
	By        string  `json:"by"`
	Outcome   *string `json:"outcome"`
	Opened    *string `json:"opened"`
	Concluded *string `json:"concluded"`
}

type jobJSON struct {
	ID         string        `json:"id"`
	Key        string        `json:"key"`
	Name       string        `json:"name"`
	State      string        `json:"state"`
	Outcome    *string       `json:"outcome"`
	Reason     string        `json:"reason"`
	ReasonCode string        `json:"reason_code"`
	EndsBy     string        `json:"ends_by"`
	Needs      []string      `json:"needs"`
	RunsOn     []string      `json:"runs_on"`
	Effectful  bool          `json:"effectful"`
	Round      int32         `json:"round"`
	Steps      []string      `json:"steps"`
	Ready      *string       `json:"ready"`
	Concluded  *string       `json:"concluded"`
	Attempts   []attemptJSON `json:"attempts"`
	// Of a job with a matrix, of a leg of one, and of a job that gives something to others.
	Legs    []string     `json:"legs,omitempty"`
	In      string       `json:"in,omitempty"` // the job, or leg, that calls the workflow which this one is of
	LegOf   string       `json:"leg_of,omitempty"`
	Outputs []outputJSON `json:"outputs,omitempty"`
}

type outputJSON struct {
	Name  string  `json:"name"`
	Value *string `json:"value"` // null when it is large
	Bytes int64   `json:"bytes"`
}

type attemptJSON struct {
	ID              string     `json:"id"`
	Number          int32      `json:"number"`
	Round           int32      `json:"round"`
	Epoch           uint64     `json:"epoch"`
	Requested       string     `json:"requested"`
	RequestedBy     string     `json:"requested_by"`
	RequestedAt     *string    `json:"requested_at"`
	RequestedReason string     `json:"requested_reason"`
	Observed        string     `json:"observed"`
	ObservedAt      *string    `json:"observed_at"`
	Outcome         *string    `json:"outcome"`
	FailureClass    *string    `json:"failure_class"`
	SideEffect      string     `json:"side_effect"`
	Uncertain       bool       `json:"uncertain"`
	NextStep        string     `json:"next_step"`
	Runner          string     `json:"runner"`
	RunnerName      string     `json:"runner_name"`
	Pool            string     `json:"pool"`
	Started         *string    `json:"started"`
	Concluded       *string    `json:"concluded"`
	Until           *string    `json:"until"`
	AbandonBy       *string    `json:"abandon_by"`
	Message         string     `json:"message"`
	Refused         int32      `json:"refused"`
	Conflicts       int32      `json:"conflicts"`
	Log             logJSON    `json:"log"`
	Steps           []stepJSON `json:"steps"`
}

type logJSON struct {
	Sealed    bool  `json:"sealed"`
	Bytes     int64 `json:"bytes"`
	Lines     int64 `json:"lines"`
	Truncated bool  `json:"truncated"`
	Gaps      int32 `json:"gaps"`
	// Removed says when and why the log was removed, because it is not kept so long.
	Removed string `json:"removed,omitempty"`
}

type stepJSON struct {
	Number     int32   `json:"number"` // from 1, as logs --step takes it
	Name       string  `json:"name"`
	Outcome    *string `json:"outcome"`
	Conclusion *string `json:"conclusion"`
	ExitCode   int32   `json:"exit_code"`
	Started    *string `json:"started"`
	Finished   *string `json:"finished"`
	Message    string  `json:"message"`
}

type sentenceJSON struct {
	At      string `json:"at"`
	Text    string `json:"text"`
	Kind    string `json:"kind"`
	Job     string `json:"job"`
	Attempt string `json:"attempt"`
	Event   string `json:"event"`
	Version uint64 `json:"version"`
	Actor   string `json:"actor"`
}

// orNull is null for what is not there yet.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// list is never null, so that scripts can loop over it.
func list(texts []string) []string { return append([]string{}, texts...) }

func showRun(run *fairleadv1.Run) runJSON {
	s := run.GetSummary()
	out := runJSON{
		Run: run.GetRun(), Number: s.GetNumber(), Repository: s.GetRepository(), RepositoryName: s.GetRepositoryName(),
		Workflow: s.GetWorkflow(), WorkflowName: s.GetWorkflowName(), Event: s.GetEvent(), Ref: s.GetRef(),
		Commit: s.GetCommit(), Title: s.GetTitle(), Actor: s.GetActor(), Tier: run.GetTier(), Class: run.GetClass(),
		State: s.GetState(), Desired: run.GetDesired(), Outcome: orNull(run.GetOutcome()), Reason: run.GetReason(),
		Attention: run.GetAttention(), Created: orNull(s.GetCreated()), Concluded: orNull(s.GetConcluded()),
		Round: s.GetRound(), Rounds: []roundJSON{}, PlanDigest: run.GetPlanDigest(),
		SnapshotDigest: run.GetSnapshotDigest(), Diagnostics: list(run.GetDiagnostics()), Version: run.GetVersion(),
		URL: run.GetUrl(), Jobs: []jobJSON{}, Components: componentsJSON(run.GetComponents()),
	}
	for _, r := range run.GetRounds() {
		out.Rounds = append(out.Rounds, roundJSON{Number: r.GetNumber(), Mode: r.GetMode(), By: r.GetBy(),
			Outcome: orNull(r.GetOutcome()), Opened: orNull(r.GetOpened()), Concluded: orNull(r.GetConcluded())})
	}
	for _, job := range run.GetJobs() {
		out.Jobs = append(out.Jobs, showJob(job))
	}
	for _, l := range run.GetTimeline() {
		out.Timeline = append(out.Timeline, sentenceJSON{At: l.GetAt(), Text: l.GetText(), Kind: l.GetKind(),
			Job: l.GetJob(), Attempt: l.GetAttempt(), Event: l.GetEvent(), Version: l.GetVersion(), Actor: l.GetActor()})
	}
	return out
}

func showJob(job *fairleadv1.Job) jobJSON {
	out := jobJSON{
		ID: job.GetId(), Key: job.GetKey(), Name: job.GetName(), State: job.GetState(),
		Outcome: orNull(job.GetOutcome()), Reason: job.GetReason(), ReasonCode: job.GetReasonCode(),
		EndsBy: job.GetEndsBy(), Needs: list(job.GetNeeds()), RunsOn: list(job.GetRunsOn()),
		Effectful: job.GetEffectful(), Round: job.GetRound(), Steps: list(job.GetSteps()),
		Ready: orNull(job.GetReady()), Concluded: orNull(job.GetConcluded()), Attempts: []attemptJSON{},
	}
	for _, attempt := range job.GetAttempts() {
		out.Attempts = append(out.Attempts, showAttempt(attempt))
	}
	out.Legs, out.LegOf, out.In = job.GetLegs(), job.GetLegOf(), job.GetIn()
	for _, o := range job.GetOutputs() {
		out.Outputs = append(out.Outputs, outputJSON{o.GetName(), orNull(o.GetValue()), o.GetBytes()})
	}
	return out
}

func showAttempt(a *fairleadv1.Attempt) attemptJSON {
	requested, observed, log := a.GetRequested(), a.GetObserved(), a.GetLog()
	out := attemptJSON{
		ID: a.GetId(), Number: a.GetNumber(), Round: a.GetRound(), Epoch: a.GetEpoch(),
		Requested: requested.GetDesired(), RequestedBy: requested.GetBy(), RequestedAt: orNull(requested.GetAt()),
		RequestedReason: requested.GetReason(), Observed: observed.GetState(), ObservedAt: orNull(observed.GetAt()),
		Outcome: orNull(a.GetOutcome()), FailureClass: orNull(a.GetFailureClass()), SideEffect: a.GetSideEffect(),
		Uncertain: a.GetUncertain(), NextStep: a.GetNextStep(), Runner: a.GetRunner(), RunnerName: a.GetRunnerName(),
		Pool: a.GetPool(), Started: orNull(a.GetStarted()), Concluded: orNull(a.GetConcluded()),
		Until: orNull(a.GetUntil()), AbandonBy: orNull(a.GetAbandonBy()), Message: a.GetMessage(),
		Refused: a.GetRefused(), Conflicts: a.GetConflicts(),
		Log: logJSON{Sealed: log.GetSealed(), Bytes: log.GetBytes(), Lines: log.GetLines(),
			Truncated: log.GetTruncated(), Gaps: log.GetGaps(), Removed: log.GetRemoved()},
		Steps: []stepJSON{},
	}
	for _, step := range a.GetSteps() {
		out.Steps = append(out.Steps, stepJSON{Number: step.GetIndex() + 1, Name: step.GetName(),
			Outcome: orNull(step.GetOutcome()), Conclusion: orNull(step.GetConclusion()), ExitCode: step.GetExitCode(),
			Started: orNull(step.GetStarted()), Finished: orNull(step.GetFinished()), Message: step.GetMessage()})
	}
	return out
}
