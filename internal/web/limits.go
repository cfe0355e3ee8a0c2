package web

// Limits of the pages. What happens at each limit is said on the page itself.
const (
	// runsPerPage is how many runs a list shows; older ones follow behind a link.
	runsPerPage = 50
	// windowLinesMax is how many log lines one answer may hold, so that no request can
	// make the server render a million lines at once.
	windowLinesMax = 1000
	// windowLinesDefault is the window that a page without scripts shows.
	windowLinesDefault = 500
	// lineBytesMax is how much of one log line a page shows. A longer line is cut with a
	// mark that says its full length and links to the raw bytes.
	lineBytesMax = 4 << 10
	// matchesMax is how many matching lines one search answers with; the next answer
	// starts where it ended.
	matchesMax = 1000
	// formBytesMax is the largest form a page sends is far below; more is refused.
	formBytesMax = 64 << 10
	// nameRunesMax is where a heading cuts a name; the full one is in its tooltip.
	nameRunesMax = 160
	// filterBytesMax bounds the filter text of a list.
	filterBytesMax = 500
	// timelineOpenMax is how many sentences a timeline shows unfolded.
	timelineOpenMax = 60
	// textRunesMax is where any sentence or name from outside is cut, with a mark.
	textRunesMax = 1000
	// expressionStepsMax and expressionBytesMax bound the evaluation of a text that somebody
	// tries out: a tenth of what an expression of a run may take.
	expressionStepsMax = 100_000
	expressionBytesMax = 1 << 20
	// expressionValueMax is how many bytes of a value the page shows.
	expressionValueMax = 64 << 10
	// expressionPartsMax is how many parts of an expression are explained.
	expressionPartsMax = 300
	// expressionDepthMax is how deep parts are indented.
	expressionDepthMax = 9
	// quietJobsFrom is how many jobs a run needs before those that went well are folded away.
	quietJobsFrom = 20
)
