package socket

import (
	"errors"
	"sync"
)

// uncounted is what each connection may take of memory without asking, in bytes:
// most requests fit, so those are never refused for another client's sake.
const uncounted = 16 << 10

// errCrowded ends a request for which there was no room beside the others.
var errCrowded = errors.New("too many large requests at a time; try again")

// budget bounds what large requests take of memory, over all connections of a
// listener: one alone may be as large as MaxFrame, and thousands of clients may each
// send half of one and say no more. When it is used up, the request that is being
// read for the longest time goes: an honest client sends its own at once.
type budget struct {
	mu      sync.Mutex
	left    int // bytes
	reading map[*share]uint64
	next    uint64 // the order in which they came
}

// newBudget returns one of bytes; nil, which refuses nothing, for 0.
func newBudget(bytes int) *budget {
	if bytes == 0 {
		return nil
	}
	return &budget{left: bytes, reading: map[*share]uint64{}}
}

// share is one connection's part of the budget.
type share struct {
	budget    *budget
	interrupt func() // ends the read at hand
	bytes     int
	taken     bool // away, for another's sake
}

// grow asks for a buffer of size bytes, while a request is being read.
func (s *share) grow(size int) error {
	b := s.budget
	if b == nil || size <= uncounted {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.taken {
		return errCrowded
	}
	if _, known := b.reading[s]; !known {
		b.enter(s)
	}
	for size-uncounted-s.bytes > b.left {
		first := b.first()
		b.leave(first)
		first.taken = true
		if first == s {
			return errCrowded
		}
		first.interrupt()
	}
	b.left -= size - uncounted - s.bytes
	s.bytes = size - uncounted
	return nil
}

// read is said before a request is read; the one before it is answered. What came
// of the next one along with it stays, in a buffer of size bytes, never a larger one
// than it was.
func (s *share) read(size int) {
	b := s.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leave(s)
	if size <= uncounted {
		return
	}
	s.bytes = size - uncounted
	b.left -= s.bytes
	b.enter(s)
}

// whole says that reading ended with err; it returns what it ended with. A request
// that is there whole keeps its share until it is answered.
func (s *share) whole(err error) error {
	b := s.budget
	if b == nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.taken {
		return errCrowded
	}
	delete(b.reading, s)
	return err
}

// end gives everything back.
func (s *share) end() {
	if b := s.budget; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leave(s)
	}
}

func (b *budget) enter(s *share) {
	b.reading[s] = b.next
	b.next++
}

// leave gives back what s has.
func (b *budget) leave(s *share) {
	delete(b.reading, s)
	b.left += s.bytes
	s.bytes = 0
}

// first is the one of those being read that came first.
func (b *budget) first() *share {
	var first *share
	for s, at := range b.reading {
		if first == nil || at < b.reading[first] {
			first = s
		}
	}
	return first
}
