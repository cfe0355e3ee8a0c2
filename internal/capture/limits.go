package capture

import "time"

// Limits of a capture.
const (
	// fileBytesMax bounds one changed or new file; a larger one is refused by name, since
	// it is far more often a forgotten build result than source.
	fileBytesMax = 100 << 20
	// changesBytesMax bounds all changed and new files together; over it: refused.
	changesBytesMax = 512 << 20
	// changesMax bounds their number; over it: refused, with the advice to ignore them.
	changesMax = 200_000
	// namedMax is how many paths a message lists.
	namedMax = 5
	// callTimeout bounds one call of git on the local repository.
	callTimeout = 2 * time.Minute
	// pushTimeout bounds a push.
	pushTimeout = time.Hour
	// outputBytesMax bounds what one call may print; over it the call fails.
	outputBytesMax = 128 << 20
	// havesMax is how many known commits are named to the server before a push.
	havesMax = 64
)
