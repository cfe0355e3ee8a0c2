package web_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"

	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/web"
	"github.com/fairlead-ci/fairlead/internal/web/canned"
)

var rewrite = flag.Bool("rewrite", false, "write the golden pages anew")

// noon is when every golden page was made.
func noon() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) }

func pagesOf(t *testing.T, world *canned.World) *web.Pages {
	t.Helper()
	pages, err := web.New(web.Config{Runs: world, Logs: world, Repositories: world, Pools: world, Server: world,
		WithKey: canned.WithKey, Now: noon, NewKey: func() string { return "key-of-this-page" }, Version: "0.1.0",
		RequestID: func(context.Context) string { return "req_golden" }, SignOutPath: "/signout",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// state is a page by name and address, and the pages that serve it.
type state struct {
	name, path string
	pages      http.Handler
}

// everyState lists every page in every state.
func everyState(t *testing.T) []state {
	t.Helper()
	world, states := canned.New(noon)
	pages, empty := pagesOf(t, world), pagesOf(t, canned.Empty(noon))
	var out []state
	for _, s := range states {
		out = append(out, state{s.Name, s.Path, pages})
	}
	signIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.SignIn(w, r, web.SignIn{Action: "/signin", Next: "/runners", Message: "The token is not known."})
	})
	return append(out, state{"signin", "/signin", signIn}, state{"runs-empty", "/", empty},
		state{"runners-empty", "/runners", empty}, state{"repositories-empty", "/repositories", empty})
}

func get(t *testing.T, pages http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func post(t *testing.T, pages http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	return w
}

// Asset names change with every byte of a style; the golden pages should not.
var hashed = regexp.MustCompile(`(/static/[a-z-]+)\.[0-9a-f]{12}\.`)

// Every page in every state looks as it was last looked at.
func TestGoldenPages(t *testing.T) {
	for _, s := range everyState(t) {
		page := get(t, s.pages, s.path).Body.String()
		page = hashed.ReplaceAllString(page, "$1.")
		page = strings.ReplaceAll(page, "><", ">\n<") + "\n" // lines, so that differences can be read
		file := filepath.Join("testdata", s.name+".html")
		if *rewrite {
			if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(page, "\n")); diff != "" {
			t.Errorf("page %s changed (run with -rewrite and look at it):\n%.4000s", s.name, diff)
		}
	}
}

// nodes are all elements of a page.
func nodes(t *testing.T, page string) []*html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var out []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			out = append(out, n)
		}
	}
	return out
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// No page, whatever names and output it shows, has a script, style or address that the
// templates did not put there, and none needs an exception from the policy.
// Promises: [ACC-14].
func TestPagesHoldNothingForeign(t *testing.T) {
	for _, s := range everyState(t) {
		w := get(t, s.pages, s.path)
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("page %s has the policy %q", s.name, policy)
		}
		ids := map[string]bool{}
		for _, n := range nodes(t, w.Body.String()) {
			switch n.Data {
			case "script":
				if n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), "/static/") {
					t.Errorf("page %s has a script of its own", s.name)
				}
			case "style", "iframe", "object", "embed", "base", "b", "i", "img":
				t.Errorf("page %s has a foreign <%s>", s.name, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("page %s: <%s %s=%q>", s.name, n.Data, a.Key, a.Val)
				}
				if (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/") &&
					!strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "//") {
					t.Errorf("page %s leads to %q", s.name, a.Val)
				}
				if a.Key == "id" && ids[a.Val] {
					t.Errorf("page %s has two elements %q", s.name, a.Val)
				}
				ids[a.Val] = ids[a.Val] || a.Key == "id"
			}
		}
	}
}

var identifiers = regexp.MustCompile(`/(run|job|att|rep)_[a-z0-9_]+`)

