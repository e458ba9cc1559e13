package jobproc

import (
	"encoding/json"
	"fmt"

	"lockstep/core/lock"
)

// LockAcquirer decides the calls by which one opcode takes its locks (locks.md 2.5). It makes up to three requests, in
// lock order: the plain locks of the levels below the any-of locks, then some of the any-of locks, then the plain locks
// of the levels above.
//
// The caller makes the call of NextCall until Done, and passes its result to HandleResult. If the call has no answer, the
// caller makes it again: a call may reach the lock manager twice without harm.
type LockAcquirer struct {
	owner           lock.Owner
	priority        int
	requests        []lockRequest
	acquired        []lock.Item // by the requests that are done
	mustCheck       bool        // the next call reads which locks are held
	severalRequests bool        // there was more than one request at the beginning
}

type lockRequest struct {
	all   lock.Request // the call waits for all of these locks; nil: it is a request for anyOf
	anyOf []lock.Item  // the call takes those of these locks that are free, as soon as they are enough
	count int          // of anyOf: fewer free locks than this are not taken; 1 to len(anyOf)
}

const (
	// ChoiceWaitSeconds is how long the acquirer waits for any-of locks. After that it waits for the first count locks of the list,
	// because an owner that takes only free locks might never get any.
	ChoiceWaitSeconds = 30
	// CallWaitSeconds is how long the lock manager waits with its answer. After that the call is made again.
	CallWaitSeconds = 60
)

// NewLockAcquirer returns the LockAcquirer of one opcode: it takes the locks n for the owner o, whose requests have this priority (-20 to
// 19, the smallest first).
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

// Done reports whether all locks are held, and checked to be held.
func (l *LockAcquirer) Done() bool { return len(l.requests) == 0 && !l.mustCheck }

// Acquired returns the locks that are held. Once Done they are in lock order.
func (l *LockAcquirer) Acquired() []lock.Item { return l.acquired }

// Reprioritise changes the priority of the calls that follow.
func (l *LockAcquirer) Reprioritise(priority int) { l.priority = priority }

// NextCall returns function and arguments of the call that the daemon gets next.
func (l *LockAcquirer) NextCall() (function string, args []any) {
	if l.mustCheck {
		return "listLocks", []any{l.owner}
	}
	s := l.requests[0]
	if s.all != nil {
		return "lockstepAwaitLocks", []any{l.owner, l.priority, s.all, CallWaitSeconds}
	}
	return "lockstepAwaitUnion", []any{s.count, l.owner, s.anyOf, ChoiceWaitSeconds}
}

// HandleResult takes the result of the current call. With withdrawn, the daemon has withdrawn the request, and the caller must release
// all locks. If too few locks of a choice became free, the first count of them are asked for next. The error says that the result has the
// wrong form.
func (l *LockAcquirer) HandleResult(result json.RawMessage) (withdrawn bool, err error) {
	if l.mustCheck {
		return l.checkHeld(result)
	}
	s := l.requests[0]
	var answer struct {
		Granted, Withdrawn bool
		Locks              []lock.Item // of the any-of locks
	}
	if err := json.Unmarshal(result, &answer); err != nil {
		return false, fmt.Errorf("decode the answer to a request for locks: %w", err)
	}
	switch {
	case answer.Granted:
		l.acquired = append(append(l.acquired, s.all...), answer.Locks...)
		l.advance()
	case s.anyOf != nil && !answer.Withdrawn: // too few have become free
		l.requests[0] = lockRequest{all: lock.Request(s.anyOf[:s.count])}
	}
	return answer.Withdrawn, nil
}

// advance drops the current request, so that the next one is current. After the last of several requests the acquirer checks that all
// locks are still held: a lost answer may have said that a request was withdrawn, and with it the locks of earlier requests.
func (l *LockAcquirer) advance() {
	l.requests = l.requests[1:]
	l.mustCheck = l.severalRequests && len(l.requests) == 0
}

// checkHeld takes the list of held locks, and ends the need to check. A missing lock means that the request was withdrawn.
func (l *LockAcquirer) checkHeld(result json.RawMessage) (withdrawn bool, err error) {
	var held []lock.Item
	if err := json.Unmarshal(result, &held); err != nil {
		return false, fmt.Errorf("decode the list of held locks: %w", err)
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
	return false, nil
}
