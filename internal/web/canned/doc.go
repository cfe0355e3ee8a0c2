// Package canned is a small world of runs, runners and logs in every state that a page
// can show, behind the same handler interfaces as the real server: the gallery serves
// it, and the golden pages are made from it.
//
// It is deliberately no model of the engine: nothing here decides, schedules or waits.
// An action changes the one thing that its page is to show, and a run that is told to
// play goes through prepared states, so that live pages can be looked at.
//
// Invariants: the same time gives the same world, byte for byte; identifiers are well
// formed; every message is one that the real server could send.
//
// Read next: internal/web/canned/states.go
package canned
