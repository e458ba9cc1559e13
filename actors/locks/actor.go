// Package locks is the lock manager: the actor that grants locks to jobs and to Ganeti's
// programs (locks.md 1; design.md "Locks").
//
// It owns the holders and the waiting requests of all locks, and the files with them:
// locks.data, and a journal of the changes since; and another such pair for free locks, once
// one has been used. Its operations are those of Call. The queue tells it when a job is
// cleaned up (JobCleanedUp), the port Owners when an owner is dead.
//
// It answers a call, and tells a waiting owner of its grant, only after the change is on the
// disk. It sends the scheduler and the subscribers OwnersPublished at once. After a crash it reads
// its files, and clients repeat the calls that were not answered.
package locks

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/lock"
	"lockstep/messages"
)

// Owners is the port to the processes that hold locks or wait for them. A process is known
// by livelock and pid.
type Owners interface {
	// Watch sends the actor messages.OwnerDied, once, when the livelock is free, at once if
	// it is free already. A second Watch of a livelock only updates the pid.
	Watch(livelock string, pid int)
	// Forget ends a watch.
	Forget(livelock string)
	// Wake sends SIGHUP to the process that had this pid when Watch was first called with
	// the two, if the livelock is held.
	Wake(livelock string, pid int)
	// Probe tries livelocks now, and calls answer with those that are free.
	Probe(livelocks []string, answer func(dead []string))
	// Remove removes the livelock of a dead owner.
	Remove(livelock string)
}

// Config has the neighbours and settings of the lock manager. Boot identifies the boot of the machine: locks of an earlier boot have no
// owner. Self is the daemon as a lock owner. Clients are sent each new incarnation. Fence is how long a new master of a cluster grants
// nothing; 0 if no jobs of a former master can be running.
type Config struct {
	Env     *kit.Env
	Store   *actor.PID
	Queue   *actor.PID // nil: this tree has no queue
	Clients []*actor.PID
	// ClusterConfig is sent ConfigLocks.
	ClusterConfig *actor.PID
	Subscribers   []*actor.PID // are sent each change of locks once the files are read
	Scheduler     *actor.PID   // nil: this tree has no queue
	Owners        Owners
	Settings      lock.Settings
	Boot          string
	Self          lock.Owner
	Fence         time.Duration
}

// Props describes the lock manager, the actor that grants locks to jobs and to Ganeti's programs.
func Props(c Config) *actor.Props {
	fence := lock.NewFence(c.Env.Clock().Now(), c.Fence)
	c.Settings.WithholdJobs = c.Scheduler != nil // until it has sent SetLockPauses
	return kit.NumberedProps(c.Env, "locks", func(incarnation uint32) actor.Actor {
		return &locks{
			config:      c,
			incarnation: incarnation,
			fence:       fence,
			store:       store.NewClient(c.Store, incarnation),
			number:      uint64(incarnation) << 32,
			owners:      newOwners(),
			configLocks: configLocks{to: c.ClusterConfig},
			waiters:     map[lock.Owner]*waiter{},
			paused:      map[int64]uint64{},
			unpassable:  map[int64]bool{},
		}
	})
}

type locks struct {
	config      Config
	incarnation uint32
	store       *store.Client
	fence       lock.Fence
	fenced      bool // the fence has not passed yet

	state       *lock.State       // nil until the files are read
	deferred    kit.Deferred[any] // messages to handle once there is a state
	unavailable *messages.Failure // why the files could not be read or written; nil: they can
	tries       int               // failed reads and writes of the files in a row

	journal       journal
	owners        owners
	configLocks   configLocks
	waiters       map[lock.Owner]*waiter
	paused        map[int64]uint64 // jobs that are granted no locks, with SetLockPause.withhold
	unpassable    map[int64]bool   // jobs whose requests nothing may overtake
	pausesKnown   bool             // paused is complete
	deferredCalls []*deferredCall  // calls of jobs that wait for pausesKnown
	number        uint64           // number of the last waiter
	quarantined   []string
	hasFreeFiles  bool // the files of the free locks exist
	draining      *actor.PID
}

// retryRecover is a timer after a failed read or write of the files.
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
	case *Operate:
		l.operate(ctx, m, sender)
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
	case *PublishOwners:
		if l.ready(message, sender) {
			ctx.Send(sender, l.published(l.state.Owners(), true))
		}
	case *PublishConfigLocks:
		if l.ready(message, sender) {
			l.configLocks.publish(ctx)
		}
	case *ForbidBypass:
		l.forbidBypass(m)
	case *SetBypassLimit:
		l.setBypassLimit(ctx, m.Limit)
	case *messages.Drain:
		l.draining = sender
		l.sendDrained(ctx)
	default:
		kit.Unexpected(ctx)
	}
	l.flush(ctx)
}

// ready reports whether the lock manager can handle a message now; otherwise it defers the
// message.
func (l *locks) ready(message any, sender *actor.PID) bool {
	if l.state == nil && l.unavailable == nil {
		l.deferred.Add(message, sender)
	}
	return l.state != nil
}

func (l *locks) sendDrained(ctx actor.Context) {
	if l.draining == nil || l.state == nil && l.unavailable == nil && !l.fenced || l.journal.writing || l.journal.hasRecords() {
		return
	}
	if l.unavailable == nil && l.journal.length() > 0 {
		l.fold(ctx, l.state.Snapshot()) // folded, so that the last file is complete and in Ganeti's format
		return
	}
	ctx.Request(l.draining, &messages.DrainResult{})
	l.draining = nil
}

func (l *locks) setBypassLimit(ctx actor.Context, limit time.Duration) {
	l.config.Settings.BypassAfter = limit
	if l.state == nil || l.state.BypassAfter() == limit {
		return
	}
	l.updated(ctx, l.state.SetBypassAfter(l.config.Env.Clock().Now(), limit))
}
