package web

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/fairlead-ci/fairlead/internal/domain"
	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
)

// exampleExpression and exampleContexts are what the page starts with.
const (
	exampleExpression = "contains(github.event.labels.*.name, 'bug') && github.ref == 'refs/heads/main'"
	exampleContexts   = `{
  "github": {
    "ref": "refs/heads/main",
    "event": {"labels": [{"name": "Bug"}, {"name": "docs"}]}
  },
  "env": {"LEVEL": "2"}
}`
)

// expressionView is an expression with what it came to.
type expressionView struct {
	Text, Contexts string
	Template       bool
	Status         string

	Asked   bool
	Kind    string // empty when there is no value
	Value   string
	Problem *expressionProblem
	Parts   []partView
	Cut     bool // there are more parts than are shown
}

// expressionProblem is an error with the line that it is in.
type expressionProblem struct{ Phase, Code, Message, Hint, Line, Mark string }

// partView is one row of the explanation: a part of the expression and its value.
type partView struct {
	Depth       int
	Text, Value string
	Kind        string // of the value; "" when there is none
}

// showExpressions evaluates what was asked for, if anything was. Nothing is kept, and
// nothing of the server is read: the same evaluation is `fairlead eval`.
//
// Trust: text and contexts may come from anybody; both are bounded by the size of a form,
// the evaluation by a budget.
func (p *Pages) showExpressions(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	if err := r.ParseForm(); err != nil {
		p.showProblem(w, r, problem{Status: http.StatusUnprocessableEntity, Code: string(domain.CodeInvalidArgument),
			Message: "The form can't be read: it is damaged, or the expression and its contexts are too long for this page. " +
				"The command fairlead eval takes more."})
		return
	}
	v := expressionView{Text: exampleExpression, Contexts: exampleContexts, Status: "success"}
	if r.Form.Has("text") {
		// A browser ends the lines of a form with \r\n, whatever was typed.
		v.Text = strings.ReplaceAll(r.Form.Get("text"), "\r\n", "\n")
		v.Contexts = strings.ReplaceAll(r.Form.Get("contexts"), "\r\n", "\n")
		v.Template, v.Status = r.Form.Has("template"), orElse(r.Form.Get("status"), "success")
		v.evaluate()
	}
	pg := page{Title: "Expressions", Section: "expressions", Source: "internal/web/page_expressions.templ"}
	p.render(w, r, http.StatusOK, expressionsPage(p.frame(r.Context(), pg), v))
}

func (v *expressionView) evaluate() {
	v.Asked = true
	contexts := expr.Object()
	if strings.TrimSpace(v.Contexts) != "" {
		read, err := expr.FromJSON(v.Contexts)
		if err == nil && read.Kind() != expr.KindObject {
			v.Problem = &expressionProblem{Phase: "contexts", Message: "The contexts must be an object with a field for each."}
			return
		}
		if err != nil {
			v.Problem = &expressionProblem{Phase: "contexts", Message: err.Error()}
			return
		}
		contexts = read
	}
	answer := expr.Ask(expr.Question{Text: v.Text, Template: v.Template, Contexts: contexts, Explain: true,
		Status: expr.StepStatus{Failed: v.Status == "failure", Stopped: v.Status == "cancelled"},
		Budget: expr.Budget{Steps: expressionStepsMax, Bytes: expressionBytesMax}})
	for _, e := range answer.Explanation {
		v.explain(e, 0)
	}
	if err := answer.Err; err != nil {
		line, mark := expr.Pointer(v.Text, err.Span)
		v.Problem = &expressionProblem{Phase: string(err.Phase), Code: string(err.Code), Message: err.Message, Hint: err.Hint,
			Line: line, Mark: mark}
		return
	}
	v.Kind, v.Value = answer.Value.Kind().String(), cutTo(answer.Value.JSON(), expressionValueMax)
}

// explain adds the rows of a part and of everything below it.
func (v *expressionView) explain(e expr.Explanation, depth int) {
	if len(v.Parts) == expressionPartsMax {
		v.Cut = true
		return
	}
	row := partView{Depth: min(depth, expressionDepthMax), Text: cut(e.Text)}
	switch {
	case e.Err != nil:
		row.Value = "error: " + e.Err.Message
	case e.Reached:
		row.Kind, row.Value = e.Value.Kind().String(), cut(compact(e.Value))
	default:
		row.Value = "not evaluated"
	}
	v.Parts = append(v.Parts, row)
	for _, part := range e.Parts {
		v.explain(part, depth+1)
	}
}

// compact is a value in one line.
func compact(v expr.Value) string {
	if v.Kind() == expr.KindString { // with its escapes, but without those of HTML
		return v.JSON()
	}
	return string(json.RawMessage(v.Exact()))
}

// cutTo is text of at most that many bytes, with a mark where it was cut.
func cutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
