package httpapi

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/fairlead-ci/fairlead/api"
	"github.com/fairlead-ci/fairlead/internal/credential"
	"github.com/fairlead-ci/fairlead/internal/domain"
)

var rewrite = flag.Bool("rewrite", false, "write the generated pages of the reference")

// TestEveryRoutePassesTheAuthorisationPoint refuses everything at the one point and sends
// every route a request: whatever doesn't answer with that refusal went around it.
// Promises: [ACC-1].
func TestEveryRoutePassesTheAuthorisationPoint(t *testing.T) {
	var mu sync.Mutex
	asked := map[Action]int{}
	closed := domain.Reject(domain.CodeTierNotAccepted, "closed by the test")
	w := newWorld(t, func(cfg *Config) {
		cfg.Access = func(_ context.Context, _ credential.Principal, a Action, _ Resource) *domain.Rejection {
			mu.Lock()
			defer mu.Unlock()
			asked[a]++
			return closed
		}
	})
	if len(w.server.Routes()) < 40 {
		t.Fatalf("only %d routes", len(w.server.Routes()))
	}
	for _, route := range w.server.Routes() {
		if route.Action == "" {
			t.Errorf("route %s has no action", route.Pattern)
		}
		method, path, both := strings.Cut(route.Pattern, " ")
		if !both {
			method, path = "POST", route.Pattern
		}
		for _, variable := range pathVariable().FindAllString(path, -1) {
			path = strings.Replace(path, variable, "x", 1)
		}
		mu.Lock()
		before := asked[route.Action]
		mu.Unlock()
		contentType := "application/json"
		if strings.Contains(path, "Watch") || strings.Contains(path, "Follow") {
			contentType = "application/connect+json"
		}
		got := w.do(method, path, "{}", "Idempotency-Key", "k", "Content-Type", contentType)
		mu.Lock()
		after := asked[route.Action]
		mu.Unlock()
		if after == before {
			t.Errorf("route %q did not ask for %s (answered %d)", route.Pattern, route.Action, got.status)
		}
		if contentType == "application/json" && got.status != 403 {
			// Streams of Connect say it in their last envelope instead.
			t.Errorf("route %q was refused and answered %d %s", route.Pattern, got.status, got.body)
		}
	}
}

// Promises: [FORMAT-7].
func TestEveryProcedureOfTheContractIsServedAndHasAnAction(t *testing.T) {
	w := newWorld(t)
	served := map[string]bool{}
	for spec := range w.server.rpc.Specs() {
		served[spec.Procedure] = true
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "fairlead.") {
			return true
		}
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				procedure := fmt.Sprintf("/%s/%s", service.FullName(), method.Name())
				op, ok := operations[procedure]
				if !ok || op.action == "" {
					t.Errorf("%s has no action", procedure)
				}
				if op.field != "" && method.Input().Fields().ByName(protoreflect.Name(op.field)) == nil {
					t.Errorf("%s: its message has no field %s", procedure, op.field)
				}
				if !served[procedure] {
					t.Errorf("%s is not served", procedure)
				}
			}
		}
		return true
	})
}

