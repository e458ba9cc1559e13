package budget

import "container/list"

// Phase is what a slot is used for. A slot of a lower phase gives way before one of a higher phase of the same client.
type Phase uint8

// The phases.
const (
	Silent  Phase = iota // has sent nothing yet
	Idle                 // waits for a request, still receives one, or only listens
	Sending              // its client has not taken the whole answer
	Working              // a request is at work; it never gives way
)

// Slot is one connection or stream. Its fields belong to the Slots that made it.
type Slot struct {
	client  Client
	phase   Phase
	holder  *holder
	program *program
	element *list.Element // in the list of its phase
}

// Client is whom the slot counts for.
func (s *Slot) Client() Client { return s.client }

// Slots bounds the number of connections or streams, and decides which one gives way to a new one. The zero value is not usable.
type Slots struct {
	limit   int // 0: any number
	classes [classes]slotClass
}

type slotClass struct {
	used    int
	holders map[Client]*holder
}

// holder is a client that has slots, with its programs that have them.
type holder struct {
	used     int
	programs map[int]*program
}

// program is a process with slots; clients without known processes have one of number 0.
type program struct {
	used    int
	byPhase [Working]*list.List // of *Slot, the longest in that phase first; those at work are in no list
}

// NewSlots returns Slots of which none is taken. limit is the most that each class has; 0: any number.
func NewSlots(limit int) *Slots {
	s := &Slots{limit: limit}
	for i := range s.classes {
		s.classes[i].holders = map[Client]*holder{}
	}
	return s
}

// Admit gives a client a slot, in phase Silent. evicted is the slot that gives way, which has been removed; nil: none had to.
// added is nil if the client must be refused: every slot that could give way belongs to a client that has less.
func (s *Slots) Admit(c Client) (added, evicted *Slot) {
	class := &s.classes[c.Class]
	if s.limit > 0 && class.used >= s.limit {
		least := 1
		if h := class.holders[c.Key()]; h != nil {
			least += h.used
		}
		if evicted = class.victim(c.Key(), least); evicted == nil {
			return nil, nil
		}
		s.Remove(evicted)
	}
	added = &Slot{client: c}
	s.insert(added)
	return added, evicted
}

// EvictOne removes and returns one slot for a lack that the limit does not know: in the class with the most slots in use, one of the
// client that has most there. nil: all slots are at work.
func (s *Slots) EvictOne() *Slot {
	var found *Slot
	most := 0
	for i := range s.classes {
		if class := &s.classes[i]; class.used > most {
			if v := class.victim(Client{}, 0); v != nil {
				found, most = v, class.used
			}
		}
	}
	if found != nil {
		s.Remove(found)
	}
	return found
}

// victim is the slot that gives way for a newcomer whose client then has least slots. Clients with fewer keep theirs, except that
// the newcomer's client may always lose one of its own.
func (c *slotClass) victim(newcomer Client, least int) *Slot {
	var from *holder
	var found *Slot
	for key, h := range c.holders {
		if h.used < least && key != newcomer {
			continue
		}
		if from != nil && h.used < from.used {
			continue
		}
		v := h.first()
		if v == nil || from != nil && h.used == from.used && !v.before(found) {
			continue
		}
		from, found = h, v
	}
	return found
}

// before reports which of two victims goes first, of clients that have equally many slots: by phase, then by name, so that the choice
// does not depend on the order of a map.
func (s *Slot) before(other *Slot) bool {
	if s.phase != other.phase {
		return s.phase < other.phase
	}
	return s.client.Name < other.client.Name
}

// first is the slot of a client that gives way first; nil: all are at work.
func (h *holder) first() *Slot {
	var from *program
	var found *Slot
	for pid, p := range h.programs {
		if from != nil && (p.used < from.used || p.used == from.used && pid > found.client.Process) {
			continue
		}
		for _, l := range p.byPhase {
			if e := l.Front(); e != nil {
				from = p
				found, _ = e.Value.(*Slot)
				break
			}
		}
	}
	return found
}

// Move changes the phase of a slot. A slot that was removed stays removed.
func (s *Slots) Move(slot *Slot, to Phase) {
	if slot.holder == nil || slot.phase == to {
		return
	}
	slot.unlist()
	slot.phase = to
	slot.list()
}

// Assign makes a slot count for another client: its user has logged in.
func (s *Slots) Assign(slot *Slot, c Client) {
	if slot.holder == nil || slot.client == c {
		return
	}
	s.Remove(slot)
	slot.client = c
	s.insert(slot)
}

// Remove removes a slot. A second call does nothing.
func (s *Slots) Remove(slot *Slot) {
	if slot.holder == nil {
		return
	}
	slot.unlist()
	class := &s.classes[slot.client.Class]
	class.used--
	if slot.program.used--; slot.program.used == 0 {
		delete(slot.holder.programs, slot.client.Process)
	}
	if slot.holder.used--; slot.holder.used == 0 {
		delete(class.holders, slot.client.Key())
	}
	slot.holder, slot.program = nil, nil
}

// Len is the number of slots in use, over all classes.
func (s *Slots) Len() (total int) {
	for i := range s.classes {
		total += s.classes[i].used
	}
	return total
}

func (s *Slots) insert(slot *Slot) {
	class := &s.classes[slot.client.Class]
	key := slot.client.Key()
	h := class.holders[key]
	if h == nil {
		h = &holder{programs: map[int]*program{}}
		class.holders[key] = h
	}
	p := h.programs[slot.client.Process]
	if p == nil {
		p = &program{}
		for i := range p.byPhase {
			p.byPhase[i] = list.New()
		}
		h.programs[slot.client.Process] = p
	}
	class.used++
	h.used++
	p.used++
	slot.holder, slot.program = h, p
	slot.list()
}

func (s *Slot) list() {
	if s.phase < Working {
		s.element = s.program.byPhase[s.phase].PushBack(s)
	}
}

func (s *Slot) unlist() {
	if s.element != nil {
		s.program.byPhase[s.phase].Remove(s.element)
		s.element = nil
	}
}
