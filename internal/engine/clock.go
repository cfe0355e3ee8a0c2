package engine

import (
	"sync"
	"time"
)

// JumpLimit is how far the wall clock may differ from elapsed monotonic time before the
// difference counts as a jump and not as drift.
const JumpLimit = 10 * time.Second

// Clock gives the engine's time: the wall clock, but never going back, and with jumps
// noticed. After a jump leases get fresh grace instead of expiring all at once.
type Clock struct {
	mu   sync.Mutex
	wall func() time.Time
	mono func() time.Duration
	last time.Time     // the latest time given out
	at   time.Duration // monotonic reading when last was given out
	jump uint64        // jumps noticed so far
	leap time.Duration // monotonic reading at the last of them
	from time.Duration // monotonic reading when the wall clock was read first
	// steered: the wall clock is another one, which showed base when mono showed baseAt.
	steered bool
	base    time.Time
	baseAt  time.Duration
}

// NewClock reads the machine's clocks.
func NewClock() *Clock {
	start := time.Now()
	return NewClockFrom(func() time.Time { return time.Now().Round(0) }, func() time.Duration { return time.Since(start) })
}

// NewClockFrom makes a clock of two others: a wall clock, which may be set, and one that
// only grows.
func NewClockFrom(wall func() time.Time, mono func() time.Duration) *Clock {
	return &Clock{wall: wall, mono: mono, last: wall(), at: mono(), from: mono()}
}

// Steer makes the clock go by another wall clock than the machine's: by the store's, which
// all servers of a fleet share. Times that one server commits are judged by another, so
// their own wall clocks, which may be minutes apart, are not asked. now is what the other
// clock showed at some time of the last took: so it shows now at least, and now and took at most.
// What is known of it is kept while it lies between, and is moved to the nearer end otherwise:
// the two clocks also run at different rates.
func (c *Clock) Steer(now time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono := c.mono()
	known, latest := c.base.Add(mono-c.baseAt), now.Add(took)
	switch {
	case !c.steered: // nothing was decided by the machine's clock yet
		c.last, c.at, c.from = now, mono, mono
	case known.After(latest):
		now = latest
	case known.After(now):
		return
	}
	c.steered, c.base, c.baseAt = true, now, mono
}

// Jumped reports whether a jump was noticed within so long.
func (c *Clock) Jumped(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jump > 0 && c.mono()-c.leap < within
}

// Young reports whether the wall clock was read first within so long: a jump before that could
// not be noticed.
func (c *Clock) Young(within time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono()-c.from < within
}

// Now gives the engine's time in UTC with microseconds, and how many jumps of the wall
// clock were noticed so far. The clock has many readers and only one of them meets a jump
// first: whoever must act on one compares the number with the one that it saw before.
// After a jump backwards time goes on by the monotonic clock, so no timer stalls. The store's
// clock is one that others go by too, so there time goes on at half the rate until it has caught up.
func (c *Clock) Now() (now time.Time, jumps uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, mono := c.wall(), c.mono()
	if c.steered {
		wall = c.base.Add(mono - c.baseAt)
		if wall.Before(c.last) {
			wall = c.last.Add((mono - c.at) / 2)
		}
	}
	expected := c.last.Add(mono - c.at)
	now = wall
	switch drift := wall.Sub(expected); {
	case drift > JumpLimit:
		c.jump++
		c.leap = mono
	case drift < -JumpLimit && !c.steered:
		now = expected
	}
	if now.Before(c.last) {
		now = c.last
	}
	c.last, c.at = now, mono
	return now.UTC().Truncate(time.Microsecond), c.jump
}
