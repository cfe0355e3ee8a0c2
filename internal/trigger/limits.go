package trigger

import "time"

// Limits: name, value, reason, and what happens at the limit.
const (
	// filesMax bounds the workflow files of a commit; over it the request is refused.
	filesMax = 500
	// filesBytesMax bounds all workflow files of a commit; over it: refused. One file may take
	// all of it: that it is over the bound on a workflow is the compiler's to say, of that file
	// alone, so that it keeps no other workflow from running.
	filesBytesMax = 16 << 20
	// titleBytesMax bounds a run's title; longer ones are cut.
	titleBytesMax = 256
	// messageBytesMax bounds the commit message in an event's payload; longer ones are cut.
	messageBytesMax = 16 << 10
	// choicesMax bounds how many workflows a refusal lists.
	choicesMax = 50
	// keyBytesMax is the engine's bound of a key; longer ones are hashed.
	keyBytesMax = 256
	// nameBytesMax bounds a repository's name; over it: refused.
	nameBytesMax = 200
	// changesMax bounds the files of a push that filters look at; with more every filter lets
	// the push pass.
	changesMax = 3000
	// protectedRefsMax bounds for how many protected refs a commit is looked for; beyond it
	// the run is trusted, not protected.
	protectedRefsMax = 200
	// snapshotBytesMax bounds a stored snapshot that is read back; a larger one counts as damaged.
	snapshotBytesMax = 64 << 20
	// PollEvery is the time between two looks at a repository for who gives a poller none; the programs give one of
	// 30 s unless --poll-every says another.
	PollEvery = 15 * time.Second
	// pollBackoffMax bounds the wait after failures.
	pollBackoffMax = 10 * time.Minute
	// pollsMax bounds how many repositories are looked at side by side.
	pollsMax = 4
	// maintainEvery is how many polls that brought something lie between two tidy-ups.
	maintainEvery = 50
	// schedulerEvery is how long the scheduler waits at most: nudges may be lost to a clock that
	// is set, and to servers that are upgraded.
	schedulerEvery = 30 * time.Second
	// schedulerPause is the least it waits.
	schedulerPause = 50 * time.Millisecond
	// schedulerBackoffMax bounds the wait after failures; what is due stays due.
	schedulerBackoffMax = 5 * time.Minute
	// catchUpMax bounds the occurrences that are passed over at once; the rest follows at once.
	catchUpMax = 10_000
	// lateMax is how late an occurrence may be that is never caught up with.
	lateMax = 10 * time.Minute
)
