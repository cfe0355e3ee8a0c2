package web

import (
	"net/http"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// action is a form: one call of the API, with what it will do said before it is done.
type action struct {
	Path   string
	Key    string // idempotency key: a double click acts once
	Open   string // the word that opens the form
	Button string
	Says   string // what will happen, to side effects too
	Danger bool
	Fields []field
}

// field is a hidden value, or a line of text when it has a label.
type field struct{ Name, Value, Label string }

// settleView is the form by which a person settles an attempt without a result.
type settleView struct {
	Path, Key, ID string
	Effectful     bool
}

const effectfulWarning = "What it already did outside stays done, and is not undone by this."

// runActions are what can be done with a run now.
func runActions(run *fairleadv1.Run, key func() string) []action {
	path := "/runs/" + run.GetRun()
	if run.GetOutcome() == "" {
		if run.GetDesired() == string(domain.DesiredCancel) {
			return nil
		}
		return []action{{
			Path: path + "/cancellation", Key: key(), Open: "Cancel", Button: "Cancel the run", Danger: true,
			Says: "Running steps are asked to stop and are killed after their grace period; jobs that did not start " +
				"are skipped. " + sideEffects(run),
			Fields: []field{{Name: "reason", Label: "Reason (optional)"}},
		}}
	}
	if len(run.GetJobs()) == 0 {
		return nil
	}
	var out []action
	if failedJobs(run) {
		out = append(out, action{
			Path: path + "/rounds", Key: key(), Open: "Rerun failed", Button: "Rerun failed jobs",
			Says: "Opens a new round of this run on the same commit and plan, with the jobs that did not succeed and " +
				"what depends on them. This round keeps its outcome. " + repeats(run),
			Fields: []field{{Name: "mode", Value: "failed"}},
		})
	}
	return append(out, action{
		Path: path + "/rounds", Key: key(), Open: "Rerun all", Button: "Rerun all jobs",
		Says: "Opens a new round of this run on the same commit and plan, with every job. This round keeps its " +
			"outcome. " + repeats(run),
		Fields: []field{{Name: "mode", Value: "all"}},
	})
}

func failedJobs(run *fairleadv1.Run) bool {
	for _, job := range run.GetJobs() {
		switch domain.Outcome(job.GetOutcome()) {
		case domain.OutcomeFailure, domain.OutcomeTimedOut, domain.OutcomeCancelled:
			return true
		}
	}
	return false
}

// sideEffects says what cancelling leaves behind.
func sideEffects(run *fairleadv1.Run) string {
	var names []string
	for _, job := range run.GetJobs() {
		if job.GetEffectful() && job.GetState() == "active" {
			names = append(names, orElse(job.GetName(), job.GetKey()))
		}
	}
	if len(names) == 0 {
		return "No job that changes the outside is running."
	}
	return "Running now and able to change the outside: " + strings.Join(names, ", ") + ". " + effectfulWarning
}

// repeats warns when running again does something outside again.
func repeats(run *fairleadv1.Run) string {
	var names []string
	for _, job := range run.GetJobs() {
		if job.GetEffectful() && len(job.GetAttempts()) > 0 {
			names = append(names, orElse(job.GetName(), job.GetKey()))
		}
	}
	if len(names) == 0 {
		return "No job of it is declared to change the outside."
	}
	return "These change the outside and would do so again: " + strings.Join(names, ", ") + "."
}

func retryAction(job *fairleadv1.Job, key func() string) *action {
	says := "Opens a new round with this job and what depends on it, on the same commit and plan. " +
		"Earlier attempts stay as they are."
	if job.GetEffectful() {
		says += " It changes the outside and would do so again."
	}
	return &action{Path: "/jobs/" + job.GetId() + "/attempts", Key: key(), Open: "Retry", Button: "Retry the job",
		Says: says}
}

func settleViewOf(job *fairleadv1.Job, a *fairleadv1.Attempt, key func() string) *settleView {
	return &settleView{Path: "/attempts/" + a.GetId() + "/reconciliation", Key: key(), ID: a.GetId(),
		Effectful: job.GetEffectful()}
}

func (p *Pages) cancelRun(w http.ResponseWriter, r *http.Request) {
	run := r.PathValue("run")
	if !p.readForm(w, r) {
		return
	}
	request := &fairleadv1.CancelRunRequest{Run: run, Reason: r.PostFormValue("reason")}
	answer, err := p.cfg.Runs.CancelRun(p.cfg.WithKey(r.Context(), r.PostFormValue("key"), request), request)
	p.answer(w, r, run, answer.GetRun(), "", err)
}

func (p *Pages) rerunRun(w http.ResponseWriter, r *http.Request) {
	run := r.PathValue("run")
	if !p.readForm(w, r) {
		return
	}
	request := &fairleadv1.RerunRunRequest{Run: run, Mode: r.PostFormValue("mode")}
	answer, err := p.cfg.Runs.RerunRun(p.cfg.WithKey(r.Context(), r.PostFormValue("key"), request), request)
	p.answer(w, r, run, answer.GetRun(), "#waterfall", err)
}

func (p *Pages) retryJob(w http.ResponseWriter, r *http.Request) {
	job := domain.JobID(r.PathValue("job"))
	run, _, ok := job.Split()
	if !ok || !p.readForm(w, r) {
		p.refuseAddress(w, r, ok)
		return
	}
	request := &fairleadv1.RetryJobRequest{Job: string(job)}
	answer, err := p.cfg.Runs.RetryJob(p.cfg.WithKey(r.Context(), r.PostFormValue("key"), request), request)
	p.answer(w, r, string(run), answer.GetRun(), "#waterfall", err)
}

func (p *Pages) settleAttempt(w http.ResponseWriter, r *http.Request) {
	attempt := domain.AttemptID(r.PathValue("attempt"))
	run, _, _, ok := attempt.Split()
	if !ok || !p.readForm(w, r) {
		p.refuseAddress(w, r, ok)
		return
	}
	request := &fairleadv1.SettleAttemptRequest{Attempt: string(attempt), Effect: r.PostFormValue("effect"),
		Then: r.PostFormValue("then"), Note: r.PostFormValue("note")}
	answer, err := p.cfg.Runs.SettleAttempt(p.cfg.WithKey(r.Context(), r.PostFormValue("key"), request), request)
	p.answer(w, r, string(run), answer.GetRun(), "#jobs", err)
}

// refuseAddress answers an action on something that can't exist; readForm has answered
// for itself.
func (p *Pages) refuseAddress(w http.ResponseWriter, r *http.Request, addressed bool) {
	if !addressed {
		p.showError(w, r, domain.Reject(domain.CodeNotFound, "There is no such thing, or you may not see it."))
	}
}

// readForm reads the fields of an action within a bound, and refuses a form without its
// idempotency key: it was not made by a page of ours.
func (p *Pages) readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	if err := r.ParseForm(); err != nil {
		p.showProblem(w, r, problem{Status: http.StatusUnprocessableEntity, Code: string(domain.CodeInvalidArgument),
			Message: "The form can't be read: it is damaged or longer than this page ever sends."})
		return false
	}
	if key := r.PostForm["key"]; len(key) != 1 || key[0] == "" || len(key[0]) > 256 {
		p.showProblem(w, r, problem{Status: http.StatusUnprocessableEntity, Code: string(domain.CodeInvalidArgument),
			Field: "key", Message: "The form has no idempotency key. Open the page again and use its button."})
		return false
	}
	return true
}

// answer leads to the page that shows the effect, or shows the page with the refusal.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request, run string, changed *fairleadv1.Run, place string,
	err error) {
	if err != nil {
		refused := p.explain(r.Context(), err)
		if refused.Status == http.StatusNotFound || refused.Status >= 500 {
			p.showProblem(w, r, refused)
			return
		}
		p.showRunWith(w, r, run, &refused)
		return
	}
	if changed.GetRun() != "" {
		run = changed.GetRun()
	}
	http.Redirect(w, r, "/runs/"+run+place, http.StatusSeeOther)
}
