package logs

import "time"

// Limits of the log gateway: name, value, reason, and what happens there.
const (
	// ChunkBytesMax bounds one chunk, so that one span fits a few blocks of memory.
	// A longer one is refused as invalid.
	ChunkBytesMax = 1 << 20
	// AppendBytesMax bounds one call of Append. A larger one is refused as invalid.
	AppendBytesMax = 16 << 20
	// StepsMax bounds the step indexes of an attempt; the runner's own words have StepRunner.
	// A chunk with another index is refused as invalid.
	StepsMax = 1024
	// StepRunner is the step index of what the runner itself says.
	StepRunner uint32 = 1<<32 - 1
	// MarkBytesMax bounds a mark. A longer one is refused as invalid.
	MarkBytesMax = 256
	// LineBytesMax is how much of one line a window shows. The rest is cut with its length
	// told; raw reading has all of it.
	LineBytesMax = 64 << 10
	// WindowBytesMax bounds the text of one window of lines: a window may end early.
	WindowBytesMax = 4 << 20
	// WindowLinesMax bounds the lines of one window; a larger count is lowered to it.
	WindowLinesMax = 10_000
	// EvidenceMax is how many refused chunks of an attempt are kept; more are only counted.
	EvidenceMax = 10

	// segmentBytes is when a collecting segment is full and goes out.
	segmentBytes = 4 << 20
	// segmentRest is how long after one segment of a tenant the next small one begins, at the
	// earliest: a segment costs as much as writing half a megabyte.
	segmentRest = 5 * time.Millisecond
	// restBytes is what a segment must hold to go out without that rest.
	restBytes = 256 << 10
	// blockBytes is the size of what is read and decoded at a time, live or sealed.
	blockBytes = 256 << 10
	// blockSpansMax bounds the spans of a block, for logs of tiny chunks.
	blockSpansMax = 16 << 10
	// aheadMax is how many chunks of an attempt may wait behind a missing one. One more is
	// refused with ErrAhead; the runner sends it again once the hole is filled.
	aheadMax = 4096
	// marksMax is how many marks an index lists; later ones still stand in the log.
	marksMax = 1000
	// writesMax is how many segments are written at the same time over all tenants.
	writesMax = 4
	// sealsMax is how many logs are compacted at the same time: it is CPU time that ingest
	// and the engine want too.
	sealsMax = 2
	// sharedBytesMax is the length of the longest log that shares an object with others: making
	// an object costs as much as writing about that many bytes.
	sharedBytesMax = 64 << 10
	// bundleBytes is when a collecting bundle goes out before its time.
	bundleBytes = 1 << 20
	// bundleRest is how long after one bundle of a tenant the next one begins, at the earliest.
	// A log that is alone waits for nothing; under load many share an object.
	bundleRest = 50 * time.Millisecond
	// recentMax is how many references to sealed logs are remembered, about 5 MB.
	recentMax = 16 << 10
	// foldCount is how many segments with little live content are folded into one. It bounds
	// what a long attempt can pin: the files, and the bytes of logs that are sealed already.
	foldCount = 64
	// foldSmall and foldMedium are the two sizes of live content below which a segment is
	// folded, with others of its size. Each byte is so rewritten twice at most, usually.
	foldSmall  = 64 << 10
	foldMedium = 1 << 20
	// openReads is how many segments are read at the same time at start-up.
	openReads = 8
	// busyFor is what a refused caller is told to wait.
	busyFor = 500 * time.Millisecond
	// sweepEvery is how often logs are looked for that retention removes, sweepFirst how long
	// after the start for the first time. sweepLook is the pause where the logs are elsewhere,
	// and after a failure.
	sweepEvery = time.Hour
	sweepFirst = 5 * time.Second
	sweepLook  = time.Minute
	// sweepLots is how many days of one class one sweep removes at most.
	sweepLots = 7
	// sweepPage is how many objects are removed between two rests of sweepRest.
	sweepPage = 200
	sweepRest = 50 * time.Millisecond
	// clockTrial is how long the clock must have been seen going on before it is trusted with
	// removing, clockGap the longest time in it without being seen: a machine may be off at night.
	clockTrial = 24 * time.Hour
	clockGap   = 16 * time.Hour
	// clockNotesKept is how long a note that the clock was seen is kept; there is one an hour.
	clockNotesKept = 48 * time.Hour
	clockNotesMax  = 1000
	// lostPause is how long a reader waits for the index to let go of a log that another server
	// sealed.
	lostPause = 10 * time.Millisecond
	// tocBytesMax bounds what a damaged trailer can make us read.
	tocBytesMax = 64 << 20
	// indexBytesMax is the same for the index of a sealed log (a 100 GB log has 20 MB).
	indexBytesMax = 64 << 20
	// tailBytes is read from the end of an object in the hope that the whole index is in it.
	tailBytes = 64 << 10
)

// Defaults of Config.
const (
	defaultQueueBytes   = 64 << 20
	defaultRecentBytes  = 32 << 20
	defaultWriteTimeout = 30 * time.Second
)
