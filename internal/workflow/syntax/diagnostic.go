package syntax

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Severity says how much a diagnostic matters. Only an error stops the compilation.
type Severity string

// Severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Diagnostic is one problem of a workflow file, for its author.
type Diagnostic struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Path     string   `json:"path"`
	Pos      Pos      `json:"pos"`
	End      Pos      `json:"end"` // just after the place; zero when unknown
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to do instead
}

// String is the diagnostic on one line, as compilers print it.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s [%s]", d.Path, d.Pos.Line, d.Pos.Column, d.Severity, d.Message, d.Code)
}

// reportsMax bounds how many diagnostics one file can have: a hostile file must not
// turn its size into many times as much text. What is beyond is counted and said.
const reportsMax = 100

// suggestionsMax bounds how often one compilation searches for a similar word.
const suggestionsMax = 100

// Reports collects the diagnostics of one file.
type Reports struct {
	path      string
	list      []Diagnostic
	seen      map[Diagnostic]bool
	left      int      // diagnostics beyond the bound
	worst     Severity // of those
	suggested int
	failed    bool
	ours      *Node // the first thing in the file that is Fairlead's own
}

// NewReports starts a collection for the file at path.
func NewReports(path string) *Reports {
	return &Reports{path: path, seen: make(map[Diagnostic]bool)}
}

// Add reports a problem. The code's severity is in the table of codes. The same problem
// at the same place is reported once, however often an alias repeats it.
func (r *Reports) Add(code Code, at Range, message, hint string) {
	d := Diagnostic{
		Code: code, Severity: severity(code), Path: r.path,
		Pos: at.Start, End: at.End, Message: message, Hint: hint,
	}
	r.failed = r.failed || d.Severity == Error
	if r.seen[d] {
		return
	}
	if len(r.list) >= reportsMax && !r.makeRoom(d) {
		return
	}
	r.seen[d] = true
	r.list = append(r.list, d)
}

// makeRoom leaves out d, or in favour of an error the last that is none: what stops the
// file from running must not be hidden behind what does not.
func (r *Reports) makeRoom(d Diagnostic) bool {
	at := -1
	if d.Severity == Error {
		for i := len(r.list) - 1; i >= 0 && at < 0; i-- {
			if r.list[i].Severity != Error {
				at = i
			}
		}
	}
	out := d
	if at >= 0 {
		out = r.list[at]
		r.list = slices.Delete(r.list, at, at+1)
	}
	r.left++
	if r.left == 1 || rank(out.Severity) < rank(r.worst) {
		r.worst = out.Severity
	}
	return at >= 0
}

func rank(s Severity) int { return slices.Index([]Severity{Error, Warning, Info}, s) }

// own notes the first use of something that is Fairlead's own.
func (r *Reports) own(n *Node) {
	if r.ours == nil {
		r.ours = n
	}
}

// reportOwn says that a file among those of another system runs only here.
func (r *Reports) reportOwn() {
	if r.ours != nil && strings.Contains("/"+r.path, "/.github/workflows/") {
		r.Add(CodeFairleadOnly, r.ours.Range, Quote(r.ours.Value)+" is Fairlead's own, so the workflow runs only on Fairlead",
			"keep such workflows in .fairlead/workflows, which other systems don't read")
	}
}

// Failed reports whether an error was added.
func (r *Reports) Failed() bool { return r.failed }

// Full reports whether more diagnostics would only be counted, so that a caller can
// spare the work of finding their exact place.
func (r *Reports) Full() bool { return len(r.list) >= reportsMax }

// Sorted lists the diagnostics in the order of the file.
func (r *Reports) Sorted() []Diagnostic {
	list := slices.Clone(r.list)
	slices.SortStableFunc(list, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	if r.left > 0 {
		last := list[len(list)-1].Pos
		list = append(list, Diagnostic{
			Code: CodeTooManyProblems, Severity: r.worst, Path: r.path, Pos: last,
			Message: fmt.Sprintf("%d more problems are not shown", r.left),
			Hint:    "mend the ones above first",
		})
	}
	return list
}

// Suggest is a hint that names the candidate most like word, or otherwise.
func (r *Reports) Suggest(word string, candidates []string, otherwise string) string {
	if best := r.similar(word, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return otherwise
}

// similar is the candidate most like word; empty when none is.
func (r *Reports) similar(word string, candidates []string) string {
	const wordMax = 60
	if r.suggested >= suggestionsMax || len(word) > wordMax {
		return ""
	}
	r.suggested++
	best, bestDistance := "", 3
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance && d*2 < max(len(c), 3) {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the edits (insert, delete, replace, swap neighbours) between a and b.
func distance(a, b string) int {
	if len(a) > len(b)+2 || len(b) > len(a)+2 {
		return 3
	}
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}

// Quote is text in double quotes, cut to a readable length and with nothing in it that
// a terminal would act on.
func Quote(text string) string {
	const charactersMax = 60
	if utf8.RuneCountInString(text) > charactersMax {
		count := 0
		for i := range text {
			if count++; count > charactersMax {
				text = text[:i] + "…"
				break
			}
		}
	}
	return strconv.Quote(text)
}
