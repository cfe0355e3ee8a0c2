// Package cron is the language of schedules: five fields that say at which minutes of which
// days something is due, and when that is in a time zone whose clocks are set twice a year.
//
// It deliberately knows no clock and loads no time zone: who asks brings both. It starts
// nothing either; see internal/core/repository for what follows from an occurrence.
//
// Invariants: the same spec, location and time give the same occurrence; occurrences go up
// strictly in time, and no two have one id; a wall time that a change of the clocks leaves out or
// repeats is due exactly once, unless the spec is of every hour.
//
// Read next: spec.go, next.go
package cron
