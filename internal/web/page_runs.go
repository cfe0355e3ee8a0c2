package web

import (
	"net/http"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// runsView is the list of runs.
type runsView struct {
	Filter  filter
	Quick   []quickFilter
	Rows    []runRow
	Count   string
	Newer   string // address of the first page, when this is a later one
	Older   string // address of the next page
	Unknown string // what the filter did not understand
}

type quickFilter struct {
	Word, Href string
	Current    bool
}

// runRow is one run in the list.
type runRow struct {
	Href       string
	Status     status
	Title      string
	Workflow   string
	Number     string
	Repository string
	Branch     string
	BranchHref string
	Commit     string
	Cause      string // "push by ana"
	Round      int32
	Created    moment
	Took       stretch
}

func (p *Pages) showRuns(w http.ResponseWriter, r *http.Request) {
	f := parseFilter(r.FormValue("q"))
	request := f.request
	request.Limit, request.Before = runsPerPage, r.FormValue("before")
	answer, err := p.cfg.Runs.ListRuns(r.Context(), request)
	if err != nil {
		p.showError(w, r, err)
		return
	}
	view := runsViewOf(presentable(answer), f, request.GetBefore(), p.cfg.Now())
	frame := p.frame(r.Context(), page{Title: "Runs", Section: "runs",
		Source: "internal/web/page_runs.templ", Poll: request.GetBefore() == ""})
	p.render(w, r, http.StatusOK, runsPage(frame, view))
}

// runsViewOf is the list page as a function of the API's answer and the time.
func runsViewOf(answer *fairleadv1.ListRunsResponse, f filter, before string, now time.Time) runsView {
	v := runsView{Filter: f, Unknown: strings.Join(f.Unknown, " ")}
	for _, quick := range []struct{ word, text string }{
		{"All", ""}, {"Running", "state:running"}, {"Needs a person", "state:attention"},
		{"Failed", "outcome:failure"}, {"Succeeded", "outcome:success"},
	} {
		v.Quick = append(v.Quick, quickFilter{quick.word, parseFilter(quick.text).address(""), f.Text == quick.text})
	}
	for _, s := range answer.GetRuns() {
		v.Rows = append(v.Rows, runRowOf(s, f, now))
	}
	v.Count = plural(len(v.Rows), "run", "runs")
	if answer.GetNext() != "" {
		v.Older = f.address(answer.GetNext())
		v.Count += ", older ones follow"
	}
	if before != "" {
		v.Newer = f.address("")
		v.Count = "older: " + v.Count
	}
	return v
}

func runRowOf(s *fairleadv1.RunSummary, f filter, now time.Time) runRow {
	branch := refName(s.GetRef())
	row := runRow{
		Href: "/runs/" + s.GetRun(), Status: statusOfSummary(s), Title: titleOf(s),
		Workflow: orElse(s.GetWorkflowName(), s.GetWorkflow()), Number: "#" + count(int64(s.GetNumber())),
		Repository: s.GetRepositoryName(), Branch: branch, Commit: shortCommit(s.GetCommit()),
		Cause: causeOf(s), Round: s.GetRound(), Created: momentOf(s.GetCreated(), now),
	}
	if name, ok := strings.CutPrefix(s.GetRef(), "refs/heads/"); ok && !strings.ContainsAny(name, " \t") {
		row.BranchHref = f.with("branch", name).address("")
	}
	if s.GetConcluded() != "" {
		row.Took = stretchOf(s.GetCreated(), s.GetConcluded(), now)
	} else {
		row.Took = stretchOf(s.GetCreated(), "", now)
	}
	return row
}

// titleOf is what people call the run: the commit's first line, else its workflow.
func titleOf(s *fairleadv1.RunSummary) string {
	return orElse(strings.TrimSpace(s.GetTitle()), orElse(s.GetWorkflowName(), s.GetWorkflow()))
}

// causeOf says what asked for the run, and who.
func causeOf(s *fairleadv1.RunSummary) string {
	event := map[string]string{"push": "push", "workflow_dispatch": "manual"}[s.GetEvent()]
	event = orElse(event, s.GetEvent())
	if s.GetActor() == "" {
		return event
	}
	return event + " by " + s.GetActor()
}

// refName is the part of a ref that people say.
func refName(ref string) string {
	for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
		if name, ok := strings.CutPrefix(ref, prefix); ok {
			return name
		}
	}
	return orElse(ref, "working tree")
}

func shortCommit(commit string) string {
	if len(commit) > 8 {
		return commit[:8]
	}
	return commit
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// cut shortens a name for a heading at a rune, with a mark; the full one is beside it.
func cut(text string) string {
	n := 0
	for at := range text {
		if n++; n > nameRunesMax {
			return text[:at] + "…"
		}
	}
	return text
}