// Every form that changes something is a call of the public API at the same address.
// Promises: [ACC-15].
func TestEveryFormIsACallOfTheAPI(t *testing.T) {
	calls := map[string]bool{}
	services := fairleadv1.File_fairlead_v1_fairlead_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			rule, _ := proto.GetExtension(services.Get(i).Methods().Get(j).Options(), annotations.E_Http).(*annotations.HttpRule)
			if path := rule.GetPost(); path != "" {
				calls[regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "{}")] = true
			}
		}
	}
	found := map[string]bool{}
	for _, s := range everyState(t) {
		for _, n := range nodes(t, get(t, s.pages, s.path).Body.String()) {
			action := attribute(n, "action")
			if n.Data != "form" || attribute(n, "method") != "post" || action == "/signout" || action == "/signin" ||
				action == "/expressions" {
				continue // signing in and out is the transport's, and a computation changes nothing
			}
			path := "/api/v1" + identifiers.ReplaceAllString(action, "/{}")
			found[path] = true
			if !calls[path] {
				t.Errorf("page %s has a form to %s, which is no call of the API (%s)", s.name, action, path)
			}
			hasKey := false
			for field := range n.Descendants() {
				hasKey = hasKey || attribute(field, "name") == "key" && attribute(field, "value") != ""
			}
			if !hasKey {
				t.Errorf("page %s: the form to %s has no idempotency key", s.name, action)
			}
		}
	}
	want := []string{"/api/v1/attempts/{}/reconciliation", "/api/v1/jobs/{}/attempts",
		"/api/v1/repositories/{}/withdrawals", "/api/v1/runs",
		"/api/v1/runs/{}/cancellation", "/api/v1/runs/{}/rounds"}
	got := slices.Sorted(func(yield func(string) bool) {
		for path := range found {
			if !yield(path) {
				return
			}
		}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions that the pages offer: %s", diff)
	}
}

func pathOf(t *testing.T, states []canned.State, name string) string {
	t.Helper()
	for _, s := range states {
		if s.Name == name {
			return s.Path
		}
	}
	t.Fatalf("no state %s", name)
	return ""
}

// A double click sends the same key twice: one action, and both answers lead to the page
// that shows its effect.
// Promises: [CMD-13].
func TestDoubleClickActsOnce(t *testing.T) {
	world, states := canned.New(noon)
	pages, run := pagesOf(t, world), pathOf(t, states, "run-failure")
	form := url.Values{"key": {"the-key-of-one-rendering"}, "mode": {"failed"}}
	for range 2 {
		w := post(t, pages, run+"/rounds", form)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != run+"#waterfall" {
			t.Fatalf("answered %d to %q", w.Code, w.Header().Get("Location"))
		}
	}
	if world.Acted() != 1 {
		t.Fatalf("acted %d times", world.Acted())
	}
	if page := get(t, pages, run).Body.String(); !strings.Contains(page, "Round 2") {
		t.Error("the page does not show the new round")
	}
}

// Each action does what its form says, and its effect is on the page it leads to.
func TestActionsShowTheirEffect(t *testing.T) {
	world, states := canned.New(noon)
	pages := pagesOf(t, world)
	form := func(page, part string) string {
		for _, n := range nodes(t, get(t, pages, page).Body.String()) {
			if n.Data == "form" && strings.Contains(attribute(n, "action"), part) {
				return attribute(n, "action")
			}
		}
		t.Fatalf("page %s has no form to %s", page, part)
		return ""
	}
	for _, c := range []struct {
		state, part, effect string
		form                url.Values
	}{
		{"run-running", "cancellation", "cancel requested", url.Values{"key": {"k1"}, "reason": {"enough"}}},
		{"run-failure", "attempts", "waiting for a runner", url.Values{"key": {"k2"}}},
		{"run-uncertain-effectful", "reconciliation", "AttemptSettled",
			url.Values{"key": {"k3"}, "effect": {"confirmed"}, "then": {"success"}, "note": {"the new version answers"}}},
	} {
		page := pathOf(t, states, c.state)
		w := post(t, pages, form(page, c.part), c.form)
		if w.Code != http.StatusSeeOther {
			t.Errorf("%s: answered %d: %s", c.part, w.Code, w.Body)
			continue
		}
		to, _, _ := strings.Cut(w.Header().Get("Location"), "#")
		if to != page || !strings.Contains(get(t, pages, to).Body.String(), c.effect) {
			t.Errorf("%s: leads to %s, which does not show %q", c.part, to, c.effect)
		}
	}
}

// A workflow is started from its form; what was refused keeps what was filled in.
func TestARunIsStartedFromAForm(t *testing.T) {
	world, states := canned.New(noon)
	pages, page := pagesOf(t, world), pathOf(t, states, "workflows")
	repository := strings.Split(page, "/")[2]
	form := url.Values{"key": {"k"}, "repository": {repository}, "ref": {"refs/heads/trunk"},
		"workflow": {".fairlead/workflows/release.yml"}, "input.version": {""}, "input.level": {"5"},
		"input.dry": {"false"}}
	w := post(t, pages, "/runs", form)
	body := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(body, "The input &#34;version&#34; is required") ||
		!strings.Contains(body, `value="5"`) || strings.Contains(body, `value="true" checked`) {
		t.Errorf("answered %d: %s", w.Code, body)
	}
	form["input.dry"] = []string{"false", "true"}
	if w = post(t, pages, "/runs", form); !strings.Contains(w.Body.String(), `value="true" checked`) {
		t.Error("a refusal takes the tick out of its box")
	}
	form.Set("input.version", "v1")
	w = post(t, pages, "/runs", form)
	if w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), "/runs/run_") {
		t.Errorf("answered %d to %s", w.Code, w.Header().Get("Location"))
	}
	form.Del("key")
	if w := post(t, pages, "/runs", form); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("without a key: %d", w.Code)
	}
}

