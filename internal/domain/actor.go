package domain

import "time"

// Actor is who asked, and how we know.
type Actor struct {
	// Kind is "user", "token", "runner", "reactor", "timer", "reconciler" or "source".
	Kind string `json:"kind"`
	// ID is opaque within the kind; for a reactor or a timer it is its name.
	ID string `json:"id"`
	// Via says how the actor authenticated: "admin_token", "session_cookie",
	// "attempt_token", "runner_session", "internal".
	Via string `json:"via,omitempty"`
}

// Cause is carried by every accepted command and stored beside its events.
type Cause struct {
	Actor   Actor     `json:"actor"`
	Request string    `json:"request,omitempty"` // request id, for correlation with logs
	Policy  string    `json:"policy,omitempty"`  // policy version that admitted it
	At      time.Time `json:"at"`                // time of the decision, UTC
}
