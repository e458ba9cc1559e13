package jobproc

import (
	"encoding/json"
	"time"

	"lockstep/core/lock"
)

// releaseTimeout is how long a process that ends tries to release its locks. After that the daemon releases the locks of
// the ended process.
const releaseTimeout = time.Second

// locks takes and releases the locks of opcodes, over restarts of the daemon.
type locks struct {
	line
	owner     lock.Owner
	acquirer  *LockAcquirer // nil: no locks are being taken
	mayHold   bool          // locks may be held, or a request may be waiting at the lock manager
	held      []lock.Item   // by the current opcode; nil: none
	releasing bool          // the locks are being released, not taken
	limit     time.Time     // of a release; zero: none
}

// locksEvent says how far the locks of the opcode are after an answer of the daemon.
type locksEvent uint8

const (
	locksPending   locksEvent = iota // nothing yet
	locksTaken                       // all are held
	locksWithdrawn                   // the daemon has withdrawn the request
	locksRefused                     // permanently
	locksReleased
)

// take begins to ask for the locks of an opcode. From now on the process may hold some.
func (l *locks) take(out *Actions, priority int, required lock.RequiredLocks) {
	l.mayHold = true
	l.acquirer = NewLockAcquirer(l.owner, priority, required)
	l.backoff.Reset()
	l.next(out)
}

// next sends the call that the acquirer wants next.
func (l *locks) next(out *Actions) {
	function, args := l.acquirer.NextCall()
	l.call(out, function, args, lockTimeout)
}

// stop ends the taking of locks. The call under way is replaced by that of a release, or ends with the process.
func (l *locks) stop() {
	l.acquirer = nil
	l.line.stop()
}

// reprioritise repeats the current call with another priority. Without a current request it does nothing.
func (l *locks) reprioritise(out *Actions, priority int) {
	if l.acquirer == nil {
		return
	}
	l.acquirer.Reprioritise(priority)
	l.next(out)
}

// giveBack releases all locks and withdraws a waiting request. It reports whether there is nothing to release. A limit
// above 0 bounds the attempt.
func (l *locks) giveBack(now time.Time, out *Actions, limit time.Duration) (nothing bool) {
	l.stop()
	l.held = nil
	if !l.mayHold {
		return true
	}
	l.releasing, l.limit = true, time.Time{}
	if limit > 0 {
		l.limit = now.Add(limit)
	}
	l.backoff.Reset()
	l.call(out, "freeLocks", []any{l.owner}, lockTimeout)
	return false
}

// answered takes the answer to the latest call about locks, or the failure of it, and says what this means for the process.
func (l *locks) answered(now time.Time, out *Actions, result json.RawMessage, err error) (locksEvent, error) {
	if l.releasing {
		if err != nil {
			l.callAgain(now)
			return locksPending, nil //nolint:nilerr // the call is repeated
		}
		l.mayHold = false
		l.endRelease()
		return locksReleased, nil
	}
	switch {
	case err == nil:
		l.backoff.Reset()
		withdrawn, err := l.acquirer.HandleResult(result)
		switch {
		case err != nil:
			l.stop()
			return locksRefused, err
		case withdrawn:
			l.stop()
			return locksWithdrawn, nil
		case l.acquirer.Done():
			l.held = l.acquirer.Acquired()
			l.stop()
			return locksTaken, nil
		}
		l.next(out)
	case isFinal(err, lockFinal):
		l.stop()
		return locksRefused, err
	default: // no daemon answers, the daemon is not the master, or the daemon cannot write its locks
		l.callAgain(now)
	}
	return locksPending, nil
}

func (l *locks) endRelease() {
	l.releasing, l.limit = false, time.Time{}
	l.line.stop()
}

// tick makes the call that is due, or gives a release up whose limit has come: the result is then locksReleased.
func (l *locks) tick(now time.Time, out *Actions) locksEvent {
	switch {
	case !l.limit.IsZero() && !now.Before(l.limit):
		l.endRelease()
		return locksReleased
	case !l.isDue(now):
	case l.releasing:
		l.call(out, "freeLocks", []any{l.owner}, lockTimeout)
	default:
		l.next(out)
	}
	return locksPending
}
