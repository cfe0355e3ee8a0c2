package web

import (
	"net/http"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow"
)

// workflowsView is what can be started by hand at a ref of a repository.
type workflowsView struct {
	ID, Name, Href string
	Ref, Commit    string
	Rows           []workflowView
}

type workflowView struct {
	Path, Name, Events, Problem string
	Withdrawn                   string // that it is disabled or restored; "" when it counts as it is written
	Actions                     []action
	Form                        bool // it can be asked for
	Key                         string
	Inputs                      []inputView
}

type inputView struct {
	ID, Name, Says, Type, Value string
	Required, Checked           bool
	Options                     []string
}

// inputPrefix is before the names of a workflow's inputs in a form.
const inputPrefix = "input."

func (p *Pages) showWorkflows(w http.ResponseWriter, r *http.Request) { p.showWorkflowsWith(w, r, nil) }

// showWorkflowsWith is the page with a refusal on it; nil is none.
func (p *Pages) showWorkflowsWith(w http.ResponseWriter, r *http.Request, refused *problem) {
	of, ref := r.PathValue("repository"), r.FormValue("ref")
	if of == "" {
		of = r.PostFormValue("repository")
	}
	known, err := p.cfg.Repositories.GetRepository(r.Context(), &fairleadv1.GetRepositoryRequest{Repository: of})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	repository := presentable(known).GetRepository()
	answer, err := p.cfg.Repositories.ListWorkflows(r.Context(),
		&fairleadv1.ListWorkflowsRequest{Repository: of, Ref: ref})
	if err != nil {
		missing := p.explain(r.Context(), err)
		if missing.Code != string(domain.CodeCommitNotFound) {
			p.showProblem(w, r, missing)
			return
		}
		// The ref is what is wrong, and this page is where another one is given.
		refused, answer = &missing, &fairleadv1.ListWorkflowsResponse{Ref: ref}
	}
	answer = presentable(answer)
	v := workflowsView{ID: repository.GetRepository(), Name: repository.GetName(),
		Href: "/repositories/" + repository.GetRepository(), Ref: answer.GetRef(), Commit: shortCommit(answer.GetCommit())}
	for _, one := range answer.GetWorkflows() {
		v.Rows = append(v.Rows, workflowViewOf(one, r, p.cfg.NewKey))
		last := &v.Rows[len(v.Rows)-1]
		last.Actions = withdrawActions(v.Href+"/withdrawals", one, p.cfg.NewKey)
	}
	status := http.StatusOK
	pg := page{Title: "Start a run of " + repository.GetName(), Section: "repositories",
		Source: "internal/web/page_workflows.templ"}
	if refused != nil {
		status = refused.Status
	}
	p.render(w, r, status, workflowsPage(p.frame(r.Context(), pg), v, refused))
}

// workflowViewOf keeps what a form that was refused had in it.
func workflowViewOf(one *fairleadv1.Workflow, r *http.Request, key func() string) workflowView {
	v := workflowView{Path: one.GetPath(), Name: one.GetName(), Events: strings.Join(one.GetEvents(), ", "),
		Problem: one.GetProblem(), Withdrawn: withdrawnText(one.GetWithdrawal())}
	for _, event := range one.GetEvents() {
		v.Form = v.Form || event == workflow.EventDispatch
	}
	w := one.GetWithdrawal()
	if v.Form = v.Form && (w == nil || w.GetCommit() != ""); !v.Form {
		return v
	}
	v.Key = key()
	again := r.Method == http.MethodPost && r.PostFormValue("workflow") == one.GetPath()
	for _, in := range one.GetInputs() {
		i := inputView{ID: one.GetPath() + "/" + in.GetName(), Name: inputPrefix + in.GetName(), Says: in.GetDescription(),
			Type: in.GetType(), Value: in.GetDefault(), Required: in.GetRequired(), Options: in.GetOptions()}
		if again {
			i.Value = lastValue(r.PostForm[i.Name])
		}
		i.Says = orElse(i.Says, in.GetName())
		i.Checked = i.Value == "true"
		v.Inputs = append(v.Inputs, i)
	}
	return v
}

