package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// runView is everything the page of a run shows.
type runView struct {
	Head        runHead
	Reason      string
	Facts       facts
	Actions     []action
	Attention   []attentionView
	Diagnostics []string
	Components  []componentView
	Rounds      []roundView
	Waterfall   waterfallView
	Graph       graphView
	Jobs        []jobView
	Quiet       []jobView // jobs of a large run that need no look
	Timeline    timelineView
}

// componentView is what the run uses from elsewhere, and what that was resolved to.
type componentView struct{ Reference, Means string }

func componentsOf(run *fairleadv1.Run) (out []componentView) {
	for _, c := range run.GetComponents() {
		means := "is " + c.GetDigest()
		if c.GetDigest() == "" {
			means = "of the run's own commit"
		}
		out = append(out, componentView{c.GetReference(), means})
	}
	return out
}

// runHead is what identifies a run.
type runHead struct {
	Run          string
	Href         string
	Title        string
	Status       status
	Workflow     string
	WorkflowHref string
	Number       string
	Repository   string
	RepoHref     string
	Branch       string
	Commit       string
	CommitFull   string
	Cause        string
	Created      moment
	Took         stretch
	Tier, Class  string
	Plan         string
}

// facts are the three things that are never one field.
type facts struct{ Requested, Observed, Committed fact }

// fact is one of them: a word, when it became true, and what else is known.
type fact struct {
	Word string
	At   moment
	By   string
	Note string
	Tone string
}

type roundView struct {
	Number  int32
	Status  status
	Mode    string
	By      string
	Opened  moment
	Took    stretch
	Current bool
}

// attentionView is something that waits for a person.
type attentionView struct {
	Title    string
	Sentence string
	Href     string
	Settle   *settleView
}

type jobView struct {
	ID, Key, Name, Anchor, Href string
	Status                      status
	Reason, EndsBy, Story       string
	Needs, RunsOn               string
	Effectful, Open             bool
	Took                        stretch
	Attempts                    []attemptView
	Retry                       *action
	Leg                         bool
	Legs                        []legView
	Outputs                     []outputView
}

type attemptView struct {
	ID, Anchor, Href string
	Number, Round    int32
	Epoch            uint64
	Status           status
	Facts            facts
	Runner           string
	Took             stretch
	Uncertain        bool
	NextStep         string
	Abandon          moment
	Refused          string
	Conflicts        string
	Message          string
	LogSize          string
	Old              bool
	Settle           *settleView
}

type timelineView struct {
	Recent, Earlier []sentenceView
}

type sentenceView struct {
	At       moment
	Offset   string // since the run was asked for
	Text     string
	Kind     string
	Event    string
	Anchor   string // "" when an earlier sentence of the same event has it
	Version  uint64
	Job      string
	JobHref  string
	ShownFor string
}

func (p *Pages) showRun(w http.ResponseWriter, r *http.Request) {
	p.showRunWith(w, r, r.PathValue("run"), nil)
}

// showRunWith shows the run, and above it the refusal of an action when there was one.
func (p *Pages) showRunWith(w http.ResponseWriter, r *http.Request, run string, refused *problem) {
	answer, err := p.cfg.Runs.GetRun(r.Context(), &fairleadv1.GetRunRequest{Run: run, Timeline: true})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	view := runViewOf(presentable(answer.GetRun()), p.cfg.Now(), p.cfg.NewKey)
	pg := page{Title: view.Head.Status.Word + ": " + cut(view.Head.Title), Section: "runs",
		Source: "internal/web/page_run.templ", Icon: view.Head.Status.Tone,
		Live: liveAddress(answer.GetRun()), notice: refused}
	status := http.StatusOK
	if refused != nil {
		status = refused.Status
	}
	p.render(w, r, status, runPage(p.frame(r.Context(), pg), view))
}

// liveAddress is where a page hears that the run changed; a concluded run is at rest.
func liveAddress(run *fairleadv1.Run) string {
	if run.GetOutcome() != "" {
		return ""
	}
	return "/api/v1/runs/" + run.GetRun() + "/events"
}

