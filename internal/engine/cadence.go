package engine

import "time"

// A commit costs a sync and a page of each table whatever is in it, a third of a millisecond of
// processor time. Whoever sends several commands wakes the owner with the first of them, and what
// follows from a commit (a job is ready: it gets a lease) comes right after it. An owner that had
// nothing under way would commit the first alone, and all others would wait until that is done. So
// an owner with much to do lets the next batch collect for a moment after a commit, until it holds as
// many commands as batches had lately: where everybody waits for an answer, no more would come. One
// that has little to do never waits.
const (
	cadenceRest = time.Millisecond      // what a batch collects for at most after the one before has ended
	cadenceFull = 128                   // commands that are worth a commit without that
	cadenceOver = 50 * time.Millisecond // what the rate is a mean over
	cadenceMean = 8                     // how many batches the mean of their sizes follows
	cadenceRate = 4000                  // commands in a second that make an owner busy
)

// cadence says when a batch may begin.
type cadence struct {
	score float64 // commands of the last cadenceOver, older ones fading
	mean  float64 // commands of a batch
	seen  time.Duration
	ended time.Duration // the last batch; 0: none has
}

// begun counts the commands of a batch.
func (c *cadence) begun(commands int, now time.Duration) {
	c.score, c.seen = c.at(now)+float64(commands), now
	c.mean += (float64(commands) - c.mean) / cadenceMean
}

func (c *cadence) at(now time.Duration) float64 {
	return c.score * max(0, 1-float64(now-c.seen)/float64(cadenceOver))
}

// rest is how long a batch with so many commands is to wait for company.
func (c *cadence) rest(commands int, now time.Duration) time.Duration {
	if commands >= cadenceFull || float64(commands) >= c.mean || c.at(now) < cadenceRate*cadenceOver.Seconds() {
		return 0
	}
	return max(c.ended+cadenceRest-now, 0)
}