// TestOpenAPIDescribesExactlyTheRESTPaths compares both directions.
// Promises: [FORMAT-7].
func TestOpenAPIDescribesExactlyTheRESTPaths(t *testing.T) {
	var document struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Parameters  []struct {
				Ref string `json:"$ref"`
			} `json:"parameters"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(api.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Errorf("version %q", document.OpenAPI)
	}
	described := map[string]bool{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			described[strings.ToUpper(method)+" "+path] = true
			keyed := slices.ContainsFunc(operation.Parameters, func(p struct {
				Ref string `json:"$ref"`
			}) bool {
				return strings.HasSuffix(p.Ref, "/idempotency_key")
			})
			if write := method != "get" && operation.OperationID != "WorkflowService_Lint"; write != keyed {
				t.Errorf("%s %s: idempotency key described: %v", method, path, keyed)
			}
		}
	}
	for _, route := range newWorld(t).server.Routes() {
		if strings.Contains(route.Pattern, "/api/v1/") && !described[route.Pattern] {
			t.Errorf("%s is served and not described", route.Pattern)
		}
		delete(described, route.Pattern)
	}
	for pattern := range described {
		t.Errorf("%s is described and not served", pattern)
	}
}

// Promises: [FORMAT-9].
func TestEveryCodeHasAStatus(t *testing.T) {
	fallback := statusOf("no such code")
	for _, entry := range domain.Codes() {
		code := string(entry.Code)
		got := statusOf(code)
		if _, listed := statuses[code]; !listed && got != fallback {
			t.Errorf("%s: %v", code, got)
		}
		if got.http < 400 || got.http == 500 {
			t.Errorf("%s is a refusal and answers %d", code, got.http)
		}
	}
	for _, entry := range TransportCodes() {
		if _, listed := statuses[entry.Code]; !listed {
			t.Errorf("%s has no status", entry.Code)
		}
	}
}

// TestErrorReference keeps docs/reference/errors.md to what the code says.
func TestErrorReference(t *testing.T) {
	var page strings.Builder
	page.WriteString(strings.ReplaceAll(errorPage, "'", "`"))
	row := func(code, means string) {
		s := statusOf(code)
		fmt.Fprintf(&page, "| `%s` | %s | %d | `%s` |\n", code, means, s.http, s.rpc)
	}
	for _, entry := range domain.Codes() {
		row(string(entry.Code), entry.Means)
	}
	page.WriteString("\n## Transport\n\nThese come from the way to the server, or from inside it.\n\n" +
		"| code | means | REST | RPC |\n| --- | --- | --: | --- |\n")
	for _, entry := range TransportCodes() {
		row(entry.Code, entry.Means)
	}
	page.WriteString(strings.ReplaceAll(errorPageEnd, "'", "`"))
	path := filepath.Join("..", "..", "docs", "reference", "errors.md")
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != page.String() {
		t.Errorf("%s differs from the code (%v): run this test with -rewrite", path, err)
	}
}

// errorPageEnd is of codes that no server answers with: cmd/fairlead and internal/cli say them.
const errorPageEnd = `
## Of the command line alone

The program says these by itself, of what it found on its own machine, with exit code 3. The last three
are said by 'admin backup --base' too.

| code | means | said by 'fairlead' |
| --- | --- | --- |
| 'advertise_unreachable' | The server does not find itself at '--advertise', so it did not join. | 'server' |
| 'nothing_missing' | The partition does not stand still; '--anyway' records a loss anyhow. | 'admin accept-loss' |
| 'in_use' | Another process holds the data folder. | 'admin restore', 'admin rebuild-projections' |
| 'not_empty' | Something is where a backup was to be made or restored. | 'admin backup', 'admin restore' |
| 'backup_incomplete' | The folder is no backup, or one without an end. | 'admin restore', 'admin verify' |
| 'backup_damaged' | The bytes of the backup are not those that were written. | 'admin restore', 'admin verify' |
| 'backup_newer' | A later version of the program wrote the backup. | 'admin restore', 'admin verify' |
`

const errorPage = `# Codes of refusals

This page is generated from the code ('go test ./internal/httpapi -run TestErrorReference -rewrite').

A code is stable: it never changes its meaning, and it is what scripts should look at. It comes as 'code' in the
JSON body on REST paths, and in the error detail 'fairlead.v1.ErrorInfo' on Connect, gRPC and gRPC-Web. The numbers
are for programs that know nothing of Fairlead: "REST" is the HTTP status on REST paths, "RPC" the code of the RPC
protocols.
A code that is not listed here is new: treat it by its status.

## Refusals

The request was understood, and nothing happened.

| code | means | REST | RPC |
| --- | --- | --: | --- |
`
