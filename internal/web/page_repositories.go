package web

import (
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
