// Package telemetry is how an operator sees the server from outside: structured logs,
// metrics in Prometheus' form with the semantic conventions for CI/CD, and traces of
// concluded runs.
//
// It deliberately observes and never decides; it is not the history of a run (that is the
// event log), and a collector that is away slows nothing down.
//
// Invariants: no secret leaves through it; labels have few values (a name that a user may
// choose is one of at most namesMax, all others are "_other"); attributes are bounded;
// the trace of a run has the same ids whenever and wherever it is made.
//
// Read next: internal/telemetry/metric.go
package telemetry
