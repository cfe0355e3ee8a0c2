package verify

// Limits of this room, with their reasons.
const (
	// pageRows are read from the store at once: rows hold a few KiB each.
	pageRows = 500
	// windowRows is the piece of a log that a sampled examination takes or leaves.
	windowRows = 4096
	// batchRows is more than a batch has: the engine begins another one at half of that.
	batchRows = 4096
	// objectsKnownMax bounds the memory of objects that were examined already, since many
	// runs name the same ones. Beyond it some are read twice.
	objectsKnownMax = 500_000
	// rebuildStreams are made anew in one transaction: appends wait that long.
	rebuildStreams = 64
	// progressEvery is how many rows or streams pass between two words about progress.
	progressEvery = 1000
)
