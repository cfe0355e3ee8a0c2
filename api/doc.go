// Package api is the promise to the outside: the contract in fairlead/**/*.proto, the Go
// types and bindings made from it, and the OpenAPI document of its REST paths.
//
// It is deliberately without behaviour. Nothing of core goes over a wire unconverted, so
// these types are not the ones that the server decides with.
//
// Invariants: changes are additive, by comparison with every contract in frozen
// (tools/gen/gen.sh --lint, and a test); what is generated is committed, so a clean clone
// builds without generators.
//
// Read next: api/fairlead/v1/fairlead.proto
package api

import _ "embed"

// OpenAPI is the OpenAPI 3.1 document of the REST paths.
//
//go:embed openapi.json
var OpenAPI []byte
