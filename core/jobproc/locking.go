package jobproc

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"lockstep/core/lock"
)

// LockAcquirer takes the locks of one opcode, as a state machine (locks.md 2.5, most of which waiting calls make
// needless). It asks for plain locks in one request for all levels below that of the any-of locks, and in one for
// those above. In between it takes any of the any-of locks.
//
// The caller makes the call of NextCall until Done, and passes its result to HandleResult, or calls CallLost if there
// is none. A call may be made twice; every request is the same when it is repeated.
type LockAcquirer struct {
	owner           lock.Owner
	priority        int
	requests        []lockRequest
	acquired        []lock.Item
	attempts        int  // to get enough of the any-of locks, without waiting
	mustCheck       bool // read which locks are held, before anything else
	severalRequests bool // steps
}

type lockRequest struct {
	all   lock.Request // wait for all of these
	anyOf []lock.Item  // or take what is free of these
	count int          // and at least so many
}

// RetryPause is the pause before the any-of locks are asked for again, and attemptsMax how often they are. After that
// the first ones of the list are waited for, as many as are needed: a client that only takes free locks might never
// get any.
const (
	RetryPause  = 2 * time.Second
	attemptsMax = 15
	// CallWaitSeconds is how long one call waits; it is made again then.
	CallWaitSeconds = 60
)

// NewLockAcquirer begins to take the required locks for an owner at a priority.
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

// Done tells whether all locks have been acquired.
func (l *LockAcquirer) Done() bool { return len(l.requests) == 0 && !l.mustCheck }

// Acquired is the locks that have been acquired, in lock order once it is Done.
func (l *LockAcquirer) Acquired() []lock.Item { return l.acquired }

// Reprioritise is for a client that changes the priority meanwhile: the current call is made again.
func (l *LockAcquirer) Reprioritise(priority int) { l.priority = priority }

// CallLost: the current call has got no answer. If it was for any-of locks, a second one would find only those free
// that are held already, so the held locks must be read first.
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

// HandleResult takes the result of the current call. withdrawn: the daemon has withdrawn the request.
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

// advance goes on to the next request. After the last of several it makes sure that all their locks are still held: an
// answer may have been lost, here or on the way, that a request was withdrawn and all earlier locks with it.
func (l *LockAcquirer) advance() {
	l.requests = l.requests[1:]
	l.mustCheck = l.severalRequests && len(l.requests) == 0
}

// checkHeld takes the list of held locks. If an acquired lock is missing, it is as if the request had been withdrawn.
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
