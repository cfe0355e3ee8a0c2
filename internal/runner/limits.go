package runner

import "time"

// Protocol is the version of the runner protocol that this package speaks.
const Protocol = 1

// CapacityMax bounds the slots of one runner.
const CapacityMax = 1000

// Limits of the exchange with the server.
const (
	// uploadBytesMax is the most log that one exchange carries.
	uploadBytesMax = 4 << 20
	// uploadCountMax bounds the messages of each kind in one exchange: a server refuses
	// thousands, and a long absence may leave that many tiny chunks.
	uploadCountMax = 1024
	// uploadDelay is how long progress and chunks wait for company. A result does not wait.
	uploadDelay = 40 * time.Millisecond
	// windowBytes is how much of an attempt's log is held in memory while it waits for
	// the server; the rest stays in its spool.
	windowBytes = 8 << 20
	// chunkOverhead is what a chunk takes in memory besides its bytes.
	chunkOverhead = 256
	// batchBytes is how much of a spool is read at a time.
	batchBytes = 1 << 20
	// resendAfter: what was sent but not acknowledged for so long is sent again.
	resendAfter = 5 * time.Second
	// resendSoon is the same once the exchange that brought it was answered without a word
	// of it: the run's partition is changing hands, or the log's place is.
	resendSoon = 500 * time.Millisecond
	// backoffFirst and backoffMax bound the pause after a failed exchange.
	backoffFirst = 100 * time.Millisecond
	backoffMax   = 5 * time.Second
	// vainHeld bounds the pause after declined leases while the runner has work.
	vainHeld = time.Second
	// pollPause is the pause after a poll that came back at once with nothing.
	pollPause = 100 * time.Millisecond
	// dialWait is how long connecting may take: another server of the fleet may be there.
	dialWait = 5 * time.Second
	// callSlack is how much longer than promised an answer may take.
	callSlack = 15 * time.Second
	// forceAfter is the patience with a supervisor beyond the time it needs by itself. It
	// covers killing everything; a supervisor that takes longer is stopped or stuck.
	forceAfter = 35 * time.Second
	// farewellPatience bounds the last exchange of a runner that was told to end.
	farewellPatience = 2 * time.Second
	// answerBytesMax bounds an answer of the server: a few manifests.
	answerBytesMax = 64 << 20
	// offersPerBoot: offer numbers of one process of the runner; the next starts above.
	offersPerBoot = 1_000_000_000
)

// Limits of what is started ahead.
const (
	// warmMax bounds the supervisors that wait for an attempt: one is used while the next
	// is made; more only help bursts, and each holds memory.
	warmMax = 2
	// warmAge is when one that waits is made anew.
	warmAge = 10 * time.Minute
	// warmMemoryMin: with less memory available, nothing is started ahead.
	warmMemoryMin = 256 << 20
	// warmLook is when to look again whether there is memory.
	warmLook = time.Minute
	// warmBackoffMax bounds the pause after one that did not live.
	warmBackoffMax = 5 * time.Minute
	// warmDelay is how long an attempt that begins has the machine for itself, and its
	// supervisor is expected back. One that ends sooner gives both back sooner.
	warmDelay = 200 * time.Millisecond
	// warmUses is how many attempts one supervisor has at most, one after the other.
	warmUses = 64
)

// networkUsual is the network of almost every job, and so of what is started ahead.
const networkUsual = "pool"

// Timing where the server names none.
const (
	pollDefault    = 30 * time.Second
	renewDefault   = 10 * time.Second
	abandonDefault = time.Minute
	graceDefault   = 10 * time.Second
)
