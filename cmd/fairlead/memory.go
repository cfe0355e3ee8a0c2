package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage may collect, in percent of what lives. A busy server makes much that dies at
// once: its heap may grow to three times what lives. Of a hundred thousand runners that wait lives
// more than a gigabyte, and three times that would be waste: beyond headroomMost it is a fifth. But
// a server that is busy beside so much that lives (busyShare) would do little but collect.
// And a server that makes garbage slowly collects it while it is little: a collection costs what
// lives, and one in collectEvery for each gigabyte of that is a twentieth of a core. What little
// there is room for in any case, headroomLeast, keeps a server that becomes busy from collecting
// all the time until the next look. One that makes much beside little that lives has room for a
// second or two of it, headroomBusy: else it would mark the same little twice in a second.
const (
	gcPercentMost  = 200
	gcPercentLeast = 20
	busyShare      = 0.6 // of what lives is made in the time between two collections
	headroomMost   = 256 << 20
	headroomLeast  = 64 << 20
	headroomBusy   = 128 << 20
	busyRate       = 32 << 20 // bytes made in a second
	headroomLook   = 2 * time.Second
	collectEvery   = 16 * time.Second
)

// keepHeadroom looks after that until ctx ends. GOGC in the environment wins.
func keepHeadroom(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercentMost)
	go func() {
		tick := time.NewTicker(headroomLook)
		defer tick.Stop()
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
			{Name: "/gc/heap/allocs:bytes"}}
		for now, made := gcPercentMost, uint64(0); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(sample)
			rate := float64(sample[2].Value.Uint64()-made) / headroomLook.Seconds()
			made = sample[2].Value.Uint64()
			// It moves in steps: setting it stops the program for a moment, and begins a collection.
			want := percentFor(float64(sample[0].Value.Uint64()+sample[1].Value.Uint64()), rate)
			if want > now*5/4 || want < now*3/4 {
				now = want
				debug.SetGCPercent(now)
			}
		}
	}()
}

// percentFor is the share of what lives that may be garbage, when so many bytes are made in a second.
func percentFor(live, rate float64) int {
	const giga = 1 << 30
	live = max(live, 1)
	bySize := max(headroomMost/live, gcPercentLeast/100.0)
	byRate := rate * collectEvery.Seconds() / giga
	if byRate > busyShare {
		bySize = byRate
	}
	least, most := headroomLeast/live, gcPercentMost/100.0
	if rate > busyRate {
		least, most = headroomBusy/live, max(headroomBusy/live, most)
	}
	return int(100 * min(max(least, min(bySize, byRate)), most))
}
