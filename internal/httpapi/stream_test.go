package httpapi

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/internal/domain"
)

// event is one server-sent event.
type event struct{ name, id, data string }

// follow opens an event stream and hands out its events; the channel closes with it.
func (w *world) follow(path string, headers ...string) (int, <-chan event) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.http.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := w.http.Client().Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(chan event, 100)
	go func() {
		defer close(out)
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		var one event
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				one.name = value
			case "id":
				one.id = value
			case "data":
				one.data = value
			case "":
				if one.data != "" {
					out <- one
				}
				one = event{}
			}
		}
	}()
	return response.StatusCode, out
}

func TestRunEventsTellEveryChangeOnceAndEnd(t *testing.T) {
	w := newWorld(t)
	w.do("POST", "/api/v1/runs", `{"title":"t"}`, "Idempotency-Key", "k")
	path := "/api/v1/runs/" + string(testRun) + "/events"
	status, events := w.follow(path)
	if first := <-events; status != 200 || first.id != "1" || first.name != "" ||
		!strings.Contains(first.data, `"version":"1"`) {
		t.Fatalf("%d %+v", status, first)
	}
	_, resumed := w.follow(path, "Last-Event-ID", "1")
	w.runs.change("")
	if second := <-events; second.id != "2" {
		t.Fatalf("%+v", second)
	}
	if again := <-resumed; again.id != "2" {
		t.Fatalf("resumed at %+v, want only what is newer than version 1", again)
	}
	w.runs.change("success")
	if third := <-events; third.id != "3" || !strings.Contains(third.data, `"outcome":"success"`) {
		t.Fatalf("%+v", third)
	}
	if end := <-events; end.name != "end" {
		t.Fatalf("%+v", end)
	}
	if _, more := <-events; more {
		t.Fatal("events after the end")
	}
	// A browser that comes back although it had everything is told to stay away.
	if got := w.do("GET", path, "", "Last-Event-ID", "3"); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.do("GET", path+"?full=true", ""); !strings.Contains(got.body, `"jobs":[]`) {
		t.Errorf("full: %s", got.body)
	}
}

func TestEventsOfNothingAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/api/v1/runs/run_x/events", "/api/v1/attempts/att_x/log/events",
		"/api/v1/attempts/att_x/log"} {
		if got := w.do("GET", path, ""); got.status != 404 || got.info(t).Code != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// Promises: [LOG-7].
func TestLogEventsResumeAtAByte(t *testing.T) {
	w := newWorld(t)
	path := "/api/v1/attempts/" + string(testAttempt) + "/log/events"
	read := func(headers ...string) (string, event) {
		_, events := w.follow(path, headers...)
		var all []byte
		var last event
		for one := range events {
			var piece struct{ Data string }
			if err := json.Unmarshal([]byte(one.data), &piece); err != nil {
				t.Fatal(err)
			}
			bytes, err := base64.StdEncoding.DecodeString(piece.Data)
			if err != nil {
				t.Fatal(err)
			}
			all, last = append(all, bytes...), one
		}
		return string(all), last
	}
	if got, last := read(); got != string(w.logs.content) || last.name != "end" {
		t.Errorf("got %q, ended by %+v", got, last)
	}
	if got, _ := read("Last-Event-ID", "4"); got != string(w.logs.content[4:]) {
		t.Errorf("resumed: %q", got)
	}
	w.logs.set([]byte(strings.Repeat("0123456789", 20000)), true)
	if got, _ := read(); got != string(w.logs.content) {
		t.Errorf("a large log came back with %d bytes", len(got))
	}
}

func TestAStreamWithNothingToSayOpensAnyway(t *testing.T) {
	w := newWorld(t)
	w.logs.set(nil, false)
	status, events := w.follow("/api/v1/attempts/" + string(testAttempt) + "/log/events")
	if status != 200 {
		t.Fatal(status)
	}
	w.server.Drain()
	for one := range events {
		t.Errorf("a drained stream said %+v", one)
	}
}

// Promises: [LOG-11].
func TestRawLogIsByteForByte(t *testing.T) {
	w := newWorld(t)
	path := "/api/v1/attempts/" + string(testAttempt) + "/log"
	all := string(w.logs.content)
	got := w.do("GET", path, "")
	if got.body != all || got.head.Get("Content-Type") != "text/plain; charset=utf-8" ||
		got.head.Get("ETag") == "" ||
		got.head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q %v", got.body, got.head)
	}
	for request, want := range map[string]string{"?offset=4": all[4:], "?offset=99999": "",
		"?step=0": all[:4], "?step=0&offset=1": all[1:4]} {
		if got := w.do("GET", path+request, ""); got.body != want || got.status != 200 {
			t.Errorf("%s: %d %q", request, got.status, got.body)
		}
	}
	if got := w.do("GET", path, "", "Range", "bytes=4-6"); got.status != 206 || got.body != all[4:7] {
		t.Errorf("range: %d %q", got.status, got.body)
	}
	if got := w.do("GET", path+"?offset=4", "", "Range", "bytes=-3"); got.body != all[len(all)-3:] {
		t.Errorf("suffix: %d %q", got.status, got.body)
	}
	if got := w.do("GET", path, "", "Range", "bytes=900-"); got.status != 416 ||
		got.info(t).Code != "range_not_satisfiable" || got.head.Get("Content-Range") != "bytes */15" {
		t.Errorf("range behind the end: %d %s", got.status, got.body)
	}
	for _, odd := range []string{"bytes=0-1,4-5", "lines=1-2", "bytes=5-2", "bytes=-", "bytes=x-y", "bytes=+1-2"} {
		if got := w.do("GET", path, "", "Range", odd); got.status != 200 || got.body != all {
			t.Errorf("range %q: %d %q", odd, got.status, got.body)
		}
	}
	if got := w.do("GET", path, "", "Range", "bytes=4-6", "If-Range", `"older"`); got.status != 200 ||
		got.body != all {
		t.Errorf("range of an older log: %d %q", got.status, got.body)
	}
	if got := w.do("HEAD", path, ""); got.body != "" || got.head.Get("Fairlead-Log-Size") == "" {
		t.Errorf("head: %v", got.head)
	}
	if got := w.do("GET", path, "", "If-None-Match", got.head.Get("ETag")); got.status != 304 {
		t.Errorf("unchanged: %d", got.status)
	}
	got = w.do("GET", path+"?download=1", "")
	if got.head.Get("Content-Disposition") != `attachment; filename="`+string(testAttempt)+`.log"` {
		t.Errorf("download: %v", got.head)
	}
	w.logs.set(w.logs.content, false)
	if got := w.do("GET", path, ""); got.head.Get("ETag") != "" || got.head.Get("Fairlead-Log-Sealed") != "false" {
		t.Errorf("a live log: %v", got.head)
	}
	if _, _, _, ok := domain.AttemptID("att_x").Split(); ok {
		t.Fatal("the test's malformed id is well formed")
	}
}

func TestARawLogThatBreaksIsNotTakenForTheWhole(t *testing.T) {
	w := newWorld(t)
	w.logs.broken = true
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		w.http.URL+"/api/v1/attempts/"+string(testAttempt)+"/log", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	response, err := w.http.Client().Do(request)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil || !strings.Contains(w.log.String(), "bad sector") {
		t.Errorf("a cut log reads as whole: %v", err)
	}
}
