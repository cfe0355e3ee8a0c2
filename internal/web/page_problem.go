package web

import (
	"net/http"
	"strconv"
)

// showError shows a refusal or a fault as a page.
func (p *Pages) showError(w http.ResponseWriter, r *http.Request, err error) {
	p.showProblem(w, r, p.explain(r.Context(), err))
}

func (p *Pages) showProblem(w http.ResponseWriter, r *http.Request, what problem) {
	what.Request = orElse(what.Request, p.cfg.RequestID(r.Context()))
	if r.Method == http.MethodPost && what.Status >= http.StatusInternalServerError &&
		what.Status != http.StatusInsufficientStorage {
		what.Message += " What you asked for may have been done, or not: look before you ask again."
	}
	pg := page{Title: problemTitle(what), Source: "internal/web/page_problem.templ"}
	p.render(w, r, what.Status, problemPage(p.frame(r.Context(), pg), what))
}

// Error shows a refusal or a fault of the transport in front of the pages in the same
// look: a status, a code of the vocabulary, and one sentence for a person.
func (p *Pages) Error(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	p.showProblem(w, r, problem{Status: status, Code: code, Message: message})
}

func problemTitle(what problem) string {
	switch {
	case what.Status == http.StatusNotFound:
		return "Not found"
	case what.Status == http.StatusForbidden || what.Status == http.StatusUnauthorized:
		return "Not allowed"
	case what.Status == http.StatusServiceUnavailable:
		return "Not available right now"
	case what.Status >= 500:
		return "Something went wrong"
	}
	return "That was refused"
}

func statusText(status int) string {
	return strconv.Itoa(status) + " " + http.StatusText(status)
}