// A ref that is not there is said where another one can be given.
func TestWorkflowsAtAMissingRef(t *testing.T) {
	world, states := canned.New(noon)
	pages, page := pagesOf(t, world), pathOf(t, states, "workflows")
	w := get(t, pages, page+"?ref=gone")
	body := w.Body.String()
	if w.Code != http.StatusNotFound || !strings.Contains(body, `name="ref" value="gone"`) ||
		!strings.Contains(body, "commit_not_found") || strings.Contains(body, "No workflow at this commit") {
		t.Errorf("answered %d: %s", w.Code, body)
	}
}

// A refusal is a sentence on the page it came from, with the code of the API.
func TestRefusedActionIsASentence(t *testing.T) {
	world, states := canned.New(noon)
	pages := pagesOf(t, world)
	run := pathOf(t, states, "run-success")
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		says   string
	}{
		{run + "/cancellation", url.Values{"key": {"k"}}, 409, "run_concluded"},
		{run + "/cancellation", url.Values{}, 422, "no idempotency key"},
		{run + "/cancellation", url.Values{"key": {"k"}, "reason": {strings.Repeat("x", 1<<17)}}, 422, "can&#39;t be read"},
		{"/runs/run_7zzzzzzzzzzzzzzzzzzzzzzzzz/rounds", url.Values{"key": {"k"}}, 404, "not_found"},
		{"/jobs/nonsense/attempts", url.Values{"key": {"k"}}, 404, "not_found"},
		{"/attempts/../reconciliation", url.Values{"key": {"k"}}, 307, ""},
		{"/attempts/att_x/reconciliation", url.Values{"key": {"k"}}, 404, "not_found"},
	} {
		w := post(t, pages, c.path, c.form)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s answered %d, want %d with %q:\n%.300s", c.path, w.Code, c.status, c.says, w.Body)
		}
	}
	if world.Acted() != 0 {
		t.Errorf("refused actions acted %d times", world.Acted())
	}
}

// A page with all it needs weighs less than 60 KB as it is sent.
func TestPageWeight(t *testing.T) {
	const most = 60_000
	for _, s := range everyState(t) {
		total, seen := 0, map[string]bool{}
		weigh := func(path string) string {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			s.pages.ServeHTTP(w, r)
			total += w.Body.Len()
			if w.Header().Get("Content-Encoding") != "gzip" {
				return w.Body.String()
			}
			unzipped, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(unzipped)
			if err != nil {
				t.Fatal(err)
			}
			return string(page)
		}
		page := weigh(s.path)
		if s.name == "signin" {
			continue // its handler has no assets
		}
		for _, n := range nodes(t, page) {
			for _, address := range []string{attribute(n, "src"), attribute(n, "href")} {
				if strings.HasPrefix(address, "/static/") && !seen[address] {
					seen[address] = true
					weigh(address)
				}
			}
		}
		t.Logf("%-24s %6d bytes", s.name, total)
		if total > most {
			t.Errorf("page %s weighs %d bytes, more than %d", s.name, total, most)
		}
	}
}

// Assets may be kept for ever because their names change with their content.
func TestAssetsAreImmutable(t *testing.T) {
	pages := pagesOf(t, canned.Empty(noon))
	found := regexp.MustCompile(`/static/[^"]+`).FindAllString(get(t, pages, "/").Body.String(), -1)
	if len(found) < 5 {
		t.Fatalf("the page names only %v", found)
	}
	for _, address := range found {
		w := get(t, pages, address)
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s answered %d with %q", address, w.Code, w.Header().Get("Cache-Control"))
		}
		for _, module := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(w.Body.String(), -1) {
			if got := get(t, pages, "/static/"+module[1]).Code; got != http.StatusOK {
				t.Errorf("%s imports %s, which answers %d", address, module[1], got)
			}
		}
	}
	for _, address := range []string{"/static/fairlead.css", "/static/..%2fweb.go", "/static/page.000000000000.js"} {
		if got := get(t, pages, address).Code; got != http.StatusNotFound {
			t.Errorf("%s answered %d", address, got)
		}
	}
}

// window is what the scroller gets.
type window struct {
	Lines []struct {
		N       int64
		H, K, C string
	}
	Total  int64
	Sealed bool
}

