package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// logView is everything the page of a job shows for one of its attempts.
type logView struct {
	Head      runHead
	Job       jobView
	Shown     *attemptView // nil: the job has no attempt yet
	Tabs      []tabView
	Steps     []stepView
	Log       logWindow
	Attention []attentionView
}

type tabView struct {
	Href    string
	Word    string
	Status  status
	Current bool
}

type stepView struct {
	Index     int32
	Name      string
	Status    status
	Took      stretch
	Exit      string // "exit 2", only when it says something
	Message   string
	FirstLine int64 // from 1; 0 when it has none
	Lines     string
	Href      string
}

// logWindow is a part of a log.
type logWindow struct {
	Attempt    string
	Base       string // address of this attempt's page
	Raw        string // address of the raw bytes
	Lines      []lineView
	From       int64 // number of the first line shown, from 1
	Total      int64
	TotalText  string
	Bytes      int64
	BytesText  string
	Sealed     bool
	Truncated  bool
	Gaps       int32
	Anchor     int64 // the line to start at, from 1; 0: the end
	Problem    *problem
	Earlier    string
	Later      string
	First      string
	Last       string
	Query      string
	Matches    []matchView
	MatchCount string
	FirstError string
	Live       string

	steps []*fairleadv1.StepRange
}

type matchView struct {
	Line int64
	Href string
}

// logAsk is what the address of a log page asks for.
type logAsk struct {
	from  int64 // 1-based; 0: not given
	line  int64
	query string
}

func askOf(r *http.Request) logAsk {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(r.FormValue(name), 10, 64)
		if err != nil || n < 1 {
			return 0
		}
		return n
	}
	query := r.FormValue("q")
	if len(query) > filterBytesMax {
		query = strings.ToValidUTF8(query[:filterBytesMax], "")
	}
	return logAsk{from: number("from"), line: number("line"), query: query}
}

// showJob shows the newest attempt of a job, whichever that is when it is asked for.
func (p *Pages) showJob(w http.ResponseWriter, r *http.Request) {
	id := domain.JobID(r.PathValue("job"))
	if run, _, ok := id.Split(); !ok || string(run) != r.PathValue("run") {
		p.showError(w, r, domain.Reject(domain.CodeNotFound, "There is no such job, or you may not see it."))
		return
	}
	p.showLog(w, r, r.PathValue("run"), string(id), "")
}

// showAttempt shows one attempt. Attempts are never replaced, so this address, and one
// of a line in it, stays true.
func (p *Pages) showAttempt(w http.ResponseWriter, r *http.Request) {
	id := domain.AttemptID(r.PathValue("attempt"))
	run, _, _, ok := id.Split()
	if !ok {
		p.showError(w, r, domain.Reject(domain.CodeNotFound, "There is no such attempt, or you may not see it."))
		return
	}
	p.showLog(w, r, string(run), string(id.Job()), string(id))
}

func (p *Pages) showLog(w http.ResponseWriter, r *http.Request, run, job, attempt string) {
	answer, err := p.cfg.Runs.GetRun(r.Context(), &fairleadv1.GetRunRequest{Run: run})
	if err != nil {
		p.showError(w, r, err)
		return
	}
	at := slices.IndexFunc(answer.GetRun().GetJobs(), func(j *fairleadv1.Job) bool { return j.GetId() == job })
	if at < 0 {
		p.showError(w, r, domain.Reject(domain.CodeNotFound, "There is no such job, or you may not see it."))
		return
	}
	whole := presentable(answer.GetRun())
	message := whole.GetJobs()[at]
	shown := latest(message)
	if attempt != "" {
		shown = attemptOf(message, attempt)
		if shown == nil {
			p.showError(w, r, domain.Reject(domain.CodeNotFound, "There is no such attempt, or you may not see it."))
			return
		}
	}
	view := logViewOf(whole, message, shown, p.cfg.Now(), p.cfg.NewKey)
	pg := page{Section: "runs", Source: "internal/web/page_log.templ", Icon: view.Job.Status.Tone, Wide: true,
		Title: fmt.Sprintf("%s: %s, %s", view.Job.Status.Word, cut(view.Job.Name), cut(view.Head.Title)),
		Live:  liveAddress(answer.GetRun())}
	if shown != nil {
		view.Log = p.readWindow(r.Context(), shown, askOf(r))
		view.Steps = stepViewsOf(message, shown, view.Log, p.cfg.Now())
	}
	p.render(w, r, http.StatusOK, logPage(p.frame(r.Context(), pg), view))
}

func attemptOf(job *fairleadv1.Job, id string) *fairleadv1.Attempt {
	for _, attempt := range job.GetAttempts() {
		if attempt.GetId() == id {
			return attempt
		}
	}
	return nil
}

