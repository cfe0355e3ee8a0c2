package sqlite

import "time"

// Limits of this room: each with its reason and what happens at the limit.
const (
	// readersMax connections read at the same time; more wait. A reader costs up to
	// 3 MiB when busy, and idle ones are closed after readerIdle.
	readersMax  = 4
	readersKept = 1
	readerIdle  = 30 * time.Second

	// checkBytesMax is the file size up to which Open reads all of it: about half a
	// second of a start. Beyond it only the tail of the log is verified.
	checkBytesMax = 256 << 20

	// tendBytes of estimated write-ahead log call the tender, which copies the log back
	// into the file. Smaller means more syncs, larger a longer recovery.
	tendBytes = 8 << 20

	// journalBytesMax is what the write-ahead log is cut down to after a peak.
	journalBytesMax = 64 << 20
)
