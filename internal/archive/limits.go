package archive

import "time"

// Limits of this room, with their reasons.
const (
	// rangeRows and rangeBytes bound a range: it is held in memory while it is written, and
	// while something reads across it in order.
	rangeRows  = 20_000
	rangeBytes = 16 << 20
	// rangeRowsMin is the least that is worth two synced objects, unless somebody asks for
	// the rest.
	rangeRowsMin = 2_000
	// frameBytes of rows are compressed together: a stream is read without decompressing
	// much more than it.
	frameBytes = 128 << 10
	// frameBytesMax bounds what a frame of anybody's making may unfold to. One row is never
	// divided, and holds the events of one batch of one stream.
	frameBytesMax = 256 << 20
	// indexBytesMax bounds an index of anybody's making.
	indexBytesMax = 8 << 20
	// headGuess bytes are read first: head and index of nearly every object.
	headGuess = 16 << 10
	// pruneRows are removed in one transaction: appends of the same database wait that long.
	pruneRows = 500
	// prunePause lets others work between two of them.
	prunePause = 20 * time.Millisecond
	// listLimit rows, marks or ranges are read from the store at once.
	listLimit = 1_000
	// rangesOfStream are listed at once: a run is in one or two.
	rangesOfStream = 4
	// ArchiveEvery is how often an owner looks for what has become old.
	ArchiveEvery = 10 * time.Minute
)
