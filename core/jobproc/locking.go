package jobproc

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/core/lock"
)

// LockAcquirer takes the locks of one opcode, as a step machine (locks.md 2.5, of
// which waiting calls make most needless). Plain locks are asked for in one
// request for all levels below that of the locks of which some will do, and one
// for those above; in between comes the choice.
//
// The caller makes Call's call until Done, and tells Answer what came back, or Lost
// that nothing did. A call may be made twice; every request is the same again.
type LockAcquirer struct {
	owner           lock.Owner
	priority        int
	requests        []lockRequest
	acquired        []lock.Item
	attempts        int  // to get enough of a choice, without waiting
	mustCheck       bool // at what is held, before anything else
	severalRequests bool // steps
}

type lockRequest struct {
	all   lock.Request // wait for all of these
	anyOf []lock.Item  // or take what is free of these
	count int          // and at least so many
}

// What a choice waits before it asks again, and how often it does before it
// waits for the first ones of the list instead, as many as it must have: whoever
// only takes what is free might never get anything.
const (
	RetryPause  = 2 * time.Second
	attemptsMax = 15
	// CallWaitSeconds is how long one call waits; it is made again then.
	CallWaitSeconds = 60
)

// NewLockAcquirer begins to take what is needed for an owner at a priority.
func NewLockAcquirer(o lock.Owner, priority int, n lock.RequiredLocks) *LockAcquirer {
	l := &LockAcquirer{owner: o, priority: priority}
	var below, above lock.Request
	for _, i := range n.Request {
		if len(n.AnyOf) > 0 && i.Lock.Compare(n.AnyOf[0].Lock) > 0 {
			above = append(above, i)
		} else {
			below = append(below, i)
		}
	}
	if len(below) > 0 {
		l.requests = append(l.requests, lockRequest{all: below})
	}
	if len(n.AnyOf) > 0 {
		l.requests = append(l.requests, lockRequest{anyOf: n.AnyOf, count: min(max(n.Count, 1), len(n.AnyOf))})
	}
	if len(above) > 0 {
		l.requests = append(l.requests, lockRequest{all: above})
	}
	l.severalRequests = len(l.requests) > 1
	return l
}

// Done: everything has been got.
func (l *LockAcquirer) Done() bool { return len(l.requests) == 0 && !l.mustCheck }

// Acquired is what has been got, in lock order once it is Done.
func (l *LockAcquirer) Acquired() []lock.Item { return l.acquired }

// Reprioritise is for a client that changes the priority meanwhile: the call at
// hand is made again.
func (l *LockAcquirer) Reprioritise(priority int) { l.priority = priority }

// CallLost: no answer came to the call at hand. To choose again would find nothing
// free but what is held already, so that must be looked at first.
func (l *LockAcquirer) CallLost() { l.mustCheck = l.mustCheck || l.requests[0].anyOf != nil }

// NextCall is the next call, and the pause before it.
func (l *LockAcquirer) NextCall() (function string, args []any, pause time.Duration) {
	if l.mustCheck {
		return "listLocks", []any{l.owner}, 0
	}
	s := l.requests[0]
	if s.all != nil {
		return "lockstepAwaitLocks", []any{l.owner, l.priority, s.all, CallWaitSeconds}, 0
	}
	if l.attempts > 0 {
		pause = RetryPause
	}
	return "guardedOpportunisticLockUnion", []any{s.count, l.owner, s.anyOf}, pause
}

// HandleResult takes the result of the call at hand. withdrawn: the daemon has taken
// the request back.
func (l *LockAcquirer) HandleResult(result json.RawMessage) (withdrawn bool, err error) {
	if l.mustCheck {
		return l.checkHeld(result)
	}
	s := l.requests[0]
	if s.all != nil {
		var answer struct{ Granted, Withdrawn bool }
		if err := json.Unmarshal(result, &answer); err != nil {
			return false, fmt.Errorf("the answer to a request for locks: %w", err)
		}
		if answer.Granted {
			l.acquired = append(l.acquired, s.all...)
			l.advance()
		}
		return answer.Withdrawn, nil
	}
	var got []lock.Lock
	if err := json.Unmarshal(result, &got); err != nil {
		return false, fmt.Errorf("the answer to a request for locks: %w", err)
	}
	if len(got) == 0 {
		// Or else the call was made twice on its way, and this answer is the second.
		l.attempts++
		l.mustCheck = true
		return false, nil
	}
	for _, i := range s.anyOf {
		if slices.Contains(got, i.Lock) {
			l.acquired = append(l.acquired, i)
		}
	}
	l.advance()
	return false, nil
}

// advance goes on to the next step. After several it is looked in the end whether
// what they have got is still held: an answer may have been lost, by us or by those
// who pass calls on and make them again, that the request was withdrawn and all
// that had been got before with it.
func (l *LockAcquirer) advance() {
	l.requests = l.requests[1:]
	l.mustCheck = l.severalRequests && len(l.requests) == 0
}

// checkHeld takes the list of what is held. If what had been got is not there any
// more, it is as if the request had been withdrawn.
func (l *LockAcquirer) checkHeld(result json.RawMessage) (withdrawn bool, err error) {
	var held []lock.Item
	if err := json.Unmarshal(result, &held); err != nil {
		return false, fmt.Errorf("the answer to a question for locks: %w", err)
	}
	l.mustCheck = false
	modes := make(map[lock.Lock]lock.Mode, len(held))
	for _, i := range held {
		modes[i.Lock] = i.Mode
	}
	for _, i := range l.acquired {
		if modes[i.Lock] < i.Mode {
			return true, nil
		}
	}
	if len(l.requests) == 0 {
		return false, nil
	}
	s, before := l.requests[0], len(l.acquired)
	for _, wanted := range s.anyOf {
		if mode := modes[wanted.Lock]; mode >= wanted.Mode {
			l.acquired = append(l.acquired, lock.Item{Lock: wanted.Lock, Mode: mode})
		}
	}
	switch {
	case len(l.acquired) > before:
		l.requests = l.requests[1:]
	case l.attempts > attemptsMax:
		l.requests[0] = lockRequest{all: lock.Request(s.anyOf[:s.count])}
	}
	return false, nil
}
