package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// repositoryView is one repository in the list.
type repositoryView struct {
	Name, ID, Source string
	Branch, RunsHref string
	Poll             string
	Registered       moment
}

func (p *Pages) showRepositories(w http.ResponseWriter, r *http.Request) {
	answer, err := p.cfg.Repositories.ListRepositories(r.Context(), &fairleadv1.ListRepositoriesRequest{})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	var rows []repositoryView
	for _, repository := range presentable(answer).GetRepositories() {
		rows = append(rows, repositoryViewOf(repository, p.cfg.Now()))
	}
	pg := page{Title: "Repositories", Section: "repositories", Source: "internal/web/page_repositories.templ"}
	p.render(w, r, http.StatusOK, repositoriesPage(p.frame(r.Context(), pg), rows))
}

// scheduleView is one schedule of a repository.
type scheduleView struct {
	Cron, Zone, Workflow string
	Next                 moment
	Last, LastHref, Why  string // what came of the occurrence before
}

func (p *Pages) showRepository(w http.ResponseWriter, r *http.Request) {
	answer, err := p.cfg.Repositories.GetRepository(r.Context(),
		&fairleadv1.GetRepositoryRequest{Repository: r.PathValue("repository")})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	repository := presentable(answer).GetRepository()
	var schedules []scheduleView
	for _, one := range repository.GetSchedules() {
		schedules = append(schedules, scheduleViewOf(one, p.cfg.Now()))
	}
	pg := page{Title: repository.GetName(), Section: "repositories", Source: "internal/web/page_repository.templ"}
	p.render(w, r, http.StatusOK,
		repositoryPage(p.frame(r.Context(), pg), repositoryViewOf(repository, p.cfg.Now()), schedules))
}

func scheduleViewOf(one *fairleadv1.Schedule, now time.Time) scheduleView {
	v := scheduleView{Cron: one.GetCron(), Zone: orElse(one.GetTimezone(), "UTC"), Workflow: one.GetWorkflow(),
		Next: momentOf(one.GetNextAt(), now), Last: "not yet"}
	last := one.GetLast()
	if last == nil {
		return v
	}
	v.Last = strings.Replace(last.GetOccurrence(), "T", " ", 1) + " " + last.GetOutcome()
	if last.GetRun() != "" {
		v.LastHref = "/runs/" + last.GetRun()
	}
	v.Why = last.GetMessage()
	if n := int(last.GetMissed()); n > 0 {
		v.Why = strings.TrimSpace(fmt.Sprintf("%s %s before it passed over: nobody looked when they were due.", v.Why,
			plural(n, "occurrence was", "occurrences were")))
	}
	return v
}

func repositoryViewOf(repository *fairleadv1.Repository, now time.Time) repositoryView {
	v := repositoryView{Name: repository.GetName(), ID: repository.GetRepository(),
		Source: orElse(repository.GetUrl(), "pushed by clients"), Branch: repository.GetDefaultBranch(),
		Poll: "on push", Registered: momentOf(repository.GetRegistered(), now),
		RunsHref: filter{}.with("repo", repository.GetName()).address("")}
	if repository.GetPoll() {
		v.Poll = "branches are polled"
	}
	if strings.ContainsAny(v.Name, " \t") { // the filter splits at spaces; an id has none
		v.RunsHref = filter{}.with("repo", repository.GetRepository()).address("")
	}
	return v
}
