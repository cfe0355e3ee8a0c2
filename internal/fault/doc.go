// Package fault makes ports fail, one call at a time: a wrapper stands before every port that
// the server and the runner have, and a Plan says that the k-th call that can fail in some
// way does so, once or from then on. Its tests sweep: k = 1, 2, 3 … until a pass in which
// nothing was left to fail, over a whole server and over a runner's attempt, and look
// afterwards at everything that was acknowledged.
//
// It deliberately is no simulation: there is one server, time passes without adventures, and
// at most one thing goes wrong. What many things going wrong at once lead to is asked by
// internal/sim; here every single call is asked about, none is left out by chance.
//
// Invariants: a wrapper changes nothing but the calls that the plan strikes; a call that is
// struck before its effect has none, one that is struck after it has all of it; every error
// that is made here wraps ErrInjected, so nobody takes it for another one.
//
// Read next: plan.go, then the sweep in sweep_test.go and the world in world_test.go
package fault
