package workflow

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/workflow/expr"
	"github.com/fairlead-ci/fairlead/internal/workflow/syntax"
)

// Every code has a page. Its first fence has problems of that code only, and its second
// one has none.
func TestPagesOfDiagnostics(t *testing.T) {
	pages, err := filepath.Glob(docs + "/reference/diagnostics/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != len(syntax.Codes()) {
		t.Errorf("there are %d pages for %d codes", len(pages), len(syntax.Codes()))
	}
	for _, entry := range syntax.Codes() {
		t.Run(string(entry.Code), func(t *testing.T) {
			page := string(read(t, docs+"/reference/diagnostics/"+string(entry.Code)+".md"))
			kind := map[Severity]string{Error: "An error:", Warning: "A warning:", Info: "Information:"}[entry.Severity]
			if !strings.HasPrefix(page, "# `"+string(entry.Code)+"`\n\n"+entry.Means+" "+kind) {
				t.Errorf("the page does not begin as the table of codes says:\n%s", page)
			}
			fails, mended := fence(page, "yaml fails"), fence(page, "yaml mended")
			if entry.Code == syntax.CodeTooManyProblems {
				return // TestAHostileFileGivesABoundedReport: an example would be a hundred problems
			}
			component := fence(page, "yaml component")
			fails.component, mended.component = &component, &component
			list := fails.compile(t)
			if len(list) == 0 {
				t.Error("the example has no problem")
			}
			for _, d := range list {
				if d.Code != entry.Code && string(d.Code) != fails.options["also"] {
					t.Errorf("the example fails with %s", d)
				}
			}
			if list := mended.compile(t); len(list) > 0 {
				t.Errorf("the mended example has problems:\n%s", Render(list, []byte(mended.text)))
			}
		})
	}
}

// pageExample is a fenced text with the words after its fence.
type pageExample struct {
	text    string
	called  string // the text of ./.github/workflows/called.yml
	options map[string]string
	// component is what the file uses, if its fence names that.
	component *pageExample
}

func fence(page, kind string) pageExample {
	_, rest, _ := strings.Cut(page, "```"+kind)
	words, rest, _ := strings.Cut(rest, "\n")
	text, _, _ := strings.Cut(rest, "```")
	e := pageExample{text: text, options: make(map[string]string)}
	if _, after, ok := strings.Cut(page, "```yaml called\n"); ok {
		e.called, _, _ = strings.Cut(after, "```")
	}
	for _, word := range strings.Fields(words) {
		name, value, _ := strings.Cut(word, "=")
		e.options[name] = value
	}
	return e
}

func (e pageExample) compile(t *testing.T) []Diagnostic {
	t.Helper()
	src, in, lim := Source{Path: "ci.yml", Text: []byte(e.text)}, Inputs{}, Limits{}
	if e.component != nil && e.component.options["uses"] != "" {
		r, _ := readReference(e.component.options["uses"], Reference{})
		c := Component{Reference: r, File: "action.yml", Text: []byte(e.component.text),
			Problem: e.component.options["problem"]}
		if r.Repository != "" {
			c.Commit, c.Tree = strings.Repeat("c", 40), strings.Repeat("d", 40)
		}
		whole := c
		whole.Reference = r.At(c.Commit)
		in.Components = Components{r.String(): c, whole.Reference.String(): whole}
	}
	if e.called != "" {
		r := Reference{Path: ".github/workflows/called.yml"}
		in.Components = Components{r.String(): {Reference: r, File: r.Path, Text: []byte(e.called)}}
	}
	for name, value := range e.options {
		number, _ := strconv.Atoi(value)
		what, input := strings.CutPrefix(name, "input.")
		switch {
		case input && in.Dispatch == nil:
			in.Dispatch = map[string]string{what: value}
		case input:
			in.Dispatch[what] = value
		case name == "event":
			in.Event = value
		case name == "policy":
			in.Pins.Policy = value
		case name == "locked":
			in.Pins.Lock = Lock{"octo/greet@v1": value}
		case name == "path":
			src.Path = value
		case name == "escaped":
			text, err := strconv.Unquote(`"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(e.text) + `"`)
			if err != nil {
				t.Fatal(err)
			}
			src.Text = []byte(text)
		case name == "long":
			src.Text = []byte(strings.ReplaceAll(e.text, "LONG TEXT", strings.Repeat("x", expr.LengthMax+1)))
		case name == "limit.source":
			lim.SourceBytes = number
		case name == "limit.depth":
			lim.Depth = number
		case name == "limit.nodes":
			lim.Nodes = number
		case name == "limit.plan":
			lim.PlanBytes = number
		case name == "limit.jobs":
			lim.Jobs = number
		case name == "limit.steps":
			lim.Steps = number
		case name != "also":
			t.Fatalf("no option %s", name)
		}
	}
	_, list := Compile(src, in, lim)
	return list
}

// The severities that reports are given are those of the table.
func TestSeveritiesAreThoseOfTheTable(t *testing.T) {
	for _, entry := range syntax.Codes() {
		reports := syntax.NewReports("w.yml")
		reports.Add(entry.Code, syntax.Range{}, "x", "")
		if got := reports.Sorted()[0].Severity; got != entry.Severity {
			t.Errorf("%s is reported as %s", entry.Code, got)
		}
		refused := strings.HasPrefix(string(entry.Code), "unsupported_")
		if refused && entry.Severity != Error {
			t.Errorf("%s is refused, and no error", entry.Code)
		}
		if strings.HasPrefix(string(entry.Code), "not_run_") && entry.Severity != Warning {
			t.Errorf("%s is a requirement, and no warning", entry.Code)
		}
	}
}

// The schema that the manual offers to editors is the one that lint prints.
func TestSchemaOfTheManual(t *testing.T) {
	golden(t, docs+"/reference/workflow.schema.json", Schema())
	for _, name := range []string{"runs-on", "pull_request", "id-token", "retry", "working-directory"} {
		if !strings.Contains(string(Schema()), fmt.Sprintf("%q", name)) {
			t.Errorf("the schema has no %s", name)
		}
	}
	if slices.Contains(strings.Fields(string(Schema())), "null,") {
		t.Error("the schema has an empty value")
	}
}
