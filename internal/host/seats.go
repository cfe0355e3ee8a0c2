package host

import (
	"context"
	"sync"
)

// Seats bounds how many do something at once.
type Seats struct {
	host Host

	mu   sync.Mutex
	free int
	news chan struct{} // somebody left: one who waits may look again
}

// NewSeats makes n seats.
func NewSeats(h Host, n int) *Seats {
	return &Seats{host: h, free: n, news: make(chan struct{}, 1)}
}

// Take waits for a seat. It reports false when ctx ended before there was one; otherwise
// Leave must follow.
func (s *Seats) Take(ctx context.Context) bool {
	for {
		s.mu.Lock()
		got := s.free > 0
		if got {
			s.free--
		}
		more := s.free > 0
		s.mu.Unlock()
		if got {
			if more {
				s.tell() // a signal may stand for several who left
			}
			return true
		}
		if s.host.Wait(ctx, For{News: s.news, Limit: Forever}) == Ended {
			return false
		}
	}
}

// Leave gives a seat back.
func (s *Seats) Leave() {
	s.mu.Lock()
	s.free++
	s.mu.Unlock()
	s.tell()
}

func (s *Seats) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}
