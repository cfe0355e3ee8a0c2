package web

import (
	"fmt"
	"net/http"
	"strings"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
)

// replayView is what came out when a run was decided again.
type replayView struct {
	Run, Href       string
	Status          status
	Sentence, Use   string
	Evaluators      string
	Plan, Now       string
	Findings        []findingView
	More, Decisions string
}

type findingView struct{ Title, Where, Recorded, Now string }

// diffView is in what a run differs from another one.
type diffView struct {
	Run, Href, Other, OtherHref string
	Before, After               string
	Asked, Same                 bool
	Parts                       []diffPart
	Lines                       []diffLine
	Notes                       []string
}

type diffPart struct {
	Name string
	Rows []*fairleadv1.Difference
}

type diffLine struct{ Before, After, Mark, Text, Class string }

func (p *Pages) showReplay(w http.ResponseWriter, r *http.Request) {
	answer, err := p.cfg.Runs.ReplayRun(r.Context(), &fairleadv1.ReplayRunRequest{Run: r.PathValue("run")})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	v := replayViewOf(presentable(answer))
	p.render(w, r, http.StatusOK, replayPage(p.frame(r.Context(), page{Title: "Replay: " + v.Status.Word, Section: "runs",
		Source: "internal/web/page_review.templ"}), v))
}

func replayViewOf(a *fairleadv1.ReplayRunResponse) replayView {
	v := replayView{Run: a.GetRun(), Href: "/runs/" + a.GetRun(), Status: statusOfReplay(a.GetAnswer()),
		Sentence: a.GetSentence(), Use: a.GetUse(), Plan: a.GetPlanDigest(), Now: a.GetReplayedDigest(),
		Decisions: plural(int(a.GetDecisions()), "decision", "decisions")}
	v.Evaluators = fmt.Sprintf("made with evaluator %d, examined with evaluator %d", a.GetEvaluator(),
		a.GetServerEvaluator())
	for _, f := range a.GetFindings() {
		v.Findings = append(v.Findings, findingView{
			Title:    f.GetWhat() + " of " + orElse(f.GetJob(), "the run") + ": " + f.GetAnswer(),
			Where:    fmt.Sprintf("%s, version %d, round %d", f.GetEvent(), f.GetVersion(), f.GetRound()),
			Recorded: f.GetRecorded(), Now: f.GetNow()})
	}
	if n := a.GetMore(); n > 0 {
		v.More = plural(int(n), "further one is", "further ones are") + " not listed"
	}
	return v
}

// statusOfReplay gives an answer the look of the status that it is most like.
func statusOfReplay(answer string) status {
	look := statusOf(map[string]string{"verified": "success", "differs": "failure"}[answer])
	if answer != "verified" && answer != "differs" {
		look = statusOf("uncertain")
	}
	look.Word = answer
	return look
}

func (p *Pages) showDiff(w http.ResponseWriter, r *http.Request) {
	run, other := r.PathValue("run"), strings.TrimSpace(r.FormValue("other"))
	if _, id, ok := strings.Cut(other, "/runs/"); ok { // the address of its page
		other, _, _ = strings.Cut(id, "/")
	}
	v := diffView{Run: run, Href: "/runs/" + run, Other: other}
	var refused *problem
	if other != "" {
		answer, err := p.cfg.Runs.DiffRuns(r.Context(), &fairleadv1.DiffRunsRequest{Run: run, Other: other})
		if err != nil {
			no := p.explain(r.Context(), err)
			refused = &no
		} else {
			v = diffViewOf(presentable(answer))
		}
	}
	status := http.StatusOK
	if refused != nil {
		status = refused.Status
	}
	p.render(w, r, status, diffPage(p.frame(r.Context(), page{Title: "Compare runs", Section: "runs",
		Source: "internal/web/page_review.templ"}), v, refused))
}

func diffViewOf(a *fairleadv1.DiffRunsResponse) diffView {
	of := func(s *fairleadv1.RunSummary) string {
		return s.GetWorkflow() + " #" + count(int64(s.GetNumber())) + " at " + shortCommit(s.GetCommit())
	}
	v := diffView{Run: a.GetRun().GetRun(), Href: "/runs/" + a.GetRun().GetRun(), Other: a.GetOther().GetRun(),
		OtherHref: "/runs/" + a.GetOther().GetRun(), Before: of(a.GetRun()), After: of(a.GetOther()), Asked: true,
		Same: a.GetSame(), Notes: a.GetNotes()}
	for _, d := range a.GetDifferences() {
		if n := len(v.Parts); n == 0 || v.Parts[n-1].Name != d.GetPart() {
			v.Parts = append(v.Parts, diffPart{Name: d.GetPart()})
		}
		last := &v.Parts[len(v.Parts)-1]
		last.Rows = append(last.Rows, d)
	}
	for _, l := range a.GetLines() {
		line := diffLine{Text: l.GetText(), Class: "line-" + l.GetKind(),
			Mark: map[string]string{"added": "+", "removed": "-", "cut": "…"}[l.GetKind()]}
		if l.GetBefore() > 0 {
			line.Before = fmt.Sprint(l.GetBefore())
		}
		if l.GetAfter() > 0 {
			line.After = fmt.Sprint(l.GetAfter())
		}
		v.Lines = append(v.Lines, line)
	}
	return v
}