// runViewOf is the page of a run as a function of the API's message and the time. key
// makes the idempotency key of each form.
func runViewOf(run *fairleadv1.Run, now time.Time, key func() string) runView {
	v := runView{
		Head: runHeadOf(run, now), Reason: run.GetReason(), Facts: runFacts(run, now),
		Actions: runActions(run, key), Diagnostics: run.GetDiagnostics(),
		Waterfall: waterfallOf(run, now), Graph: graphOf(run), Components: componentsOf(run),
		Timeline: timelineOf(run, now),
	}
	for _, round := range run.GetRounds() {
		v.Rounds = append(v.Rounds, roundView{
			Number: round.GetNumber(), Status: statusOf(orElse(round.GetOutcome(), "running")),
			Mode: roundMode(round.GetMode()), By: round.GetBy(), Opened: momentOf(round.GetOpened(), now),
			Took:    stretchOf(round.GetOpened(), round.GetConcluded(), now),
			Current: int(round.GetNumber()) == len(run.GetRounds()),
		})
	}
	for _, job := range grouped(run.GetJobs()) {
		view := jobViewOf(run, job, now, key)
		if len(run.GetJobs()) >= quietJobsFrom && !view.Open {
			v.Quiet = append(v.Quiet, view)
		} else {
			v.Jobs = append(v.Jobs, view)
		}
		v.Attention = append(v.Attention, attentionOf(view)...)
	}
	return v
}

func roundMode(mode string) string {
	switch mode {
	case "all":
		return "every job again"
	case "failed":
		return "failed jobs again"
	case "jobs":
		return "chosen jobs again"
	}
	return "first"
}

func runHeadOf(run *fairleadv1.Run, now time.Time) runHead {
	s := run.GetSummary()
	h := runHead{
		Run: run.GetRun(), Href: "/runs/" + run.GetRun(), Title: titleOf(s), Status: statusOfRun(run),
		Workflow: orElse(s.GetWorkflowName(), s.GetWorkflow()), Number: "#" + count(int64(s.GetNumber())),
		WorkflowHref: filter{}.with("workflow", s.GetWorkflow()).address(""),
		Repository:   s.GetRepositoryName(), RepoHref: filter{}.with("repo", s.GetRepositoryName()).address(""),
		Branch: refName(s.GetRef()), Commit: shortCommit(s.GetCommit()), CommitFull: s.GetCommit(),
		Cause: causeOf(s), Created: momentOf(s.GetCreated(), now), Tier: run.GetTier(), Class: run.GetClass(),
		Plan: run.GetPlanDigest(), Took: stretchOf(s.GetCreated(), s.GetConcluded(), now),
	}
	if rounds := run.GetRounds(); len(rounds) > 1 { // the time between rounds is nobody's work
		last := rounds[len(rounds)-1]
		h.Took = stretchOf(last.GetOpened(), last.GetConcluded(), now)
	}
	return h
}

// runFacts tells the run's three facts. What is observed of a run is what its attempts
// were last seen doing.
func runFacts(run *fairleadv1.Run, now time.Time) facts {
	s := run.GetSummary()
	f := facts{
		Requested: fact{Word: orElse(run.GetDesired(), "run"), By: s.GetActor(), At: momentOf(s.GetCreated(), now)},
		Committed: fact{Word: "nothing yet", Note: "the run has no outcome"},
	}
	if run.GetDesired() == string(domain.DesiredCancel) {
		f.Requested = cancelRequest(run, now, f.Requested)
	}
	if run.GetOutcome() != "" {
		f.Committed = fact{Word: statusOf(run.GetOutcome()).Word, Tone: statusOf(run.GetOutcome()).Tone,
			At: momentOf(s.GetConcluded(), now), Note: "final; a rerun opens a new round"}
	}
	counts := map[string]int{}
	var seen string // the latest observation of all
	for _, job := range run.GetJobs() {
		last := latest(job)
		if job.GetState() != "active" || last == nil {
			counts[orElse(job.GetState(), "waiting")]++
			continue
		}
		counts[orElse(last.GetObserved().GetState(), "leased")]++
		seen = max(seen, last.GetObserved().GetAt())
	}
	f.Observed = fact{Word: observedWords(counts, len(run.GetJobs())), At: momentOf(seen, now)}
	return f
}

