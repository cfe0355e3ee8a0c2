// Package credential makes, keeps and checks everything that proves who somebody is: the
// administrator's token, sign-in codes and sessions, tokens of attempts, registration
// tokens of runners, the keys that sign manifests, and those that prove acknowledgements. It
// also says where the server may listen without TLS.
//
// It deliberately decides no permission (that is the one authorisation point of httpapi),
// knows no HTTP, and stores no secret of a workflow.
//
// Invariants: a secret leaves this package once, when it is made; what is kept to compare
// with is a digest, and comparing takes the same time whatever was sent. Files with
// secrets are 0600 in folders that are 0700, written whole or not at all; a file that
// others can read is refused, not used. A signing key is published before it signs and
// verifies after it stopped.
//
// Read next: internal/credential/gate.go
package credential
