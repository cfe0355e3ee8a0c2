package logs

import (
	"container/list"
	"sync"
)

// place names something on the shelf: an object, or a part of it.
type place struct {
	object string
	part   int64
}

// partIndex is the part of an object that is its index or table of contents.
const partIndex = -1

// shelf keeps what was written or read last, up to a number of bytes. Everything on it can
// be had from storage again, so it needs no rule about what is on it.
type shelf struct {
	limit int64

	mu    sync.Mutex
	used  int64
	order *list.List // most recent first
	items map[place]*list.Element
}

type shelved struct {
	place place
	value any
	cost  int64
}

func newShelf(limit int64) *shelf {
	return &shelf{limit: limit, order: list.New(), items: map[place]*list.Element{}}
}

func (s *shelf) put(p place, value any, cost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.items[p]; ok {
		s.remove(e)
	}
	if cost > s.limit {
		return
	}
	s.items[p] = s.order.PushFront(&shelved{p, value, cost})
	s.used += cost
	for s.used > s.limit {
		s.remove(s.order.Back())
	}
}

func (s *shelf) take(p place) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.items[p]
	if !ok {
		return nil, false
	}
	s.order.MoveToFront(e)
	return e.Value.(*shelved).value, true
}

func (s *shelf) remove(e *list.Element) {
	item := s.order.Remove(e).(*shelved)
	delete(s.items, item.place)
	s.used -= item.cost
}
