package spool

// Limits of a spool.
const (
	// UnackedBytesDefault bounds chunks that wait for the server. At the limit the step
	// goes on, further output is dropped, and a mark says how much.
	UnackedBytesDefault = 64 << 20
	// segmentBytes is when a new file is begun. A file is deleted once all of it is
	// acknowledged, so this is also the grain in which disk space comes back.
	segmentBytes = 4 << 20
	// FrameBytesMax bounds one frame; a longer one is not written and not believed.
	FrameBytesMax = 2 << 20
	// smallBytes is up to where copying a payload costs less than another system call.
	smallBytes = 16 << 10
	// reserveBytes is set aside on disk for progress and the result, for the day the
	// disk is full.
	reserveBytes = 256 << 10
)
