// Package locks is the lock manager: the actor that gives locks to jobs and to
// anybody else who asks (locks.md 1; design.md 7).
//
// It owns who holds what and who waits for what, and the files that say so:
// locks.data and the journal of the changes since. It may be called as WConfD is
// (Call), and is told by the queue which jobs are over, and by the
// port which owners are dead. It tells those who wait what they have got, and
// never before that is written. After a crash it reads its files again; calls
// that were not answered come again.
package locks

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/messages"
)

// Owners is the port to the processes that own locks or want some, known by
// livelock and pid.
type Owners interface {
	// Watch has the actor told, once, with messages.OwnerDied, when nobody
	// holds the livelock any more; at once where that is so already. To watch
	// what is watched changes nothing, but another pid is remembered.
	Watch(livelock string, pid int)
	// Forget ends a watch.
	Forget(livelock string)
	// Wake sends SIGHUP to the very process that was there when Watch was first
	// called for the two, if its livelock is held.
	Wake(livelock string, pid int)
	// Probe looks at livelocks now, and tells which are dead.
	Probe(livelocks []string, answer func(dead []string))
	// Remove makes away with the livelock of somebody found dead.
	Remove(livelock string)
}

// Config is what the lock manager needs. Boot names the machine's present boot:
// locks of a former one are nobody's. Self is the daemon's own identity. Clients
// are told of each new incarnation. Fence is how long a new master of a cluster grants
// nothing; 0 where no jobs of another one can be at work.
type Config struct {
	Env         *kit.Env
	Store       *actor.PID
	Queue       *actor.PID
	Clients     []*actor.PID
	Subscribers []*actor.PID // are told of each change of locks, once there are any
	Scheduler   *actor.PID
	Owners      Owners
	Settings    lock.Settings
	Boot        string
	Self        lock.Owner
	Fence       time.Duration
}

// Props makes the lock manager. Its incarnations are numbered from 1.
func Props(c Config) *actor.Props {
	incarnation := uint32(0)
	fence := lock.NewFence(c.Env.Clock().Now(), c.Fence)
	return c.Env.Props("locks", func() actor.Actor {
		incarnation++
		return &locks{config: c, incarnation: incarnation, fence: fence, store: store.NewClient(c.Store, incarnation),
			number: uint64(incarnation) << 32, owners: newOwners(), waiters: map[lock.Owner]*waiter{}, paused: map[int64]bool{}}
	})
}

type locks struct {
	config      Config
	incarnation uint32
	store       *store.Client
	fence       lock.Fence
	fenced      bool // and it is not over yet

	state       *lock.State       // nil until the files have been read
	deferred    []deferredMessage // what was asked before
	unavailable *messages.Failure // why there is none for longer
	tries       int               // to read and write the files, in a row

	journal       journal
	owners        owners
	waiters       map[lock.Owner]*waiter
	paused        map[int64]bool  // jobs that may not be given locks
	pausesKnown   bool            // all of them are known
	deferredCalls []*deferredCall // what jobs have asked for before
	number        uint64          // of the last waiter
	quarantined   []string
	draining      *actor.PID
}

type deferredMessage struct {
	message any
	sender  *actor.PID
}

// retryRecover is due some time after the files could not be read or written.
type retryRecover struct{ incarnation uint32 }

func (l *locks) Receive(ctx actor.Context) {
	if l.store.Handle(ctx) {
		l.sendDrained(ctx)
		return
	}
	l.handle(ctx, ctx.Message(), ctx.Sender())
}

func (l *locks) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		l.store.Connect(ctx)
		l.startAfterFence(ctx)
	case *fenceExpired:
		l.fenceExpired(ctx, m)
	case *retryRecover:
		if m.incarnation == l.incarnation {
			l.recover(ctx)
		}
	case *Call:
		l.call(ctx, m, sender)
	case *messages.JobCleanedUp:
		l.jobCleanedUp(ctx, m)
	case *messages.OwnerDied:
		l.ownerDead(ctx, m.Livelock)
	case *messages.OwnersProbed:
		l.ownersDead(ctx, m, sender)
	case *waitExpired:
		l.waitExpired(ctx, m)
	case *deferredCallExpired:
		l.deferredCallExpired(ctx, m)
	case *messages.QueueStarted:
		l.repeatCleanupRequests(ctx)
	case *messages.SetLockPause:
		l.setPause(ctx, m)
	case *messages.SetLockPauses:
		l.pausesListed(ctx, m)
	case *messages.PublishLocks:
		if l.ready(message, sender) {
			l.publishLocks(ctx, l.state.Owners(), true)
		}
	case *messages.ConfigPublished:
		l.configChanged(ctx, m)
	case *messages.Drain:
		l.draining = sender
		l.sendDrained(ctx)
	default:
		kit.Unexpected(ctx)
	}
	l.flush(ctx)
}

// ready reports whether the lock manager may act on a message; it keeps one for
// later that it may not act on yet.
func (l *locks) ready(message any, sender *actor.PID) bool {
	if l.state == nil && l.unavailable == nil {
		l.deferred = append(l.deferred, deferredMessage{message, sender})
	}
	return l.state != nil
}

func (l *locks) sendDrained(ctx actor.Context) {
	if l.draining == nil || l.state == nil && l.unavailable == nil && !l.fenced || l.journal.writing || len(l.journal.records) > 0 {
		return
	}
	if l.unavailable == nil && l.journal.length > 0 {
		l.fold(ctx, lock.Encode(l.state.Snapshot())) // what is left behind is Ganeti's file, and whole
		return
	}
	ctx.Request(l.draining, &messages.DrainResult{})
	l.draining = nil
}

// configChanged takes the limit of bypass that is set now.
func (l *locks) configChanged(ctx actor.Context, m *messages.ConfigPublished) {
	settings, err := config.DecodeSettings(m.Settings)
	if err != nil {
		return // the scheduler complains
	}
	l.config.Settings.BypassAfter = settings.LockBypass()
	if l.state == nil || l.state.BypassAfter() == settings.LockBypass() {
		return
	}
	u := l.state.SetBypassAfter(l.config.Env.Clock().Now(), settings.LockBypass())
	l.changed(ctx, lock.CallResult{Changed: u.Changed, Notify: u.Notify})
}
