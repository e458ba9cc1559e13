package socket

import (
	"errors"
	"sync"
)

// freeAllowance is the memory, in bytes, that each connection may use outside the budget.
// Most requests fit, and are never refused because of other clients.
const freeAllowance = 16 << 10

// errBudgetUsedUp ends a request whose memory is needed for other requests.
var errBudgetUsedUp = errors.New("too many large requests at a time; try again")

// budget bounds the memory of large requests, over all connections of a listener. One
// request may be as large as MaxFrame, and thousands of clients may each send half of one
// and stop. When the budget is used up, the request that is being read for the longest time
// is ended: a well-behaved client sends a request at once.
type budget struct {
	mu        sync.Mutex
	available int // bytes
	readers   map[*share]uint64
	sequence  uint64 // number of the next read; orders them by their begin
}

// newBudget returns a budget of that many bytes. For 0 it returns nil, which refuses nothing.
func newBudget(bytes int) *budget {
	if bytes == 0 {
		return nil
	}
	return &budget{available: bytes, readers: map[*share]uint64{}}
}

// share is one connection's part of the budget.
type share struct {
	budget    *budget
	interrupt func() // ends the current read
	bytes     int
	revoked   bool // taken away for another request
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

// beginRead is called before a request is read, when the previous one is answered. A part of the
// request that was read together with the previous one stays in a buffer of size bytes, which is
// never larger than before.
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

// endRead is called when a read has ended with err, and returns the error to report. A
// complete request keeps its share until it is answered.
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

// release returns all of the share to the budget.
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

// giveBack returns the bytes of s to the budget.
func (b *budget) giveBack(s *share) {
	delete(b.readers, s)
	b.available += s.bytes
	s.bytes = 0
}

// oldest returns the share whose read began first.
func (b *budget) oldest() *share {
	var oldest *share
	for s, at := range b.readers {
		if oldest == nil || at < b.readers[oldest] {
			oldest = s
		}
	}
	return oldest
}