// logViewOf is the page of a job without its log: a function of the API's message and
// the time.
func logViewOf(run *fairleadv1.Run, job *fairleadv1.Job, shown *fairleadv1.Attempt, now time.Time,
	key func() string) logView {
	v := logView{Head: runHeadOf(run, now), Job: jobViewOf(run, job, now, key)}
	for i := range v.Job.Attempts {
		a := &v.Job.Attempts[i]
		if shown != nil && a.ID == shown.GetId() {
			v.Shown = a
		}
		word := fmt.Sprintf("Attempt %d", a.Number)
		if len(run.GetRounds()) > 1 {
			word += fmt.Sprintf(", round %d", a.Round)
		}
		v.Tabs = append(v.Tabs, tabView{Href: a.Href, Word: word, Status: a.Status,
			Current: shown != nil && a.ID == shown.GetId()})
	}
	if v.Shown != nil && v.Shown.Settle != nil {
		v.Attention = attentionOf(jobView{Name: v.Job.Name, Attempts: []attemptView{*v.Shown}})
	}
	return v
}

// stepViewsOf lists every step of the plan: those that an attempt reported as they went,
// and those it did not come to. What the runner itself printed stands first.
func stepViewsOf(job *fairleadv1.Job, a *fairleadv1.Attempt, log logWindow, now time.Time) []stepView {
	var out []stepView
	known := map[int32]bool{}
	for _, place := range log.steps {
		if place.GetStep() < 0 && place.GetLines() > 0 {
			out = append(out, stepView{Index: place.GetStep(), Name: "The runner itself",
				Status: status{"queued", "output", "wait"}}.at(place, log.Base))
		}
	}
	for _, s := range a.GetSteps() {
		known[s.GetIndex()] = true
		v := stepView{Index: s.GetIndex(), Name: s.GetName(), Message: s.GetMessage(),
			Took: stretchOf(s.GetStarted(), s.GetFinished(), now), Status: statusOfStep(a, s)}
		if s.GetExitCode() != 0 {
			v.Exit = fmt.Sprintf("exit %d", s.GetExitCode())
		}
		if a.GetOutcome() != "" && s.GetFinished() == "" {
			v.Took = stretch{}
		}
		for _, place := range log.steps {
			if place.GetStep() == s.GetIndex() && place.GetLines() > 0 {
				v = v.at(place, log.Base)
			}
		}
		out = append(out, v)
	}
	for i, name := range job.GetSteps() {
		if !known[int32(i)] {
			look := statusOf("waiting")
			if a.GetOutcome() != "" {
				look = didNotStart
			}
			out = append(out, stepView{Index: int32(i), Name: orElse(name, fmt.Sprintf("step %d", i+1)), Status: look})
		}
	}
	slices.SortStableFunc(out, func(a, b stepView) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// at says where the lines of a step are.
func (v stepView) at(place *fairleadv1.StepRange, base string) stepView {
	v.FirstLine = place.GetFirstLine() + 1
	v.Lines = count(place.GetLines()) + " lines"
	v.Href = fmt.Sprintf("%s?line=%d#L%d", base, v.FirstLine, v.FirstLine)
	return v
}

// didNotStart is the look of a step that its attempt did not come to.
var didNotStart = status{"skipped", "did not start", "off"}

func statusOfStep(a *fairleadv1.Attempt, s *fairleadv1.Step) status {
	switch {
	case s.GetConclusion() == "success" && s.GetOutcome() == "failure":
		return statusOf("soft_failure")
	case s.GetOutcome() != "":
		return statusOf(s.GetOutcome())
	case s.GetStarted() == "" && a.GetOutcome() != "":
		return didNotStart
	case s.GetStarted() == "":
		return statusOf("waiting")
	case a.GetOutcome() != "" || a.GetUncertain():
		return statusOf("uncertain") // it began, and nobody heard of its end
	}
	return statusOf("running")
}

// readWindow reads the part of a log that a page shows. A log that can't be read is a
// sentence on the page, not an error page: the facts about the attempt still stand.
func (p *Pages) readWindow(ctx context.Context, a *fairleadv1.Attempt, ask logAsk) logWindow {
	w := logWindow{Attempt: a.GetId(), Base: "/attempts/" + a.GetId(), Query: ask.query,
		Raw: "/api/v1/attempts/" + a.GetId() + "/log", Truncated: a.GetLog().GetTruncated(), Gaps: a.GetLog().GetGaps()}
	w.FirstError = w.Base + "/first-error"
	from := ask.from - 1
	switch {
	case ask.line > 0:
		from, w.Anchor = max(0, ask.line-1-windowLinesDefault/4), ask.line
	case ask.from > 0:
		w.Anchor = ask.from
	case a.GetOutcome() == string(domain.OutcomeSuccess):
		from, w.Anchor = 0, 1
	default:
		from = -windowLinesDefault // what just happened is at the end
	}
	answer, lines, err := p.readLines(ctx, a.GetId(), from, windowLinesDefault)
	if err != nil {
		what := p.explain(ctx, err)
		w.Problem = &what
		if what.Code == string(domain.CodeLogExpired) {
			return w // nothing of it is there
		}
		w.First = w.Base + "?from=1"
		w.Last = fmt.Sprintf("%s?from=%d", w.Base, max(1, a.GetLog().GetLines()-windowLinesDefault+1))
		return w
	}
	w.Lines, w.steps = lines, answer.GetSteps()
	w.Total, w.Bytes, w.Sealed = answer.GetTotalLines(), answer.GetTotalBytes(), answer.GetSealed()
	w.TotalText, w.BytesText = plural(int(w.Total), "line", "lines"), bytesText(w.Bytes)
	if !w.Sealed {
		w.Live = fmt.Sprintf("%s/events?offset=%d", w.Raw, w.Bytes)
	}
	w.page()
	if ask.query != "" {
		w.search(p, ctx)
	}
	return w
}

// page sets the links to the other windows, for readers without scripts.
func (w *logWindow) page() {
	if len(w.Lines) == 0 {
		return
	}
	w.From = w.Lines[0].Number
	last := w.Lines[len(w.Lines)-1].Number
	to := func(from int64) string { return fmt.Sprintf("%s?from=%d#L%d", w.Base, from, from) }
	if w.From > 1 {
		w.First, w.Earlier = to(1), to(max(1, w.From-windowLinesDefault))
	}
	if last < w.Total {
		w.Later, w.Last = to(last+1), to(max(1, w.Total-windowLinesDefault+1))
	}
}

// search lists the first matches, for readers without scripts.
func (w *logWindow) search(p *Pages, ctx context.Context) {
	found, err := p.cfg.Logs.SearchLog(ctx, &fairleadv1.SearchLogRequest{Attempt: w.Attempt, Text: w.Query,
		Limit: matchesMax})
	if err != nil {
		what := p.explain(ctx, err)
		w.Problem = &what
		return
	}
	for _, line := range found.GetLines() {
		w.Matches = append(w.Matches, matchView{line + 1, fmt.Sprintf("%s?line=%d#L%d", w.Base, line+1, line+1)})
	}
	w.MatchCount = plural(len(w.Matches), "matching line", "matching lines")
	if found.GetNext() > 0 {
		w.MatchCount = "more than " + w.MatchCount
	}
}

// styleWarmLines is how many lines before a window are read for the colours they leave
// in force.
const styleWarmLines = 50

// readLines reads and renders a window. from counts from 0; negative from the end.
func (p *Pages) readLines(ctx context.Context, attempt string, from int64, most int32) (*fairleadv1.ReadLinesResponse,
	[]lineView, error) {
	warm := int64(0)
	if from > 0 {
		warm = min(from, styleWarmLines)
	}
	answer, err := p.cfg.Logs.ReadLines(ctx, &fairleadv1.ReadLinesRequest{Attempt: attempt, From: from - warm,
		Count: most + int32(warm)})
	if err != nil {
		return nil, nil, err
	}
	lines := answer.GetLines()
	skip := 0
	for skip < len(lines) && from > 0 && lines[skip].GetNumber() < from {
		skip++
	}
	return answer, lineViewsOf(lines, skip), nil
}

// serveLines is the window that the scroller in the browser asks for.
func (p *Pages) serveLines(w http.ResponseWriter, r *http.Request) {
	from, err1 := strconv.ParseInt(r.FormValue("from"), 10, 64)
	most, err2 := strconv.ParseInt(r.FormValue("count"), 10, 32)
	if err1 != nil || err2 != nil || from < 0 || most < 1 || most > windowLinesMax {
		p.failJSON(w, r, &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "from",
			Message: fmt.Sprintf("Ask for 1 to %d lines, from a line counted from 0.", windowLinesMax)})
		return
	}
	answer, lines, err := p.readLines(r.Context(), r.PathValue("attempt"), from, int32(most))
	if err != nil {
		p.failJSON(w, r, err)
		return
	}
	p.sendJSON(w, r, map[string]any{"lines": lines, "total": answer.GetTotalLines(),
		"bytes": answer.GetTotalBytes(), "sealed": answer.GetSealed()})
}

func (p *Pages) serveSearch(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.ParseInt(orElse(r.FormValue("from"), "0"), 10, 64)
	text := r.FormValue("q")
	if err != nil || from < 0 || text == "" || len(text) > filterBytesMax {
		p.failJSON(w, r, &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "q",
			Message: "Search for some text, from a line counted from 0."})
		return
	}
	found, err := p.cfg.Logs.SearchLog(r.Context(), &fairleadv1.SearchLogRequest{Attempt: r.PathValue("attempt"),
		Text: text, From: from, Limit: matchesMax})
	if err != nil {
		p.failJSON(w, r, err)
		return
	}
	lines := make([]int64, 0, len(found.GetLines()))
	for _, line := range found.GetLines() {
		lines = append(lines, line+1)
	}
	p.sendJSON(w, r, map[string]any{"lines": lines, "next": found.GetNext()})
}

