package jobproc

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/core/lock"
)

// Locking takes the locks of one opcode, as a step machine (locks.md 2.5, of
// which waiting calls make most needless). Plain locks are asked for in one
// request for all levels below that of the locks of which some will do, and one
// for those above; in between comes the choice.
//
// The caller makes Call's call until Done, and tells Answer what came back, or Lost
// that nothing did. A call may be made twice; every request is the same again.
type Locking struct {
	owner    lock.Owner
	priority int
	steps    []step
	got      []lock.Item
	tries    int  // to get enough of a choice, without waiting
	look     bool // at what is held, before anything else
	several  bool // steps
}

type step struct {
	request lock.Request // wait for all of these
	choice  []lock.Item  // or take what is free of these
	count   int          // and at least so many
}

// What a choice waits before it asks again, and how often it does before it
// waits for the first ones of the list instead, as many as it must have: whoever
// only takes what is free might never get anything.
const (
	ChoicePause = 2 * time.Second
	choiceTries = 15
	// AwaitSeconds is how long one call waits; it is made again then.
	AwaitSeconds = 60
)

// NewLocking begins to take what is needed for an owner at a priority.
func NewLocking(o lock.Owner, priority int, n lock.Needs) *Locking {
	l := &Locking{owner: o, priority: priority}
	var below, above lock.Request
	for _, i := range n.Request {
		if len(n.AnyOf) > 0 && i.Lock.Compare(n.AnyOf[0].Lock) > 0 {
			above = append(above, i)
		} else {
			below = append(below, i)
		}
	}
	if len(below) > 0 {
		l.steps = append(l.steps, step{request: below})
	}
	if len(n.AnyOf) > 0 {
		l.steps = append(l.steps, step{choice: n.AnyOf, count: min(max(n.Count, 1), len(n.AnyOf))})
	}
	if len(above) > 0 {
		l.steps = append(l.steps, step{request: above})
	}
	l.several = len(l.steps) > 1
	return l
}

// Done: everything has been got.
func (l *Locking) Done() bool { return len(l.steps) == 0 && !l.look }

// Held is what has been got, in lock order once it is Done.
func (l *Locking) Held() []lock.Item { return l.got }

// Reprioritise is for a client that changes the priority meanwhile: the call at
// hand is made again.
func (l *Locking) Reprioritise(priority int) { l.priority = priority }

// Lost: no answer came to the call at hand. To choose again would find nothing
// free but what is held already, so that must be looked at first.
func (l *Locking) Lost() { l.look = l.look || l.steps[0].choice != nil }

// Call is the next call, and the pause before it.
func (l *Locking) Call() (function string, args []any, pause time.Duration) {
	if l.look {
		return "listLocks", []any{l.owner}, 0
	}
	s := l.steps[0]
	if s.request != nil {
		return "lockstepAwaitLocks", []any{l.owner, l.priority, s.request, AwaitSeconds}, 0
	}
	if l.tries > 0 {
		pause = ChoicePause
	}
	return "guardedOpportunisticLockUnion", []any{s.count, l.owner, s.choice}, pause
}

// Answer takes the result of the call at hand. withdrawn: the daemon has taken
// the request back.
func (l *Locking) Answer(result json.RawMessage) (withdrawn bool, err error) {
	if l.look {
		return l.looked(result)
	}
	s := l.steps[0]
	if s.request != nil {
		var awaited struct{ Granted, Withdrawn bool }
		if err := json.Unmarshal(result, &awaited); err != nil {
			return false, fmt.Errorf("the answer to a request for locks: %w", err)
		}
		if awaited.Granted {
			l.got = append(l.got, s.request...)
			l.advance()
		}
		return awaited.Withdrawn, nil
	}
	var got []lock.Lock
	if err := json.Unmarshal(result, &got); err != nil {
		return false, fmt.Errorf("the answer to a request for locks: %w", err)
	}
	if len(got) == 0 {
		// Or else the call was made twice on its way, and this answer is the second.
		l.tries++
		l.look = true
		return false, nil
	}
	for _, i := range s.choice {
		if slices.Contains(got, i.Lock) {
			l.got = append(l.got, i)
		}
	}
	l.advance()
	return false, nil
}

// advance goes on to the next step. After several it is looked in the end whether
// what they have got is still held: an answer may have been lost, by us or by those
// who pass calls on and make them again, that the request was withdrawn and all
// that had been got before with it.
func (l *Locking) advance() {
	l.steps = l.steps[1:]
	l.look = l.several && len(l.steps) == 0
}

// looked takes the list of what is held. If what had been got is not there any
// more, it is as if the request had been withdrawn.
func (l *Locking) looked(result json.RawMessage) (withdrawn bool, err error) {
	var held []lock.Item
	if err := json.Unmarshal(result, &held); err != nil {
		return false, fmt.Errorf("the answer to a question for locks: %w", err)
	}
	l.look = false
	modes := make(map[lock.Lock]lock.Mode, len(held))
	for _, i := range held {
		modes[i.Lock] = i.Mode
	}
	for _, i := range l.got {
		if modes[i.Lock] < i.Mode {
			return true, nil
		}
	}
	if len(l.steps) == 0 {
		return false, nil
	}
	s, had := l.steps[0], len(l.got)
	for _, wanted := range s.choice {
		if mode := modes[wanted.Lock]; mode >= wanted.Mode {
			l.got = append(l.got, lock.Item{Lock: wanted.Lock, Mode: mode})
		}
	}
	switch {
	case len(l.got) > had:
		l.steps = l.steps[1:]
	case l.tries > choiceTries:
		l.steps[0] = step{request: lock.Request(s.choice[:s.count])}
	}
	return false, nil
}
