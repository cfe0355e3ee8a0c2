package engine

import (
	"container/heap"
	"time"
)

// timers is a heap of wake times, one per stream; the engine stores the same times with
// the heads, so a new owner arms them again.
type timers struct {
	order []*timer
	byKey map[streamKey]*timer
}

type timer struct {
	key   streamKey
	at    time.Time
	index int
}

func newTimers() *timers { return &timers{byKey: map[streamKey]*timer{}} }

// set arms, moves or (with the zero time) removes a stream's timer.
func (t *timers) set(key streamKey, at time.Time) {
	old := t.byKey[key]
	switch {
	case at.IsZero() && old == nil:
	case at.IsZero():
		heap.Remove(t, old.index)
		delete(t.byKey, key)
	case old == nil:
		t.byKey[key] = &timer{key: key, at: at}
		heap.Push(t, t.byKey[key])
	default:
		old.at = at
		heap.Fix(t, old.index)
	}
}

// next is the earliest wake time.
func (t *timers) next() (time.Time, bool) {
	if len(t.order) == 0 {
		return time.Time{}, false
	}
	return t.order[0].at, true
}

// due removes and returns one stream whose time has come.
func (t *timers) due(now time.Time) (streamKey, bool) {
	if len(t.order) == 0 || t.order[0].at.After(now) {
		return streamKey{}, false
	}
	key := t.order[0].key
	t.set(key, time.Time{})
	return key, true
}

// Len implements heap.Interface.
func (t *timers) Len() int { return len(t.order) }

// Less implements heap.Interface; ties break by stream, so order never depends on maps.
func (t *timers) Less(i, j int) bool {
	a, b := t.order[i], t.order[j]
	if !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return a.key.less(b.key)
}

// Swap implements heap.Interface.
func (t *timers) Swap(i, j int) {
	t.order[i], t.order[j] = t.order[j], t.order[i]
	t.order[i].index, t.order[j].index = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	e := x.(*timer)
	e.index = len(t.order)
	t.order = append(t.order, e)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := t.order[len(t.order)-1]
	t.order = t.order[:len(t.order)-1]
	return last
}
