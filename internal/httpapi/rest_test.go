package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/fairlead-ci/fairlead/api/fairlead/runner/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/runner/v1/runnerv1connect"
	fairleadv1 "github.com/fairlead-ci/fairlead/api/fairlead/v1"
	"github.com/fairlead-ci/fairlead/api/fairlead/v1/fairleadv1connect"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

// Promises: [FORMAT-6].
func TestTheSameWishIsTheSameOverEveryProtocol(t *testing.T) {
	w := newWorld(t)
	const body = `{"repository":"app","commit":"c7","inputs":{"b":"2","a":"1"}}`
	got := w.do("POST", "/api/v1/runs", body, "Idempotency-Key", "k1")
	if got.status != 200 || !strings.Contains(got.body, `"repeat":false`) ||
		!strings.Contains(got.body, `"number":"1152921504606846976"`) {
		t.Fatalf("rest: %d %s", got.status, got.body)
	}
	got = w.do("POST", fairleadv1connect.RunServiceCreateRunProcedure,
		`{"commit":"c7","repository":"app","inputs":{"a":"1","b":"2"}}`,
		"Idempotency-Key", "k1")
	if got.status != 200 || !strings.Contains(got.body, `"repeat":true`) {
		t.Fatalf("connect json: %d %s", got.status, got.body)
	}
	request := &fairleadv1.CreateRunRequest{Repository: "app", Commit: "c7",
		Inputs: map[string]string{"a": "1", "b": "2"}}
	for _, options := range [][]connecthttp.Option{nil, {connecthttp.WithSendGzip()}, {connecthttp.WithGRPCWeb()}} {
		runs := fairleadv1connect.NewRunServiceClient(w.client(options...))
		response, err := runs.CreateRun(as(t.Context(), w.token, "k1"), request)
		if err != nil || !response.GetRepeat() || response.GetRun().GetRun() != string(testRun) {
			t.Fatalf("protobuf: %v %v", response, err)
		}
	}
	got = w.do("POST", "/api/v1/runs", `{"repository":"other","commit":"c7"}`, "Idempotency-Key", "k1")
	if got.status != 409 || got.info(t).Code != "idempotency_mismatch" {
		t.Fatalf("another body: %d %s", got.status, got.body)
	}
	if actor := w.runs.cause.Actor; actor != (domain.Actor{Kind: "token", ID: "admin", Via: "admin_token"}) ||
		!domain.ValidID(domain.PrefixRequest, w.runs.cause.Request) {
		t.Errorf("cause %+v", w.runs.cause)
	}
}

func TestDigestTellsEveryFieldApart(t *testing.T) {
	seen := map[domain.Digest]string{}
	for _, m := range []proto.Message{
		&fairleadv1.CreateRunRequest{},
		&fairleadv1.CreateRunRequest{Repository: "a"},
		&fairleadv1.CreateRunRequest{Commit: "a"},
		&fairleadv1.CreateRunRequest{Repository: "a", Commit: "a"},
		&fairleadv1.CreateRunRequest{Captured: true},
		&fairleadv1.CreateRunRequest{Inputs: map[string]string{"a": "b"}},
		&fairleadv1.CreateRunRequest{Inputs: map[string]string{"ab": ""}},
		&fairleadv1.CreateRunRequest{Inputs: map[string]string{"a": "", "b": ""}},
		&fairleadv1.RerunRunRequest{Run: "a"},
		&fairleadv1.CancelRunRequest{Run: "a"},
		&fairleadv1.LintResponse{Diagnostics: []*fairleadv1.Diagnostic{{Line: 1}, {}}},
		&fairleadv1.LintResponse{Diagnostics: []*fairleadv1.Diagnostic{{}, {Line: 1}}},
		&runnerv1.Chunk{Data: []byte("x"), Checksum: 1},
	} {
		digest := digestOf(m)
		if digest != digestOf(proto.Clone(m)) {
			t.Errorf("%v: two digests", m)
		}
		if other, ok := seen[digest]; ok {
			t.Errorf("%v and %v have the same digest", m, other)
		}
		seen[digest] = string(m.ProtoReflect().Descriptor().Name())
	}
	// Keys outlive builds of this program: the form may never change.
	const fixed = "sha256:8937dc2a211f315b2c08f346fd1f28fe8d16ffc8e6785fb449684a27cfc6ba99"
	if got := digestOf(&fairleadv1.RerunRunRequest{Run: "run_1", Mode: "all"}); got != fixed {
		t.Errorf("digest of a fixed request is %s", got)
	}
}

