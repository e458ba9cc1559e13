package socket

import (
	"errors"
	"sync"
)

// freeAllowance is what each connection may take of memory without asking, in bytes:
// most requests fit, so those are never refused for another client's sake.
const freeAllowance = 16 << 10

// errBudgetUsedUp ends a request for which there was no room beside the others.
var errBudgetUsedUp = errors.New("too many large requests at a time; try again")

// budget bounds what large requests take of memory, over all connections of a
// listener: one alone may be as large as MaxFrame, and thousands of clients may each
// send half of one and say no more. When it is used up, the request that is being
// read for the longest time goes: an honest client sends its own at once.
type budget struct {
	mu        sync.Mutex
	available int // bytes
	readers   map[*share]uint64
	sequence  uint64 // the order in which they came
}

// newBudget returns one of bytes; nil, which refuses nothing, for 0.
func newBudget(bytes int) *budget {
	if bytes == 0 {
		return nil
	}
	return &budget{available: bytes, readers: map[*share]uint64{}}
}

// share is one connection's part of the budget.
type share struct {
	budget    *budget
	interrupt func() // ends the read at hand
	bytes     int
	revoked   bool // away, for another's sake
}

// grow asks for a buffer of size bytes, while a request is being read.
func (s *share) grow(size int) error {
	b := s.budget
	if b == nil || size <= freeAllowance {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.revoked {
		return errBudgetUsedUp
	}
	if _, known := b.readers[s]; !known {
		b.register(s)
	}
	for size-freeAllowance-s.bytes > b.available {
		first := b.oldest()
		b.giveBack(first)
		first.revoked = true
		if first == s {
			return errBudgetUsedUp
		}
		first.interrupt()
	}
	b.available -= size - freeAllowance - s.bytes
	s.bytes = size - freeAllowance
	return nil
}

// beginRead is said before a request is read; the one before it is answered. What came
// of the next one along with it stays, in a buffer of size bytes, never a larger one
// than it was.
func (s *share) beginRead(size int) {
	b := s.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveBack(s)
	if size <= freeAllowance {
		return
	}
	s.bytes = size - freeAllowance
	b.available -= s.bytes
	b.register(s)
}

// endRead says that reading ended with err; it returns what it ended with. A request
// that is there whole keeps its share until it is answered.
func (s *share) endRead(err error) error {
	b := s.budget
	if b == nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.revoked {
		return errBudgetUsedUp
	}
	delete(b.readers, s)
	return err
}

// release gives everything back.
func (s *share) release() {
	if b := s.budget; b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.giveBack(s)
	}
}

func (b *budget) register(s *share) {
	b.readers[s] = b.sequence
	b.sequence++
}

// giveBack gives back what s has.
func (b *budget) giveBack(s *share) {
	delete(b.readers, s)
	b.available += s.bytes
	s.bytes = 0
}

// oldest is the one of those being read that came first.
func (b *budget) oldest() *share {
	var oldest *share
	for s, at := range b.readers {
		if oldest == nil || at < b.readers[oldest] {
			oldest = s
		}
	}
	return oldest
}
