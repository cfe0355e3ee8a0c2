package peer

import "time"

const (
	// wireBytesMax bounds a command or an answer between servers: the largest command is a
	// run's request with its skeleton. A larger one is refused as too large.
	wireBytesMax = 16 << 20
	// headerWait is how long a peer may take to begin its answer to a command. Behind it the
	// outcome is not known.
	headerWait = 20 * time.Second
	// dialWait is how long connecting may take; a host that is gone answers nothing.
	dialWait = time.Second
	// connectionsMax bounds the connections to one peer that are kept while idle.
	connectionsMax = 64
	// heartbeat is how often a stream of news says that its server lives.
	heartbeat = 500 * time.Millisecond
	// silence is how long a stream of news may say nothing before it is opened anew.
	silence = 4 * heartbeat
	// reopenFirst and reopenMax bound the pause before a stream is opened anew.
	reopenFirst = 20 * time.Millisecond
	reopenMax   = time.Second
	// silentAfter is how long nobody may answer for a member before operators hear of it. One
	// that died is no member any more by then.
	silentAfter = 5 * time.Second
	// newsBytesMax bounds one line of news: every partition with its position.
	newsBytesMax = 1 << 20
	// pollBytesMax bounds a poll that is passed on together with others: it brings nothing. pollMsMax
	// bounds its time.
	pollBytesMax = 64 << 10
	pollMsMax    = 60 * 60 * 1000
	// pollSlack is how long after a poll's time its leader may answer it, and pollLost how long one may
	// be without a leader before it goes the ordinary way.
	pollSlack = 5 * time.Second
	pollLost  = 10 * time.Second
	// leaderAgain is the pause before a leader that could not take polls is asked once more.
	leaderAgain = 50 * time.Millisecond
	// writeWait is how long a peer may take to read a line.
	writeWait = 5 * time.Second
)
