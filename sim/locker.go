package sim

import (
	"encoding/json"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
)

// locker is a job process's talk with the lock manager, as in lockstep-job.
type locker struct {
	process *process
	caller  *caller
	owner   lock.Owner
	asked   bool      // something may be held, or waited for
	since   time.Time // it has wanted what it wants
	attempt int       // counts attempts to take or free; what an earlier one hears is dropped
	again   func()
	taking  *jobproc.Locking
	lost    bool // an answer, while taking
}

func newLocker(p *process) *locker {
	return &locker{process: p, caller: &caller{world: p.machine.world, node: p.machine.node, thread: p.thread, wconf: true},
		owner: lock.JobOwner(job.ID(p.job), p.livelock, p.pid)}
}

// As in lockstep-job.
const (
	lockAnswerMax = (jobproc.AwaitSeconds + 30) * time.Second
	leaveMax      = time.Second
)

// take gets what is needed; done hears it once, unless stop came first.
func (l *locker) take(priority int, needs lock.Needs, done func(withdrawn bool, err error)) {
	l.stop()
	l.asked, l.since = true, l.process.machine.world.clock.now
	l.taking, l.lost = jobproc.NewLocking(l.owner, priority, needs), false
	l.again = func() { l.next(l.attempt, beginRetryFirst, done) }
	l.next(l.attempt, beginRetryFirst, done)
}

func (l *locker) next(attempt int, delay time.Duration, done func(withdrawn bool, err error)) {
	if l.taking.Done() {
		l.again = nil
		done(false, nil)
		return
	}
	function, args, pause := l.taking.Call()
	l.after(attempt, pause, func() {
		l.caller.call(function, args, lockAnswerMax, func(result json.RawMessage, err error) {
			if attempt != l.attempt {
				return
			}
			switch {
			case err == nil:
				withdrawn, err := l.taking.Answer(result)
				if withdrawn || err != nil {
					l.again = nil
					done(withdrawn, err)
					return
				}
				l.next(attempt, beginRetryFirst, done)
			case decided(err, lockFinal):
				l.again = nil
				done(false, err)
			default:
				l.taking.Lost()
				l.lost = true
				l.after(attempt, delay, func() { l.next(attempt, min(2*delay, beginRetryMax), done) })
			}
		})
	})
}

// after goes on later, if there was no stop meanwhile.
func (l *locker) after(attempt int, d time.Duration, f func()) {
	if d == 0 {
		f()
		return
	}
	l.process.machine.world.clock.after(d, l.process.life, func() {
		l.process.then(func() {
			if attempt == l.attempt {
				f()
			}
		})
	})
}

// stop ends what is being done.
func (l *locker) stop() {
	l.attempt++
	l.again = nil
	l.caller.giveUp()
}

// reprioritise makes the call at hand again, at another priority.
func (l *locker) reprioritise(priority int) {
	if again := l.again; again != nil {
		l.taking.Reprioritise(priority)
		l.taking.Lost()
		l.lost = true
		l.stop()
		l.again = again
		again()
	}
}

// free gives everything back, until that is done or, with a limit, it is over.
func (l *locker) free(limit time.Duration, done func()) {
	l.stop()
	if !l.asked {
		done()
		return
	}
	attempt, over := l.attempt, false
	finish := func() {
		if !over {
			over = true
			l.stop()
			done()
		}
	}
	if limit > 0 {
		l.process.machine.world.clock.after(limit, l.process.life, func() { l.process.then(finish) })
	}
	var try func(delay time.Duration)
	try = func(delay time.Duration) {
		l.caller.call("freeLocks", []any{l.owner}, lockAnswerMax, func(_ json.RawMessage, err error) {
			switch {
			case over || attempt != l.attempt:
			case err == nil:
				l.asked = false
				finish()
			default:
				l.after(attempt, delay, func() { try(min(2*delay, beginRetryMax)) })
			}
		})
	}
	try(beginRetryFirst)
}
