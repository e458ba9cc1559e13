package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"lockstep/core/jobproc"
	"lockstep/core/lock"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// lockClient takes and releases locks at the lock manager.
type lockClient struct {
	socket       string
	owner        lock.Owner
	semaphore    chan struct{} // guards client and mayHoldLocks
	client       *luxiclient.Client
	mayHoldLocks bool // locks may be held, or a request may be waiting

	mu         sync.Mutex
	priority   int
	cancelCall context.CancelFunc // ends the current call, which is then repeated
}

func newLockClient(socket string, owner lock.Owner) *lockClient {
	return &lockClient{socket: socket, owner: owner, semaphore: make(chan struct{}, 1)}
}

// lockOutcome is the result of taking the locks of an opcode. If it is neither withdrawn nor an
// error, the locks are held.
type lockOutcome struct {
	held      []lock.Item
	withdrawn bool
	err       error // refused permanently
	prepared  bool  // err is that of the preparation before the locks
}

// answerTimeout is how long an answer may take beyond the time that the lock manager
// was asked to wait.
const answerTimeout = 30 * time.Second

// acquire waits until it has the needed locks, also over restarts of the daemon, or until ctx
// ends.
func (l *lockClient) acquire(ctx context.Context, priority int, needs lock.RequiredLocks) lockOutcome {
	l.semaphore <- struct{}{}
	defer func() { <-l.semaphore }()
	l.mayHoldLocks = true
	l.reprioritise(priority)
	locking := jobproc.NewLockAcquirer(l.owner, priority, needs)
	for delay := retryFirst; !locking.Done(); {
		callCtx, priority := l.newCallContext(ctx)
		locking.Reprioritise(priority)
		function, args, pause := locking.NextCall()
		result, err := l.call(callCtx, function, args, pause)
		switch {
		case ctx.Err() != nil:
			return lockOutcome{withdrawn: true}
		case err == nil:
			delay = retryFirst
			withdrawn, err := locking.HandleResult(result)
			if withdrawn || err != nil {
				return lockOutcome{withdrawn: withdrawn, err: err}
			}
		case isFinal(err, lockFinal):
			return lockOutcome{err: err}
		default: // no daemon, one that is not the master yet, or one that cannot write its locks
			locking.CallLost()
			if callCtx.Err() == nil {
				sleep(callCtx, delay)
				delay = min(2*delay, retryMax)
			}
		}
	}
	return lockOutcome{held: locking.Acquired()}
}

// newCallContext returns the context of the next call, which reprioritise cancels.
func (l *lockClient) newCallContext(ctx context.Context) (context.Context, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelCall != nil {
		l.cancelCall()
	}
	ctx, l.cancelCall = context.WithCancel(ctx)
	return ctx, l.priority
}

// reprioritise repeats the current call, with another priority.
func (l *lockClient) reprioritise(priority int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.priority = priority
	if l.cancelCall != nil {
		l.cancelCall()
	}
}

// releaseAll releases all locks, and withdraws a waiting request. It returns when that is done,
// or ctx has ended: the daemon frees the locks of an ended process.
func (l *lockClient) releaseAll(ctx context.Context) {
	select {
	case l.semaphore <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-l.semaphore }()
	if !l.mayHoldLocks {
		return
	}
	for delay := retryFirst; ctx.Err() == nil; delay = min(2*delay, retryMax) {
		if _, err := l.call(ctx, "freeLocks", []any{l.owner}, 0); err == nil {
			l.mayHoldLocks = false
			return
		}
		sleep(ctx, delay)
	}
}

func (l *lockClient) call(ctx context.Context, function string, args []any, pause time.Duration) (json.RawMessage, error) {
	sleep(ctx, pause)
	ctx, cancel := context.WithTimeout(ctx, jobproc.CallWaitSeconds*time.Second+answerTimeout)
	defer cancel()
	if l.client == nil {
		client, err := luxiclient.Dial(ctx, l.socket, luxiclient.Options{})
		if err != nil {
			return nil, err
		}
		l.client = client
	}
	var result json.RawMessage
	err := l.client.Call(ctx, function, args, &result)
	var answered *wire.Error
	if err != nil && !errors.As(err, &answered) {
		_ = l.client.Close() // broken: the next call connects again
		l.client = nil
	}
	return result, err
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
