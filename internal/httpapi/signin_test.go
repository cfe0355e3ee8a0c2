package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/credential"
)

// browser sends what a browser without credential would, plus cookie.
func (w *world) browser(method, path, body string, cookie *http.Cookie, headers ...string) answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html,*/*;q=0.8")
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if cookie != nil {
		request.AddCookie(cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return w.send(request)
}

func cookieOf(t *testing.T, a answer) *http.Cookie {
	t.Helper()
	cookies := (&http.Response{Header: a.head}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d %s: cookies %v", a.status, a.body, cookies)
	}
	return cookies[0]
}

// Promises: [ACC-6].
func TestSignInLinkWorksOnceAndTheSessionReads(t *testing.T) {
	w := newWorld(t)
	got := w.browser("GET", "/runs/x?a=b", "", nil)
	if got.status != 303 || got.head.Get("Location") != "/signin?next=%2Fruns%2Fx%3Fa%3Db" {
		t.Fatalf("not led to sign in: %d %v", got.status, got.head)
	}
	link := SignInLink("http://h/", w.gate.Sessions.NewCode())
	path := strings.TrimPrefix(link, "http://h") + "&next=%2Fruns%2Fx"
	if head := w.browser("HEAD", path, "", nil); len(head.head.Values("Set-Cookie")) != 0 {
		t.Error("HEAD redeemed the code")
	}
	got = w.browser("GET", path, "", nil)
	cookie := cookieOf(t, got)
	if got.status != 303 || got.head.Get("Location") != "/runs/x" ||
		got.head.Get("Referrer-Policy") != "no-referrer" ||
		!cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" {
		t.Fatalf("%d %v", got.status, got.head)
	}
	if again := w.browser("GET", path, "", nil); again.status != 401 || len(again.head.Values("Set-Cookie")) != 0 {
		t.Errorf("the link worked twice: %d", again.status)
	}
	if reload := w.browser("GET", path, "", cookie); reload.status != 303 {
		t.Errorf("reloading the link when signed in: %d", reload.status)
	}
	if page := w.browser("GET", "/runs/x", "", cookie); page.body != "page /runs/x for admin" {
		t.Errorf("page: %d %s", page.status, page.body)
	}
	if read := w.browser("GET", "/api/v1/server", "", cookie); read.status != 200 {
		t.Errorf("reading the API by cookie: %d %s", read.status, read.body)
	}
	write := w.browser("POST", "/api/v1/runs", "{}", cookie, "Content-Type", "application/json",
		"Idempotency-Key", "k")
	if write.status != 401 {
		t.Errorf("writing to the API by cookie: %d %s", write.status, write.body)
	}
	if strings.Contains(w.log.String(), "flc_") || strings.Contains(w.log.String(), cookie.Value) {
		t.Error("the log holds a code or a cookie")
	}
	out := w.browser("POST", "/signout", "x=y", cookie)
	if out.status != 303 || cookieOf(t, out).MaxAge >= 0 {
		t.Errorf("sign out: %d %v", out.status, out.head)
	}
	if page := w.browser("GET", "/", "", cookie); page.status != 303 {
		t.Errorf("still in after signing out: %d", page.status)
	}
}

func TestSignInWithTheAdminToken(t *testing.T) {
	w := newWorld(t)
	attempt := w.gate.Attempts.Mint(credential.AttemptClaim{Tenant: "tnt_default", Attempt: testAttempt,
		Epoch: 1}).Reveal()
	for _, token := range []string{"", "fla_wrong", attempt} {
		got := w.browser("POST", "/signin", url.Values{"token": {token}}.Encode(), nil)
		if got.status != 401 || len(got.head.Values("Set-Cookie")) != 0 ||
			!strings.Contains(got.body, "not the admin token") {
			t.Errorf("%.8q: %d %s", token, got.status, got.body)
		}
	}
	for next, want := range map[string]string{
		"/runs": "/runs", "": "/", "//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/",
		"/\tx": "/", "javascript:alert(1)": "/", "/" + strings.Repeat("x", 3000): "/",
	} {
		got := w.browser("POST", "/signin", url.Values{"token": {w.token + "\n"}, "next": {next}}.Encode(), nil)
		if got.status != 303 || got.head.Get("Location") != want {
			t.Errorf("next %.20q leads to %q", next, got.head.Get("Location"))
		}
		cookieOf(t, got)
	}
}

// Promises: [ACC-7].
func TestOtherSitesCanDoNothing(t *testing.T) {
	w := newWorld(t)
	cookie := cookieOf(t, w.browser("POST", "/signin", url.Values{"token": {w.token}}.Encode(), nil))
	for _, path := range []string{"/runs/x/cancellation", "/signout", "/signin", "/api/v1/runs",
		"/fairlead.v1.RunService/CreateRun"} {
		for _, head := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}} {
			got := w.browser("POST", path, "key=1", cookie, head...)
			if got.status != 403 || got.info(t).Code != "cross_origin" {
				t.Errorf("%s with %v: %d %s", path, head, got.status, got.body)
			}
		}
	}
	if got := w.browser("POST", "/runs/x/cancellation", "key=1", cookie, "Sec-Fetch-Site",
		"same-origin"); got.status != 200 {
		t.Errorf("a form of our own page: %d %s", got.status, got.body)
	}
}

// TestFormsNeedTheRightOfTheirProcedure shows that a page's form is judged as the call of
// the API that it stands for.
func TestFormsNeedTheRightOfTheirProcedure(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]struct {
		action   Action
		resource Resource
	}{
		"/runs/run_1/cancellation":       {ActionRunCancel, Resource{"run", "run_1"}},
		"/runs/run_1/rounds":             {ActionRunRerun, Resource{"run", "run_1"}},
		"/jobs/job_1/attempts":           {ActionRunRerun, Resource{"job", "job_1"}},
		"/attempts/att_1/reconciliation": {ActionAttemptSettle, Resource{"attempt", "att_1"}},
		"/nothing":                       {ActionPageRead, Resource{}},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if action, resource := w.server.pageAction(request); action != want.action || resource != want.resource {
			t.Errorf("%s: %s %v", path, action, resource)
		}
	}
}

// Promises: [ACC-13].
func TestGitTakesAPasswordAndAttemptsFetchOnly(t *testing.T) {
	w := newWorld(t)
	token := w.gate.Attempts.Mint(credential.AttemptClaim{Tenant: "tnt_default", Attempt: testAttempt,
		Epoch: 1}).Reveal()
	git := func(path, user, password string) answer {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.http.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			request.SetBasicAuth(user, password)
		}
		return w.send(request)
	}
	const fetch = "/git/tnt_default/rep_1.git/info/refs?service=git-upload-pack"
	const push = "/git/tnt_default/rep_1.git/info/refs?service=git-receive-pack"
	if got := git(fetch, "", ""); got.status != 401 ||
		!strings.HasPrefix(got.head.Get("WWW-Authenticate"), "Basic") {
		t.Errorf("without a password: %d %v", got.status, got.head)
	}
	if got := git(fetch, "x", token); got.body != "git for attempt" {
		t.Errorf("attempt fetches: %d %s", got.status, got.body)
	}
	if got := git(push, "x", token); got.status != 404 {
		t.Errorf("attempt pushes: %d %s", got.status, got.body)
	}
	if got := git(push, "x", w.token); got.body != "git for admin" {
		t.Errorf("admin pushes: %d %s", got.status, got.body)
	}
}

func TestHealthMetricsAndOpenAPI(t *testing.T) {
	problem := error(nil)
	w := newWorld(t, func(cfg *Config) { cfg.Ready = readyFunc(&problem) })
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 401,
		"/api/openapi.json": 200, "/static/x.css": 200} {
		if got := w.do("GET", path, "", "Authorization", ""); got.status != want {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	if got := w.do("GET", "/metrics", ""); got.body != "# metrics\n" {
		t.Errorf("metrics: %d %s", got.status, got.body)
	}
	problem = http.ErrServerClosed
	if got := w.do("GET", "/readyz", ""); got.status != 503 || strings.Contains(got.body, problem.Error()) {
		t.Errorf("not ready: %d %s", got.status, got.body)
	}
	debug := DebugHandler(nil)
	if debug == nil || strings.Contains(strings.Join(patterns(w.server), " "), "pprof") {
		t.Error("profiles are on the public address")
	}
}

func readyFunc(problem *error) func(context.Context) error {
	return func(context.Context) error { return *problem }
}

func patterns(s *Server) []string {
	var out []string
	for _, route := range s.Routes() {
		out = append(out, route.Pattern)
	}
	return out
}