func lines(t *testing.T, pages http.Handler, address string) window {
	t.Helper()
	w := get(t, pages, address)
	var out window
	if err := json.Unmarshal(w.Body.Bytes(), &out); w.Code != http.StatusOK || err != nil {
		t.Fatalf("%s answered %d: %v: %.200s", address, w.Code, err, w.Body)
	}
	return out
}

// Any window of a million lines is one small answer.
func TestWindowsOfAMillionLines(t *testing.T) {
	world, states := canned.New(noon)
	pages, log := pagesOf(t, world), pathOf(t, states, "log-million")
	for _, from := range []string{"0", "499999", "999990", "1000000"} {
		got := lines(t, pages, log+"/lines.json?count=100&from="+from)
		if got.Total != 1_000_000 || !got.Sealed || len(got.Lines) > 100 {
			t.Errorf("from %s: %d lines of %d", from, len(got.Lines), got.Total)
		}
	}
	first := lines(t, pages, log+"/lines.json?count=2&from=777776").Lines[0]
	if first.N != 777_777 || first.K != "error" || first.H != "the needle in the haystack" {
		t.Errorf("the line is %+v", first)
	}
	for _, bad := range []string{"count=0&from=0", "count=1001&from=0", "count=10&from=-1", "count=x&from=0", ""} {
		if w := get(t, pages, log+"/lines.json?"+bad); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%q answered %d", bad, w.Code)
		}
	}
}

// The first error is a link that works without scripts.
func TestFirstError(t *testing.T) {
	world, states := canned.New(noon)
	pages := pagesOf(t, world)
	for name, want := range map[string]string{
		"log-million":   "?line=777777#L777777", // an annotation
		"log-failure":   "?line=54#L54",         // an annotation
		"log-timed-out": "?line=52#L52",         // the end of the step that did not succeed
	} {
		log := pathOf(t, states, name)
		w := get(t, pages, log+"/first-error")
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != log+want {
			t.Errorf("%s: answered %d to %s", name, w.Code, w.Header().Get("Location"))
		}
	}
}

// A group ends at its mark, before the next group, or with its step.
func TestGroupsEnd(t *testing.T) {
	world, states := canned.New(noon)
	pages := pagesOf(t, world)
	for address, want := range map[string]string{
		pathOf(t, states, "log-failure") + "/group.json?line=3":   `{"from":3,"to":29}`,
		pathOf(t, states, "log-million") + "/group.json?line=501": `{"from":501,"to":1000}`,
		pathOf(t, states, "log-million") + "/group.json?line=0":   `{"code":"invalid_argument"`,
	} {
		if got := get(t, pages, address).Body.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s answered %s, want %s", address, got, want)
		}
	}
}

// Search says how many lines match and where to go on.
func TestSearch(t *testing.T) {
	world, states := canned.New(noon)
	pages, log := pagesOf(t, world), pathOf(t, states, "log-million")
	if got := get(t, pages, log+"/search.json?q=needle").Body.String(); got != `{"lines":[777777],"next":0}` {
		t.Errorf("answered %s", got)
	}
	var many struct {
		Lines []int64
		Next  int64
	}
	if err := json.Unmarshal(get(t, pages, log+"/search.json?q=five+hundred").Body.Bytes(), &many); err != nil {
		t.Fatal(err)
	}
	if len(many.Lines) != 1000 || many.Next != 0 {
		t.Errorf("%d matches, next %d", len(many.Lines), many.Next)
	}
}

// A long line is cut with a mark that keeps its length, and its bytes are one link away.
func TestLongLinesAreCutVisibly(t *testing.T) {
	world, states := canned.New(noon)
	got := lines(t, pagesOf(t, world), pathOf(t, states, "log-hostile")+"/lines.json?from=6&count=1").Lines[0]
	if got.C != "cut: 4.0 KiB of 8.8 KiB shown" || len(got.H) != 4096 {
		t.Errorf("%d bytes shown, mark %q", len(got.H), got.C)
	}
}

// In development every page names the file that made it.
func TestDevelopmentFooterNamesTheTemplate(t *testing.T) {
	world := canned.Empty(noon)
	pages, err := web.New(web.Config{Runs: world, Logs: world, Repositories: world, Pools: world, Server: world,
		WithKey: canned.WithKey, Now: noon, Development: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/runners", "/repositories", "/nowhere"} {
		page := get(t, pages, path).Body.String()
		file := regexp.MustCompile(`internal/web/(page_[a-z]+\.templ)`).FindStringSubmatch(page)
		if file == nil {
			t.Errorf("page %s names no file", path)
			continue
		}
		if _, err := os.Stat(file[1]); err != nil {
			t.Errorf("page %s names %s: %v", path, file[0], err)
		}
	}
}
