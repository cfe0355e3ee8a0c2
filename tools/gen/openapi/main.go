// Command openapi finishes the OpenAPI document that protoc-gen-openapiv3 makes from the
// contract: it gives properties the names that the server writes (those of the .proto),
// adds what annotations can't say (the idempotency key, refusals, security), and the
// endpoints that are streams or raw bytes.
//
// It deliberately invents no path that the contract has: an RPC appears here because its
// annotation says so, and a test of internal/httpapi compares both directions.
//
// Invariants: the same input gives the same bytes; nothing is read but the generator's
// output folder named by the only argument.
//
// Read next: tools/gen/gen.sh
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// object is a JSON object; encoding/json writes its keys in order.
type object = map[string]any

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: openapi FOLDER")
		os.Exit(2)
	}
	document, err := load(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
	rename(document)
	describe(document)
	for _, path := range document["paths"].(object) {
		for method, operation := range path.(object) {
			finish(method, operation.(object))
		}
	}
	addStreams(document)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(document); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

// load reads the one document below folder.
func load(folder string) (object, error) {
	files, err := filepath.Glob(filepath.Join(folder, "fairlead", "v1", "*.json"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("find document in %s: %d files: %w", folder, len(files), err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	document := object{}
	return document, json.Unmarshal(content, &document)
}

// rename turns the names of properties and query parameters into those of the .proto.
func rename(node any) {
	switch node := node.(type) {
	case object:
		if properties, ok := node["properties"].(object); ok {
			renamed := object{}
			for name, schema := range properties {
				renamed[snake(name)] = schema
			}
			node["properties"] = renamed
		}
		if name, ok := node["name"].(string); ok && node["in"] != nil {
			node["name"] = snake(name)
		}
		for _, child := range node {
			rename(child)
		}
	case []any:
		for _, child := range node {
			rename(child)
		}
	}
}

// snake inverts the JSON mapping of protobuf: the contract's names are lower case with
// single underscores, so the way back is unambiguous.
func snake(name string) string {
	var out strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

func describe(document object) {
	document["info"] = object{
		"title":   "Fairlead",
		"version": "v1",
		"description": "Everything a person, a script or the pages can ask of Fairlead. The same procedures " +
			"are served as Connect, gRPC and gRPC-Web under /fairlead.v1.*/; see docs/reference/api.md.",
		"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
	}
	document["security"] = []any{object{"token": []any{}}, object{"session": []any{}}}
	components := document["components"].(object)
	components["securitySchemes"] = object{
		"token": object{"type": "http", "scheme": "bearer"},
		"session": object{"type": "apiKey", "in": "cookie", "name": "fairlead_session",
			"description": "A browser's session; accepted for reads only. The name has a suffix per server."},
	}
	components["schemas"].(object)["fairlead.v1.ErrorInfo"] = object{
		"type":        "object",
		"description": "A refusal. code is one of docs/reference/errors.md and never changes its meaning.",
		"required":    []any{"code", "message", "request"},
		"properties": object{
			"code":    object{"type": "string"},
			"message": object{"type": "string", "description": "One sentence for a person."},
			"field":   object{"type": "string", "description": "The offending field, when there is one."},
			"request": object{"type": "string", "description": "The request's id, as in the server's log."},
			"diagnostics": object{"type": "array",
				"items": object{"$ref": "#/components/schemas/fairlead.v1.Diagnostic"}},
			"choices": object{"type": "array", "items": object{"type": "string"}},
		},
	}
	components["parameters"] = object{
		"idempotency_key": object{
			"name": "Idempotency-Key", "in": "header", "required": true,
			"description": "1 to 256 printable ASCII characters. The same key with the same body acts once " +
				"and answers the same; with another body it is refused as idempotency_mismatch.",
			"schema": object{"type": "string", "minLength": 1, "maxLength": 256},
		},
	}
}

// finish adds to an operation what holds for all of its kind.
func finish(method string, operation object) {
	id, _ := operation["operationId"].(string)
	if method != "get" && id != "WorkflowService_Lint" {
		parameters, _ := operation["parameters"].([]any)
		operation["parameters"] = append(parameters, object{"$ref": "#/components/parameters/idempotency_key"})
	}
	refuse(operation)
}

func refuse(operation object) {
	operation["responses"].(object)["default"] = object{
		"description": "A refusal, or a fault that names the request.",
		"content": object{"application/json": object{
			"schema": object{"$ref": "#/components/schemas/fairlead.v1.ErrorInfo"}}},
	}
}

// addStreams adds the endpoints that OpenAPI can only describe by their media type.
func addStreams(document object) {
	paths := document["paths"].(object)
	add := func(path, tag, id, summary, media string, parameters ...any) {
		operation := object{
			"tags": []any{tag}, "operationId": id, "summary": summary, "parameters": parameters,
			"responses": object{"200": object{
				"description": "A successful response.",
				"content":     object{media: object{"schema": object{"type": "string"}}},
			}},
		}
		refuse(operation)
		paths[path] = object{"get": operation}
	}
	add("/api/v1/runs/{run}/events", "RunService", "RunEvents",
		"Server-sent events: one message whenever the run changed, and an event named end when it concluded.",
		"text/event-stream", inPath("run"),
		query("full", "boolean", "Send the whole run instead of its summary."),
		query("timeline", "boolean", "With full: the timeline too."))
	add("/api/v1/attempts/{attempt}/log/events", "LogService", "LogEvents",
		"Server-sent events: the log's bytes as they come (base64), and an event named end when it is sealed.",
		"text/event-stream", inPath("attempt"),
		query("offset", "integer", "The first byte wanted; Last-Event-ID counts when it is larger."),
		query("step", "integer", "Only this step's bytes; offset counts within the step."))
	add("/api/v1/attempts/{attempt}/log", "LogService", "RawLog",
		"The log byte for byte. Range requests are honoured.",
		"text/plain", inPath("attempt"),
		query("step", "integer", "Only this step's bytes."),
		query("offset", "integer", "Leave out that many bytes at the start."),
		query("download", "boolean", "Suggest a file name."))
}

func inPath(name string) object {
	return object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}}
}

func query(name, kind, means string) object {
	schema := object{"type": kind}
	if kind == "integer" {
		schema["minimum"] = 0
	}
	return object{"name": name, "in": "query", "description": means, "schema": schema}
}
