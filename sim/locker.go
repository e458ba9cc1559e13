package sim

import (
	"encoding/json"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
)

// locker is a job process's conversation with the lock manager, as in lockstep-job.
type locker struct {
	process      *process
	rpc          *rpcClient
	owner        lock.Owner
	mayHold      bool      // something may be held, or waited for
	waitingSince time.Time // it has wanted what it wants
	operation    int       // counts attempts to take or free; what an earlier one hears is dropped
	retry        func()
	locking      *jobproc.LockAcquirer
	answerLost   bool // an answer, while taking
}

func newLocker(p *process) *locker {
	return &locker{process: p, rpc: &rpcClient{world: p.machine.world, node: p.machine.node, thread: p.thread, wconf: true},
		owner: lock.JobOwner(job.ID(p.job), p.livelock, p.pid)}
}

// As in lockstep-job.
const (
	lockAnswerMax = (jobproc.CallWaitSeconds + 30) * time.Second
	leaveMax      = time.Second
)

// take gets the locks that are needed; done is called once, unless stop comes first.
func (l *locker) take(priority int, needs lock.RequiredLocks, done func(withdrawn bool, err error)) {
	l.stop()
	l.mayHold, l.waitingSince = true, l.process.machine.world.clock.Now()
	l.locking, l.answerLost = jobproc.NewLockAcquirer(l.owner, priority, needs), false
	l.retry = func() { l.next(l.operation, beginRetryFirst, done) }
	l.next(l.operation, beginRetryFirst, done)
}

func (l *locker) next(attempt int, delay time.Duration, done func(withdrawn bool, err error)) {
	if l.locking.Done() {
		l.retry = nil
		done(false, nil)
		return
	}
	function, args, pause := l.locking.NextCall()
	l.after(attempt, pause, func() {
		l.rpc.call(function, args, lockAnswerMax, func(result json.RawMessage, err error) {
			if attempt != l.operation {
				return
			}
			switch {
			case err == nil:
				withdrawn, err := l.locking.HandleResult(result)
				if withdrawn || err != nil {
					l.retry = nil
					done(withdrawn, err)
					return
				}
				l.next(attempt, beginRetryFirst, done)
			case isDecided(err, lockFinal):
				l.retry = nil
				done(false, err)
			default:
				l.locking.CallLost()
				l.answerLost = true
				l.after(attempt, delay, func() { l.next(attempt, min(2*delay, beginRetryMax), done) })
			}
		})
	})
}

// after runs f later, if there was no stop meanwhile.
func (l *locker) after(attempt int, d time.Duration, f func()) {
	if d == 0 {
		f()
		return
	}
	l.process.machine.world.clock.After(d, l.process.life, func() {
		l.process.then(func() {
			if attempt == l.operation {
				f()
			}
		})
	})
}

// stop ends the current operation.
func (l *locker) stop() {
	l.operation++
	l.retry = nil
	l.rpc.abandon()
}

// reprioritise repeats the current call, at another priority.
func (l *locker) reprioritise(priority int) {
	if again := l.retry; again != nil {
		l.locking.Reprioritise(priority)
		l.locking.CallLost()
		l.answerLost = true
		l.stop()
		l.retry = again
		again()
	}
}

// free gives everything back, and calls done when that is done or the limit, if there is one,
// is over.
func (l *locker) free(limit time.Duration, done func()) {
	l.stop()
	if !l.mayHold {
		done()
		return
	}
	attempt, over := l.operation, false
	finish := func() {
		if !over {
			over = true
			l.stop()
			done()
		}
	}
	if limit > 0 {
		l.process.machine.world.clock.After(limit, l.process.life, func() { l.process.then(finish) })
	}
	var try func(delay time.Duration)
	try = func(delay time.Duration) {
		l.rpc.call("freeLocks", []any{l.owner}, lockAnswerMax, func(_ json.RawMessage, err error) {
			switch {
			case over || attempt != l.operation:
			case err == nil:
				l.mayHold = false
				finish()
			default:
				l.after(attempt, delay, func() { try(min(2*delay, beginRetryMax)) })
			}
		})
	}
	try(beginRetryFirst)
}