// serveGroup says where the group that starts at a line ends: at its end mark, at the
// next group, or with its step.
func (p *Pages) serveGroup(w http.ResponseWriter, r *http.Request) {
	line, err := strconv.ParseInt(r.FormValue("line"), 10, 64)
	if err != nil || line < 1 {
		p.failJSON(w, r, &domain.Rejection{Code: domain.CodeInvalidArgument, Field: "line",
			Message: "Name the group by the number of its first line."})
		return
	}
	end, err := p.groupEnd(r.Context(), r.PathValue("attempt"), line)
	if err != nil {
		p.failJSON(w, r, err)
		return
	}
	p.sendJSON(w, r, map[string]any{"from": line, "to": end})
}

// groupEnd finds the last line of a group, both counted from 1.
func (p *Pages) groupEnd(ctx context.Context, attempt string, line int64) (int64, error) {
	answer, err := p.cfg.Logs.ReadLines(ctx, &fairleadv1.ReadLinesRequest{Attempt: attempt, From: line - 1, Count: 1})
	if err != nil {
		return 0, err
	}
	end := answer.GetTotalLines()
	for _, place := range answer.GetSteps() {
		if len(answer.GetLines()) > 0 && place.GetStep() == answer.GetLines()[0].GetStep() {
			end = min(end, place.GetFirstLine()+place.GetLines())
		}
	}
	for _, mark := range []struct {
		text string
		keep int64 // whether the mark itself belongs to the group
	}{{"::endgroup::", 1}, {"::group::", 0}} {
		found, err := p.cfg.Logs.SearchLog(ctx, &fairleadv1.SearchLogRequest{Attempt: attempt, Text: mark.text,
			From: line, Limit: 1})
		if err != nil {
			return 0, err
		}
		if lines := found.GetLines(); len(lines) > 0 {
			end = min(end, lines[0]+mark.keep)
		}
	}
	return max(end, line), nil
}

