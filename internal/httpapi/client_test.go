package httpapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-ci/fairlead/api/client"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// TestTheClientGoesOnWhenTheServerRestarts cuts every connection of a client that follows a
// run and a log, as kill -9 does, and brings the server back on the same address.
func TestTheClientGoesOnWhenTheServerRestarts(t *testing.T) {
	w := newWorld(t)
	w.logs.set(w.logs.content, false)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	first := w.server.HTTPServer()
	go func() { _ = first.Serve(listener) }()
	c, err := client.New("http://"+address, domain.NewSecret(w.token), client.Options{Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	created, err := c.Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{Title: "t"})
	if err != nil || created.GetRun().GetRun() != string(testRun) {
		t.Fatalf("create: %v %v", created, err)
	}
	versions := make(chan uint64, 10)
	runDone, logDone := make(chan error, 1), make(chan error, 1)
	go func() {
		runDone <- c.FollowRun(t.Context(), &fairleadv1.WatchRunRequest{Run: string(testRun)},
			func(r *fairleadv1.GetRunResponse) error { versions <- r.GetRun().GetVersion(); return nil })
	}()
	var log bytes.Buffer
	began := make(chan struct{}, 10)
	go func() {
		_, err := c.FollowLog(t.Context(), &fairleadv1.FollowLogRequest{Attempt: string(testAttempt)},
			func(content []byte, _ int64) error { log.Write(content); began <- struct{}{}; return nil })
		logDone <- err
	}()
	<-versions
	<-began
	_ = first.Close() // every connection is cut
	w.logs.set(append(bytes.Clone(w.logs.content), "more\n"...), true)
	w.runs.change("success")
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	second := w.server.HTTPServer()
	go func() { _ = second.Serve(again) }()
	defer func() { _ = second.Close() }()
	if err := <-runDone; err != nil || <-versions != 2 {
		t.Errorf("follow run: %v", err)
	}
	if err := <-logDone; err != nil || log.String() != string(w.logs.content) {
		t.Errorf("follow log: %v, got %q", err, log.String())
	}
}

func TestTheClientReadsRefusalsAndRawLogs(t *testing.T) {
	w := newWorld(t)
	c, err := client.New(w.http.URL, domain.NewSecret(w.token), client.Options{Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Runs.CreateRun(t.Context(), &fairleadv1.CreateRunRequest{Workflow: "several"})
	if answer := client.Refusal(err); answer.GetCode() != "workflow_ambiguous" || len(answer.GetChoices()) != 2 {
		t.Errorf("got %v", err)
	}
	body, err := c.RawLog(t.Context(), string(testAttempt), -1, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	if content, err := io.ReadAll(body); err != nil || string(content) != string(w.logs.content[4:]) {
		t.Errorf("raw log: %q %v", content, err)
	}
	if _, err := c.RawLog(t.Context(), "att_x", -1, 0); client.Refusal(err).GetCode() != "not_found" {
		t.Errorf("got %v", err)
	}
}

// deadlines is a connection that notes the deadlines it is given.
type deadlines struct {
	recorded
	read []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error { d.read = append(d.read, at); return nil }

func (d *deadlines) SetWriteDeadline(time.Time) error { return nil }

func TestABodyHasADeadlineAndAPollAfterItHasNone(t *testing.T) {
	w := newWorld(t)
	out := &deadlines{recorded: recorded{head: http.Header{}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/lint", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	request.Header.Set("Content-Type", "application/json")
	w.server.ServeHTTP(out, request)
	if out.status != 200 || len(out.read) < 2 || out.read[0].IsZero() || !out.read[len(out.read)-1].IsZero() {
		t.Errorf("%d %s: deadlines %v; want one while the body comes and none after", out.status, out.body.String(), out.read)
	}
}

// TestASlowBodyIsCutOff sends a header that promises a body, and no body: with the deadline
// that the server set made to pass, the request ends with a refusal.
// Promises: [ACC-11].
func TestASlowBodyIsCutOff(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &deadlines{recorded: recorded{head: http.Header{}}}
	body, feed := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/lint", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.token)
	request.Header.Set("Content-Type", "application/json")
	go func() {
		_, _ = feed.Write([]byte(`{"text":`))
		_ = feed.CloseWithError(context.DeadlineExceeded) // what a passed deadline reads as
	}()
	w.server.ServeHTTP(out, request)
	if out.status != 400 || !strings.Contains(out.body.String(), "ended before it was complete") {
		t.Errorf("%d %s", out.status, out.body.String())
	}
}
