package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
)

// garbage is what a webhook that lost its way, or somebody with bad intentions, sends.
func garbage() map[string][]byte {
	noise := make([]byte, 64<<10)
	source := rand.NewChaCha8([32]byte{7})
	_, _ = source.Read(noise)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte("0"), 32<<20)) // a bomb: 32 MiB in 32 KiB
	_ = z.Close()
	return map[string][]byte{
		"nothing":        {},
		"noise":          noise,
		"deep json":      []byte(strings.Repeat(`{"run":[`, 50000)),
		"deep list":      []byte(strings.Repeat(`[`, 200000)),
		"truncated":      []byte(`{"repository":"app","inputs":{"a":`),
		"nul":            []byte("{\"repository\":\"a\x00b\"}"),
		"bad utf8":       []byte("{\"repository\":\"\xff\xfe\"}"),
		"wide numbers":   []byte(`{"limit":1e999999999,"ttl_seconds":99999999999999999999}`),
		"webhook":        []byte(`{"ref":"refs/heads/main","commits":[{"id":"1"}],"repository":{"full_name":"a/b"}}`),
		"form":           []byte("payload=%7B%22ref%22%3A%22x%22%7D&%zz=%"),
		"truncated gzip": zipped.Bytes()[:100],
		"gzip bomb":      zipped.Bytes(),
		"envelopes":      bytes.Repeat([]byte{0, 0xff, 0xff, 0xff, 0xff}, 1000),
		"huge":           bytes.Repeat([]byte(`{"a":"b"}`), 480000),
	}
}

var garbageTypes = []struct{ contentType, encoding string }{
	{"application/json", ""}, {"application/json", "gzip"}, {"application/proto", ""}, {"application/proto",
		"gzip"},
	{"application/connect+json", ""}, {"application/grpc-web+proto", ""}, {"application/grpc", ""},
	{"application/x-www-form-urlencoded", ""}, {"multipart/form-data; boundary=x", ""}, {"", ""},
	{"application/json", "br"}, {strings.Repeat("x", 1000), strings.Repeat("y", 1000)},
}

// TestGarbageToEveryEndpoint sends every kind of garbage to every route, as somebody who
// may do everything, so that the garbage gets as far as it can.
// Promises: [ACC-11].
func TestGarbageToEveryEndpoint(t *testing.T) {
	w := newWorld(t)
	bodies := garbage()
	for _, route := range w.server.Routes() {
		method, path, both := strings.Cut(route.Pattern, " ")
		if !both {
			method, path = http.MethodPost, route.Pattern
		}
		for _, variable := range pathVariable().FindAllString(path, -1) {
			path = strings.Replace(path, variable, "%00%ff%20..%2f..", 1)
		}
		for name, body := range bodies {
			// Every body with two content types keeps this quick; over all routes every pair is met.
			tries := 2
			if len(body) > 1<<20 {
				tries = 1
			}
			for i := range tries {
				kind := garbageTypes[(len(name)+len(route.Pattern)+i*5)%len(garbageTypes)]
				w.throw(method, path, name, body, kind.contentType, kind.encoding)
			}
			if method != http.MethodPost && len(body) < 1<<20 {
				w.throw(http.MethodPost, path, name, body, "application/json", "")
			}
		}
	}
	if log := w.log.String(); strings.Contains(log, "panicked") || strings.Contains(log, "request broke") {
		t.Errorf("garbage broke something: %s", log[max(len(log)-4000, 0):])
	}
}

// throw sends garbage and requires a clear answer: no fault, and a code where JSON is due.
func (w *world) throw(method, path, name string, body []byte, contentType, encoding string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	request.Header.Set("Idempotency-Key", "garbage")
	request.Header.Set("Content-Type", contentType)
	if encoding != "" {
		request.Header.Set("Content-Encoding", encoding)
	}
	got := w.send(request)
	if got.status >= 500 && got.status != http.StatusNotImplemented {
		w.t.Errorf("%s %s with %s as %q: %d %.200s", method, path, name, contentType, got.status, got.body)
	}
	if strings.HasPrefix(path, "/api/v1/") && got.status >= 400 &&
		got.status != http.StatusRequestedRangeNotSatisfiable {
		var info struct{ Code, Message, Request string }
		if err := json.Unmarshal([]byte(got.body), &info); err != nil || info.Code == "" ||
			info.Message == "" || info.Request == "" {
			w.t.Errorf("%s %s with %s as %q: %d and no clear answer: %.200q", method, path, name, contentType,
				got.status, got.body)
		}
	}
}

// FuzzRequests sends any body to the two ways in: a REST path and an RPC.
func FuzzRequests(f *testing.F) {
	for _, body := range garbage() {
		f.Add(body[:min(len(body), 4096)], "application/json", "")
	}
	f.Add([]byte(`{"run":"x"}`), "application/proto", "gzip")
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, body []byte, contentType, encoding string) {
		for _, path := range []string{
			"/api/v1/runs", "/api/v1/lint", fairleadv1connect.RunServiceCreateRunProcedure,
			fairleadv1connect.RunServiceWatchRunProcedure, runnerv1connect.RunnerServiceExchangeProcedure,
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+w.token)
			request.Header.Set("Idempotency-Key", "fuzz")
			request.Header.Set("Content-Type", contentType)
			request.Header.Set("Content-Encoding", encoding)
			out := &recorded{head: http.Header{}}
			w.server.ServeHTTP(out, request)
			if out.status >= 500 && out.status != http.StatusNotImplemented {
				t.Fatalf("%s: %d %.300s", path, out.status, out.body.String())
			}
		}
	})
}

// FuzzQuery sends any query to a path with many parameters.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "limit=1", "limit=%", "a=b;c", "limit=1&limit=2", "%00=%ff",
		"run=x&timeline=T"} {
		f.Add(seed)
	}
	w := newWorld(f)
	f.Fuzz(func(t *testing.T, query string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.URL.RawQuery = query
		request.Header.Set("Authorization", "Bearer "+w.token)
		out := &recorded{head: http.Header{}}
		w.server.ServeHTTP(out, request)
		if out.status >= 500 || !json.Valid(out.body.Bytes()) {
			t.Fatalf("%q: %d %s", query, out.status, out.body.String())
		}
	})
}

// recorded is a response writer that can flush.
type recorded struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

func (r *recorded) Header() http.Header { return r.head }

func (r *recorded) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorded) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

func (r *recorded) Flush() {}