// showFirstError leads to the first line that says it is an error; when none does, to
// the end of the step that failed, where the reason usually is.
func (p *Pages) showFirstError(w http.ResponseWriter, r *http.Request) {
	id := domain.AttemptID(r.PathValue("attempt"))
	run, _, _, ok := id.Split()
	if !ok {
		p.showError(w, r, domain.Reject(domain.CodeNotFound, "There is no such attempt, or you may not see it."))
		return
	}
	line, err := p.firstError(r.Context(), string(run), id)
	if err != nil {
		p.showError(w, r, err)
		return
	}
	if line == 0 {
		http.Redirect(w, r, "/attempts/"+string(id), http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, fmt.Sprintf("/attempts/%s?line=%d#L%d", id, line, line), http.StatusSeeOther)
}

func (p *Pages) firstError(ctx context.Context, run string, id domain.AttemptID) (int64, error) {
	for _, text := range []string{"::error", "##[error]"} {
		found, err := p.cfg.Logs.SearchLog(ctx, &fairleadv1.SearchLogRequest{Attempt: string(id), Text: text, Limit: 1})
		if err != nil {
			return 0, err
		}
		if lines := found.GetLines(); len(lines) > 0 {
			return lines[0] + 1, nil
		}
	}
	answer, err := p.cfg.Runs.GetRun(ctx, &fairleadv1.GetRunRequest{Run: run})
	if err != nil {
		return 0, err
	}
	for _, job := range answer.GetRun().GetJobs() {
		attempt := attemptOf(job, string(id))
		if attempt == nil {
			continue
		}
		window, err := p.cfg.Logs.ReadLines(ctx, &fairleadv1.ReadLinesRequest{Attempt: string(id), Count: 1})
		if err != nil {
			return 0, err
		}
		for _, step := range attempt.GetSteps() {
			if step.GetOutcome() == "" || step.GetOutcome() == "success" || step.GetOutcome() == "skipped" {
				continue
			}
			for _, place := range window.GetSteps() {
				if place.GetStep() == step.GetIndex() {
					return place.GetFirstLine() + max(1, place.GetLines()), nil
				}
			}
		}
	}
	return 0, nil
}
