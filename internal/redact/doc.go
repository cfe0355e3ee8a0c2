// Package redact replaces secrets in text by "***": whole, line by line, in the
// encodings that programs usually print, and when one is split over pieces of output.
//
// It is deliberately not a detector of secrets: it knows only what was registered. It
// can't hide a secret that a job transforms in a way of its own, and no such tool can.
//
// Invariants: what is registered before a byte is written never leaves in the output,
// also across writes; output without secrets passes unchanged, byte for byte; memory is
// bounded by the longest registered form.
//
// Read next: set.go, stream.go
package redact
