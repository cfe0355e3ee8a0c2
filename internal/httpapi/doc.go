// Package httpapi is the server's one HTTP handler: the procedures of the contract over
// Connect, gRPC and gRPC-Web, the same ones over REST paths, server-sent events, raw logs,
// the git endpoint, sign-in, health and the pages behind it.
//
// It deliberately knows nothing of engines and stores: procedures come in as the generated
// handler interfaces, bytes as small interfaces. It renders no page.
//
// Invariants: every route passes authorize, the one authorisation point, before anything
// of the request's body is acted on, and a test enumerates them; every write carries an
// idempotency key; whoever has no right gets the same words whether a thing is missing or
// forbidden; every refusal is an answer with a code, every fault one log line whose request
// id the caller sees; no request can hold a connection, or memory, without bound.
//
// Read next: internal/httpapi/server.go
package httpapi