// withdrawnText says that a workflow does not count as it is written.
func withdrawnText(w *fairleadv1.Withdrawal) string {
	if w == nil {
		return ""
	}
	is := "Disabled"
	if w.GetCommit() != "" {
		is = "Restored to its text at " + shortCommit(w.GetCommit())
	}
	return is + " by " + w.GetBy() + " at " + w.GetAt() + ": " + w.GetReason()
}

// withdrawActions are what can be done about a workflow as a whole.
func withdrawActions(path string, one *fairleadv1.Workflow, key func() string) []action {
	fields := func(action string, more ...field) []field {
		return append([]field{{Name: "workflow", Value: one.GetPath()}, {Name: "action", Value: action}}, append(more,
			field{Name: "reason", Label: "Reason"})...)
	}
	var out []action
	w := one.GetWithdrawal()
	if w != nil {
		out = append(out, action{Path: path, Key: key(), Open: "Enable", Button: "Enable the workflow",
			Says:   "From then on it starts as its commits have it. What did not start meanwhile is not started.",
			Fields: fields("enable")})
	}
	if w == nil || w.GetCommit() != "" {
		out = append(out, action{Path: path, Key: key(), Open: "Disable", Button: "Disable the workflow", Danger: true,
			Says: "Pushes, schedules and people start no run of it until it is enabled again, on any branch. Runs that " +
				"there are go on, and what they already did outside is not undone by this.",
			Fields: fields("disable")})
	}
	return append(out, action{Path: path, Key: key(), Open: "Restore", Button: "Restore an earlier text", Danger: true,
		Says: "Whatever commit starts it, its text is the one of the commit given here, until it is enabled again. Runs " +
			"that there are go on with the plan that they have.",
		Fields: fields("restore", field{Name: "commit", Label: "Commit, branch or tag that has the good text"})})
}

func (p *Pages) withdraw(w http.ResponseWriter, r *http.Request) {
	if !p.readForm(w, r) {
		return
	}
	request := &fairleadv1.WithdrawRequest{Repository: r.PathValue("repository"), Workflow: r.PostFormValue("workflow"),
		Action: r.PostFormValue("action"), Commit: r.PostFormValue("commit"), Reason: r.PostFormValue("reason")}
	_, err := p.cfg.Repositories.Withdraw(p.cfg.WithKey(r.Context(), r.PostFormValue("key"), request), request)
	if err != nil {
		refused := p.explain(r.Context(), err)
		if refused.Status >= 500 {
			p.showProblem(w, r, refused)
			return
		}
		p.showWorkflowsWith(w, r, &refused)
		return
	}
	http.Redirect(w, r, "/repositories/"+request.GetRepository()+"/workflows", http.StatusSeeOther)
}

func (p *Pages) createRun(w http.ResponseWriter, r *http.Request) {
	if !p.readForm(w, r) {
		return
	}
	request := &fairleadv1.CreateRunRequest{Repository: r.PostFormValue("repository"), Ref: r.PostFormValue("ref"),
		Workflow: r.PostFormValue("workflow"), Event: workflow.EventDispatch, Inputs: make(map[string]string)}
	for name, values := range r.PostForm {
		if name, ok := strings.CutPrefix(name, inputPrefix); ok {
			if last := lastValue(values); last != "" {
				request.Inputs[name] = last
			}
		}
	}
	answer, err := p.cfg.Runs.CreateRun(p.cfg.WithKey(r.Context(), r.PostFormValue("key"), request), request)
	if err != nil {
		refused := p.explain(r.Context(), err)
		if refused.Status >= 500 {
			p.showProblem(w, r, refused)
			return
		}
		p.showWorkflowsWith(w, r, &refused)
		return
	}
	http.Redirect(w, r, "/runs/"+answer.GetRun().GetRun(), http.StatusSeeOther)
}

// lastValue is what a field of a form says. A box that is not ticked sends nothing, so a hidden
// "false" is before each.
func lastValue(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