// Promises: [CMD-7].
func TestWritesNeedAKey(t *testing.T) {
	w := newWorld(t)
	for _, key := range []string{"", strings.Repeat("k", 257), "caf\u00e9"} {
		got := w.do("POST", "/api/v1/runs", `{}`, "Idempotency-Key", key)
		if info := got.info(t); got.status != 400 || info.Code != "invalid_argument" ||
			info.Field != "Idempotency-Key" {
			t.Errorf("key %.10q: %d %s", key, got.status, got.body)
		}
	}
	for _, key := range []string{"a", strings.Repeat("k", 256), "with space ~!"} {
		if got := w.do("POST", "/api/v1/runs", `{}`, "Idempotency-Key", key); got.status != 200 {
			t.Errorf("key %.10q: %d %s", key, got.status, got.body)
		}
	}
	if got := w.do("POST", "/api/v1/lint", `{"text":"on: push"}`); got.status != 200 {
		t.Errorf("lint changes nothing and asked for a key: %s", got.body)
	}
	if got := w.do("DELETE", "/api/v1/runners/rnr_1", "", "Idempotency-Key", "k"); got.status != 200 ||
		got.body != "{}\n" {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
}

func TestQueriesAreStrict(t *testing.T) {
	w := newWorld(t)
	if got := w.do("GET", "/api/v1/runs?repository=app&limit=7", ""); !strings.Contains(got.body,
		`"next":"app/7"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.do("GET", "/api/v1/repositories/owner%2Fapp", ""); !strings.Contains(got.body,
		`"name":"owner/app"`) {
		t.Errorf("an escaped name: %d %s", got.status, got.body)
	}
	for path, field := range map[string]string{
		"/api/v1/runs?limit=many": "limit", "/api/v1/runs?limit=99999999999": "limit",
		"/api/v1/runs?colour=red":      "colour",
		"/api/v1/runs?limit=1&limit=2": "limit", "/api/v1/runs?ref=%ff": "ref", "/api/v1/runs/x?run=y": "run",
		"/api/v1/runs/x?timeline=perhaps": "timeline", "/api/v1/runs?%zz": "",
		"/api/v1/runs/x/events?offset=1": "offset", "/api/v1/attempts/x/log/events?offset=-1": "offset",
		"/api/v1/attempts/x/log?step=1.5": "step", "/api/v1/attempts/x/log?step=99999999999": "step",
	} {
		got := w.do("GET", path, "")
		if info := got.info(t); got.status != 400 || info.Code != "invalid_argument" || info.Field != field {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

func TestBodiesAreStrict(t *testing.T) {
	w := newWorld(t)
	for body, status := range map[string]int{
		`{"repositori":"typo"}`: 400, `{"repository":1}`: 400, `[]`: 400, `{`: 400, `null`: 400, `{} {}`: 400,
		"{\"repository\":\"\xff\"}": 400, `{"run":"x"}`: 400,
	} {
		if got := w.do("POST", "/api/v1/runs", body, "Idempotency-Key", "k"); got.status != status ||
			got.info(t).Code != "invalid_argument" {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
	got := w.do("POST", "/api/v1/runs/run_a/cancellation", `{"run":"run_b"}`, "Idempotency-Key", "k")
	if info := got.info(t); info.Field != "run" {
		t.Errorf("path and body disagree: %s", got.body)
	}
	for _, head := range [][]string{{"Content-Type", "text/plain"}, {"Content-Type", ""},
		{"Content-Encoding", "gzip"}} {
		got := w.do("POST", "/api/v1/runs", `{}`, append(head, "Idempotency-Key", "k")...)
		if got.status != 415 || got.info(t).Code != "unsupported_media_type" {
			t.Errorf("%v: %d %s", head, got.status, got.body)
		}
	}
	got = w.do("POST", "/api/v1/runs", `{"title":"`+strings.Repeat("x", 5<<20)+`"}`, "Idempotency-Key", "k")
	if got.status != 413 || got.info(t).Code != "too_large" {
		t.Errorf("5 MiB: %d %.200s", got.status, got.body)
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/api/v1/nothing", "/api/", "/fairlead.v1.RunService/Nothing",
		"/fairlead.v9.X/Y"} {
		if got := w.do("POST", path, "{}", "Idempotency-Key", "k"); got.status != 404 ||
			got.info(t).Code != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for request, allow := range map[string]string{
		"PUT /api/v1/runs": "GET, POST", "DELETE /api/v1/runs/x": "GET", "PATCH /api/v1/runners/x": "DELETE",
		"PUT " + fairleadv1connect.RunServiceCreateRunProcedure: "POST",
		"GET " + fairleadv1connect.RunServiceCreateRunProcedure: "POST",
		"PUT " + fairleadv1connect.RunServiceGetRunProcedure:    "POST, GET",
	} {
		method, path, _ := strings.Cut(request, " ")
		got := w.do(method, path, "", "Content-Type", "")
		if got.status != 405 || got.info(t).Code != "method_not_allowed" || got.head.Get("Allow") != allow {
			t.Errorf("%s: %d Allow %q %s", request, got.status, got.head.Get("Allow"), got.body)
		}
	}
}

func TestRefusalsAndFaults(t *testing.T) {
	w := newWorld(t)
	for workflow, want := range map[string]struct {
		status int
		code   string
		rpc    connect.Code
	}{
		"broken":  {422, "workflow_invalid", connect.CodeFailedPrecondition},
		"several": {422, "workflow_ambiguous", connect.CodeFailedPrecondition},
		"fault":   {500, "internal", connect.CodeInternal},
		"panic":   {500, "internal", connect.CodeInternal},
		"away":    {503, "unavailable", connect.CodeUnavailable},
		"full":    {507, "storage_full", connect.CodeResourceExhausted},
	} {
		got := w.do("POST", "/api/v1/runs", `{"workflow":"`+workflow+`"}`, "Idempotency-Key", workflow)
		info := got.info(t)
		if got.status != want.status || info.Code != want.code || info.Request != got.head.Get("Fairlead-Request") {
			t.Errorf("%s over REST: %d %s", workflow, got.status, got.body)
		}
		if strings.Contains(got.body, "hunter2") || strings.Contains(got.body, "index out") {
			t.Errorf("%s leaks the inside: %s", workflow, got.body)
		}
		_, err := fairleadv1connect.NewRunServiceClient(w.client()).CreateRun(as(t.Context(), w.token, workflow),
			&fairleadv1.CreateRunRequest{Workflow: workflow})
		answer, ok := answerOf(err)
		if connect.CodeOf(err) != want.rpc || !ok || answer.GetCode() != want.code || answer.GetRequest() == "" {
			t.Errorf("%s over Connect: %v %v", workflow, err, answer)
		}
		if workflow == "broken" && (len(answer.GetDiagnostics()) != 1 ||
			answer.GetDiagnostics()[0].GetLine() != 3) {
			t.Errorf("diagnostics are lost: %v", answer)
		}
		if workflow == "several" && len(answer.GetChoices()) != 2 {
			t.Errorf("choices are lost: %v", answer)
		}
		if want.code == "internal" && !strings.Contains(w.log.String(), info.Request) {
			t.Errorf("%s: the log has no line with %s", workflow, info.Request)
		}
	}
	if strings.Count(w.log.String(), `"request broke"`) != 4 {
		t.Error("a fault is not logged exactly once")
	}
}

// TestMissingAndForbiddenReadTheSame compares what somebody without rights is told about a
// run that exists and one that doesn't, byte for byte.
// Promises: [ACC-2].
func TestMissingAndForbiddenReadTheSame(t *testing.T) {
	w := newWorld(t)
	w.do("POST", "/api/v1/runs", `{}`, "Idempotency-Key", "k")
	token := w.gate.Attempts.Mint(credential.AttemptClaim{Tenant: "tnt_default", Attempt: testAttempt,
		Epoch: 1}).Reveal()
	bare := func(a answer) string { return strings.ReplaceAll(a.body, a.info(t).Request, "") }
	for _, path := range []string{"", "/why", "/events"} {
		there := w.do("GET", "/api/v1/runs/"+string(testRun)+path, "", "Authorization", "Bearer "+token)
		absent := w.do("GET", "/api/v1/runs/run_nothing"+path, "", "Authorization", "Bearer "+token)
		if there.status != 404 || absent.status != 404 || bare(there) != bare(absent) {
			t.Errorf("%s: %d %s and %d %s", path, there.status, there.body, absent.status, absent.body)
		}
	}
	dead := w.gate.Attempts.Mint(credential.AttemptClaim{Tenant: "tnt_default", Attempt: deadAttempt,
		Epoch: 1}).Reveal()
	for _, header := range []string{"", "Bearer wrong", "Bearer " + dead, "Digest x", "Basic !!!"} {
		got := w.do("GET", "/api/v1/runs", "", "Authorization", header)
		if got.status != 401 || got.info(t).Code != "unauthenticated" || got.head.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %d %s", header, got.status, got.body)
		}
	}
}

// Promises: [ACC-9].
func TestRunnersSpeakTheirProtocolAndNothingElse(t *testing.T) {
	w := newWorld(t)
	runner := runnerv1connect.NewRunnerServiceClient(w.client())
	if _, err := runner.Register(t.Context(), &runnerv1.RegisterRequest{}); err != nil {
		t.Errorf("register: %v", err)
	}
	response, err := runner.Exchange(t.Context(), &runnerv1.ExchangeRequest{Session: "ses_1"})
	if err != nil || response.GetToken() != "ses_1" {
		t.Errorf("exchange: %v %v", response, err)
	}
	big := &runnerv1.ExchangeRequest{Session: "ses_1", Chunks: []*runnerv1.Chunk{{Data: make([]byte, 15<<20)}}}
	if _, err := runner.Exchange(t.Context(), big); err != nil {
		t.Errorf("15 MiB of chunks: %v", err)
	}
	big.Chunks[0].Data = make([]byte, 17<<20)
	if _, err := runner.Exchange(t.Context(), big); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("17 MiB of chunks: %v", err)
	}
	if _, err := fairleadv1connect.NewServerServiceClient(w.client()).GetServer(t.Context(),
		&fairleadv1.GetServerRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a credential: %v", err)
	}
}

func TestDrainAnswersLongPolls(t *testing.T) {
	w := newWorld(t)
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		_, err := runnerv1connect.NewRunnerServiceClient(w.client()).Exchange(t.Context(),
			&runnerv1.ExchangeRequest{Session: "s", WaitMs: 45000})
		done <- err
	}()
	<-started
	w.server.Drain()
	if err := <-done; err == nil || errors.Is(err, t.Context().Err()) {
		t.Errorf("got %v", err)
	}
}

func TestAcknowledgementTokensArriveAndAreChecked(t *testing.T) {
	w := newWorld(t)
	token := domain.Token{Partition: "p1", Epoch: 2, Position: 3, Digest: domain.DigestOf(nil)}
	w.do("POST", "/api/v1/runs", `{}`, "Idempotency-Key", "k", "Fairlead-Token", token.String()+", ")
	if len(w.runs.tokens) != 1 || w.runs.tokens[0] != token {
		t.Errorf("tokens %v", w.runs.tokens)
	}
	other := domain.Token{Partition: "p2", Epoch: 1, Position: 9, Digest: domain.DigestOf(nil)}
	const proof = "0123456789abcdef.AAAAAAAAAAAAAAAAAAAAAA"
	for header, want := range map[string]domain.Proof{"p2=" + proof: proof, "p1=x, p2=" + proof + ",": proof,
		"p2": "", "p2=" + proof + "A": "", proof: "", "p3=" + proof: "", "": ""} {
		w.do("POST", "/api/v1/runs", `{}`, "Idempotency-Key", "k", "Fairlead-Token", token.String()+", "+other.String(),
			"Fairlead-Proof", header)
		proved := other
		proved.Proof = want
		if len(w.runs.tokens) != 2 || w.runs.tokens[0] != token || w.runs.tokens[1] != proved {
			t.Errorf("with proofs %q: tokens %v", header, w.runs.tokens)
		}
	}
	for _, wrong := range []string{"x", strings.Repeat(token.String()+",", 17)} {
		if got := w.do("GET", "/api/v1/runs", "", "Fairlead-Token", wrong); got.status != 400 ||
			got.info(t).Field != "Fairlead-Token" {
			t.Errorf("%.20s: %d %s", wrong, got.status, got.body)
		}
	}
}

// A stranger names any session; nothing that comes beside it is compared with the store, for
// the session is checked behind this package.
func TestHeadersOfAStrangersExchangeAreNobodysWord(t *testing.T) {
	var presented []domain.Token
	w := newWorld(t, func(c *Config) {
		c.Present = func(_ context.Context, token domain.Token) error {
			presented = append(presented, token)
			return nil
		}
	})
	token := domain.Token{Partition: "p1", Epoch: 2, Position: 3, Digest: domain.DigestOf(nil)}
	for procedure, body := range map[string]string{
		runnerv1connect.RunnerServiceExchangeProcedure: `{"session":"ses_of_nobody"}`,
		runnerv1connect.RunnerServiceRegisterProcedure: `{}`,
	} {
		got := w.do("POST", procedure, body, "Authorization", "", "Fairlead-Token", token.String())
		if got.status != http.StatusOK || len(presented) != 0 {
			t.Errorf("%s: %d %s, presented %v", procedure, got.status, got.body, presented)
		}
	}
	w.do("GET", "/api/v1/runs", "", "Fairlead-Token", token.String())
	if len(presented) != 1 || presented[0] != token {
		t.Errorf("a client that is known presented %v", presented)
	}
}

func TestPagesGiveTheirKeyToHandlers(t *testing.T) {
	request := &fairleadv1.CancelRunRequest{Run: "run_1"}
	ctx := WithKey(t.Context(), "from-the-form", request)
	if KeyFrom(ctx) != "from-the-form" || BodyDigest(ctx) != digestOf(request) {
		t.Error("key or digest is lost")
	}
}
