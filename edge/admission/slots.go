package admission

import (
	"sync"

	"lockstep/core/budget"
)

// Slots is budget.Slots for use by many goroutines: it bounds connections or streams, and ends the one that gives way.
type Slots struct {
	mu    sync.Mutex
	slots *budget.Slots
	open  map[*budget.Slot]func() // ends what has the slot
}

// NewSlots returns Slots of which none is taken. limit is the most that each class of clients has; 0: any number.
func NewSlots(limit int) *Slots {
	return &Slots{slots: budget.NewSlots(limit), open: map[*budget.Slot]func(){}}
}

// Slot is the place of one connection or stream among Slots.
type Slot struct {
	slots *Slots
	slot  *budget.Slot
}

// Admit gives a client a slot; nil: the client is refused. end is called, at most once and from any goroutine, when the slot has to
// give way; it does not block. The slot is free by then.
func (s *Slots) Admit(c budget.Client, end func()) *Slot {
	s.mu.Lock()
	added, evicted := s.slots.Admit(c)
	if added != nil {
		s.open[added] = end
	}
	victim := s.take(evicted)
	s.mu.Unlock()
	if victim != nil {
		victim()
	}
	if added == nil {
		return nil
	}
	return &Slot{s, added}
}

// EvictOne ends what gives way first, if there is something. It is for a lack of descriptors.
func (s *Slots) EvictOne() {
	s.mu.Lock()
	victim := s.take(s.slots.EvictOne())
	s.mu.Unlock()
	if victim != nil {
		victim()
	}
}

// take forgets a slot and returns how to end what has it. The caller holds the mutex.
func (s *Slots) take(slot *budget.Slot) (end func()) {
	if slot != nil {
		end = s.open[slot]
		delete(s.open, slot)
	}
	return end
}

// Len is the number of slots in use.
func (s *Slots) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots.Len()
}

// Move changes the phase. A slot that has given way stays gone.
func (s *Slot) Move(to budget.Phase) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.slots.Move(s.slot, to)
}

// Assign makes the slot count for another client: its user has logged in.
func (s *Slot) Assign(c budget.Client) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.slots.Assign(s.slot, c)
}

// Client is whom the slot counts for.
func (s *Slot) Client() budget.Client {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	return s.slot.Client()
}

// Close gives the slot back. A second call does nothing.
func (s *Slot) Close() {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.slots.Remove(s.slot)
	delete(s.slots.open, s.slot)
}
