// Package supervisor is the process that owns one attempt: it prepares the sandbox,
// runs the job, spools what the job has to say, and outlives the runner that started
// it, so that a restart of the runner costs nobody a job.
//
// It is deliberately cut off from the server: leases, uploads and acknowledgements are
// the runner's, and reach it over a socket in the attempt's folder. Only the checkout
// goes to the server, with the attempt's own token, which is handed over in memory and
// never written down.
//
// It may be started before there is an attempt for it; then it starts what it can for
// nobody, and waits for its order. When nothing of that attempt is left, it may be had wait
// for another.
//
// Invariants: without an extension the job is dead before abandonBy, judged by a clock
// that counts suspended time; the result is spooled only after every process of the job
// is gone; the attempt's folder holds no secret; whoever finds the folder can tell a
// supervisor that lives, one that finished and one that died; one that waits has
// no attempt's token, folder or connection, and ends with its runner; no process has two attempts at a time, nor a
// second one after a first that did not come to an end of its own.
//
// Read next: order.go, main.go, warm.go, client_exec.go
package supervisor
