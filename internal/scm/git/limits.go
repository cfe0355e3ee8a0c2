package git

import "time"

// Limits: name, value, reason, and what happens at the limit.
const (
	// outputBytesMax bounds what one call may print; a call over it is killed and fails.
	outputBytesMax = 64 << 20
	// stderrBytesMax bounds what is kept of git's complaints; the rest is dropped.
	stderrBytesMax = 8 << 10
	// readTimeout bounds calls that touch the local mirror only; they fail at it.
	readTimeout = 60 * time.Second
	// askTimeout bounds a question to a remote; it counts as unreachable at it.
	askTimeout = 60 * time.Second
	// fetchTimeout bounds a fetch; it counts as unreachable at it.
	fetchTimeout = 20 * time.Minute
	// transferTimeout bounds one smart HTTP request as a whole; it is cut at it.
	transferTimeout = time.Hour
	// idleTimeout bounds the silence of a smart HTTP client; it is cut at it.
	idleTimeout = 2 * time.Minute
	// queueTimeout is how long a smart HTTP request waits for a free place before it is
	// told to come back (503).
	queueTimeout = 30 * time.Second
	// killAfter is the time between asking a process to stop and killing it.
	killAfter = 2 * time.Second
	// refsMax bounds how many refs of one repository are listed; a repository with more
	// can't be mirrored and says so.
	refsMax = 100_000
	// objectBytesMax bounds commits and folders that are parsed in memory.
	objectBytesMax = 4 << 20
	// wantBytesMax bounds the part of a fetch request that is parsed; over it: 413.
	wantBytesMax = 1 << 20
	// negotiationBytesMax bounds a whole fetch request, after decompression; over it: 413.
	negotiationBytesMax = 64 << 20
	// commandBytesMax bounds the part of a push that is parsed; over it: 413.
	commandBytesMax = 64 << 10
	// commandsMax bounds the refs of one push: a captured tree and the commit below it
	// are two. Over it the push is refused.
	commandsMax = 16
	// stripesMax bounds the lock files that pushes make beside a mirror in a shared folder.
	// Two refs have one of them by chance once in so many; then their pushes are queued.
	stripesMax = 64
	// refusedBytesMax is how much of a refused push is read before the answer; a client
	// that sends more sees a closed connection instead of the reason.
	refusedBytesMax = 32 << 20
	// havesMax bounds how many commits a pushing client may say it has.
	havesMax = 64
	// PushBytesMax is the default limit of a push; git itself refuses a larger one.
	PushBytesMax = 512 << 20
	// TransfersMax is the default number of smart HTTP transfers at one time; more wait.
	TransfersMax = 16
)