// cancelRequest finds who asked for the cancellation, and when.
func cancelRequest(run *fairleadv1.Run, now time.Time, otherwise fact) fact {
	for _, s := range slices.Backward(run.GetTimeline()) {
		if s.GetKind() == "request" && strings.Contains(strings.ToLower(s.GetEvent()), "cancel") {
			return fact{Word: "cancel", By: s.GetActor(), At: momentOf(s.GetAt(), now), Tone: "doubt"}
		}
	}
	return fact{Word: "cancel", By: "", Note: otherwise.Note, Tone: "doubt"}
}

func observedWords(counts map[string]int, jobs int) string {
	if jobs == 0 {
		return "no jobs"
	}
	var parts []string
	for _, key := range []string{"unreachable", "running", "preparing", "finishing", "exited", "leased",
		"expanded", "ready", "held", "waiting", "concluded"} {
		if n := counts[key]; n > 0 {
			word := map[string]string{"ready": "waiting for a runner", "leased": "starting",
				"expanded": "with parts that run"}[key]
			parts = append(parts, fmt.Sprintf("%d %s", n, orElse(word, key)))
			delete(counts, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return plural(jobs, "job", "jobs") + ": " + strings.Join(parts, ", ")
}

func jobViewOf(run *fairleadv1.Run, job *fairleadv1.Job, now time.Time, key func() string) jobView {
	v := jobView{
		ID: job.GetId(), Key: job.GetKey(), Name: orElse(job.GetName(), job.GetKey()),
		Anchor: "job-" + fmt.Sprint(job.GetIndex()), Href: "/runs/" + run.GetRun() + "/jobs/" + job.GetId(),
		Status: statusOfJob(job), Reason: job.GetReason(), EndsBy: job.GetEndsBy(), Story: job.GetStory(),
		Needs: strings.Join(job.GetNeeds(), ", "), RunsOn: strings.Join(job.GetRunsOn(), ", "),
		Effectful: job.GetEffectful(), Leg: job.GetLegOf() != "" || job.GetIn() != "", Legs: legsOf(run, job),
		Outputs: outputsOf(job),
	}
	last := latest(job)
	for _, attempt := range slices.Backward(job.GetAttempts()) { // the newest first: it is what is true now
		v.Attempts = append(v.Attempts, attemptViewOf(job, attempt, attempt == last, now, key))
	}
	if last != nil {
		v.Took = stretchOf(last.GetStarted(), last.GetConcluded(), now)
		if last.GetConcluded() == "" && last.GetOutcome() != "" {
			v.Took = stretch{}
		}
	}
	v.Open = v.Status.Tone == "bad" || v.Status.Tone == "doubt" || v.Status.Tone == "soft" ||
		(v.Status.Tone == "live" && len(run.GetJobs()) <= 12) || len(job.GetAttempts()) > 1
	if run.GetOutcome() != "" && job.GetState() == "concluded" &&
		(len(job.GetAttempts()) > 0 || len(job.GetLegs()) > 0) {
		v.Retry = retryAction(job, key)
	}
	return v
}

func attemptViewOf(job *fairleadv1.Job, a *fairleadv1.Attempt, newest bool, now time.Time,
	key func() string) attemptView {
	v := attemptView{
		ID: a.GetId(), Anchor: "attempt-" + fmt.Sprint(job.GetIndex()) + "-" + fmt.Sprint(a.GetNumber()),
		Href: "/attempts/" + a.GetId(), Number: a.GetNumber(), Round: a.GetRound(), Epoch: a.GetEpoch(),
		Status: statusOfAttempt(a), Facts: attemptFacts(a, now), Uncertain: a.GetUncertain(),
		Runner: orElse(a.GetRunnerName(), a.GetRunner()),
		Took:   stretchOf(a.GetStarted(), a.GetConcluded(), now), NextStep: a.GetNextStep(),
		Old: !newest, Abandon: momentOf(a.GetAbandonBy(), now),
	}
	if a.GetMessage() != job.GetReason() { // said once is enough
		v.Message = a.GetMessage()
	}
	if log := a.GetLog(); log.GetSealed() || log.GetLines() > 0 {
		v.LogSize = count(log.GetLines()) + " lines, " + bytesText(log.GetBytes())
		if log.GetRemoved() != "" {
			v.LogSize += ", removed"
		}
	}
	if n := a.GetRefused(); n > 0 {
		v.Refused = plural(int(n), "late report was", "late reports were") + " refused and kept as evidence"
	}
	if n := a.GetConflicts(); n > 0 {
		v.Conflicts = plural(int(n), "report contradicts", "reports contradict") + " what was committed"
	}
	if a.GetUncertain() && a.GetOutcome() == "" {
		v.Settle = settleViewOf(job, a, key)
	}
	return v
}

// attemptFacts keeps apart what was asked, what the runner last said and what is final.
func attemptFacts(a *fairleadv1.Attempt, now time.Time) facts {
	asked, seen := a.GetRequested(), a.GetObserved()
	f := facts{
		Requested: fact{Word: orElse(asked.GetDesired(), "run"), By: asked.GetBy(),
			At: momentOf(asked.GetAt(), now), Note: asked.GetReason()},
		Observed:  fact{Word: orElse(seen.GetState(), "nothing yet"), At: momentOf(seen.GetAt(), now)},
		Committed: fact{Word: "nothing yet"},
	}
	if asked.GetDesired() == string(domain.DesiredCancel) {
		f.Requested.Tone = "doubt"
	}
	if seen.GetState() == string(domain.ObservedUnreachable) {
		f.Observed.Tone = "doubt"
	}
	if a.GetOutcome() == "" {
		if a.GetUncertain() {
			f.Committed = fact{Word: "no result came", Note: effectWords[domain.SideEffect(a.GetSideEffect())],
				Tone: "doubt"}
		}
		return f
	}
	look := statusOf(a.GetOutcome())
	f.Committed = fact{Word: look.Word, Tone: look.Tone, At: momentOf(a.GetConcluded(), now)}
	var notes []string
	if class := a.GetFailureClass(); class != "" {
		notes = append(notes, orElse(failureWords[domain.FailureClass(class)], class))
	}
	if effect := a.GetSideEffect(); effect != "" && effect != string(domain.EffectNone) {
		notes = append(notes, orElse(effectWords[domain.SideEffect(effect)], effect))
	}
	f.Committed.Note = strings.Join(notes, ", ")
	return f
}

// attentionOf lists what of a job waits for a person or is in doubt.
func attentionOf(job jobView) []attentionView {
	var out []attentionView
	for _, a := range job.Attempts {
		if !a.Uncertain || a.Settle == nil {
			continue
		}
		out = append(out, attentionView{
			Title:    fmt.Sprintf("Attempt %d of %s is uncertain", a.Number, job.Name),
			Sentence: orElse(a.NextStep, "Its runner was lost before a result came."),
			Href:     a.Href, Settle: a.Settle,
		})
	}
	return out
}

func timelineOf(run *fairleadv1.Run, now time.Time) timelineView {
	start := parseMoment(run.GetSummary().GetCreated())
	names := map[string]string{}
	hrefs := map[string]string{}
	for _, job := range run.GetJobs() {
		names[job.GetId()] = orElse(job.GetName(), job.GetKey())
		hrefs[job.GetId()] = "#job-" + fmt.Sprint(job.GetIndex())
	}
	var all []sentenceView
	seen := map[uint64]bool{}
	for _, s := range run.GetTimeline() {
		view := sentenceView{At: momentOf(s.GetAt(), now), Text: s.GetText(), Kind: s.GetKind(),
			Event: s.GetEvent(), Version: s.GetVersion(), Job: names[s.GetJob()], JobHref: hrefs[s.GetJob()]}
		if at := parseMoment(s.GetAt()); !at.IsZero() && !start.IsZero() {
			view.Offset = "+" + span(at.Sub(start))
		}
		if !seen[s.GetVersion()] {
			seen[s.GetVersion()], view.Anchor = true, fmt.Sprintf("v%d", s.GetVersion())
		}
		all = append(all, view)
	}
	split := max(0, len(all)-timelineOpenMax)
	return timelineView{Earlier: all[:split], Recent: all[split:]}
}
