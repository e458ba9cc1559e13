package locks

import (
	"cmp"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// owners are the owners that hold or want locks, by livelock and by job.
type owners struct {
	byLivelock      map[string]map[lock.Owner]struct{}
	byJob           map[int64]map[lock.Owner]struct{}
	count           int
	awaitingCleanup map[int64]bool // AwaitJobCleanup was sent to the queue
}

func newOwners() owners {
	w := owners{awaitingCleanup: map[int64]bool{}}
	w.reset()
	return w
}

// reset forgets all owners, for another state.
func (w *owners) reset() {
	w.byLivelock, w.byJob, w.count = map[string]map[lock.Owner]struct{}{}, map[int64]map[lock.Owner]struct{}{}, 0
}

func (w *owners) len() int { return w.count }

// update begins or ends the knowledge of an owner, as known says that it has a record or has none any longer; otherwise it does nothing.
// The first record of an owner begins the watch of its livelock. The last does not end it, because the process may ask again soon.
func (w *owners) update(o lock.Owner, known bool, port Owners) {
	set := w.byLivelock[o.Livelock]
	_, was := set[o]
	switch {
	case known && !was:
		port.Watch(o.Livelock, o.PID)
		add(w.byLivelock, o.Livelock, o)
		if !o.Named {
			add(w.byJob, int64(o.Job), o)
		}
		w.count++
	case !known && was:
		remove(w.byLivelock, o.Livelock, o)
		if !o.Named {
			remove(w.byJob, int64(o.Job), o)
		}
		w.count--
	}
}

func add[K comparable](m map[K]map[lock.Owner]struct{}, key K, o lock.Owner) {
	if m[key] == nil {
		m[key] = map[lock.Owner]struct{}{}
	}
	m[key][o] = struct{}{}
}

func remove[K comparable](m map[K]map[lock.Owner]struct{}, key K, o lock.Owner) {
	delete(m[key], o)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}

func sortedOwners(set map[lock.Owner]struct{}) []lock.Owner {
	return slices.SortedFunc(maps.Keys(set), lock.Owner.Compare)
}

// ownerDead frees what a dead owner holds and wants. A job's locks are freed only after
// JobCleanedUp: orphans of its process may still be working, and its end must be on the
// disk before another job gets its locks (design.md "Death").
func (l *locks) ownerDead(ctx actor.Context, livelock string) {
	if l.state == nil {
		return // resume probes all owners
	}
	l.config.Owners.Forget(livelock)
	named := false
	dead := sortedOwners(l.owners.byLivelock[livelock])
	l.publishDead(ctx, dead)
	for _, o := range dead {
		if o.Named {
			named = true
			l.config.Env.Log().WithFields(logrus.Fields{"owner": o.String()}).Info("lock owner died; its locks are freed")
			l.release(ctx, o)
			continue
		}
		if l.hasLaterProcess(o) {
			l.release(ctx, o)
			continue
		}
		l.owners.awaitingCleanup[int64(o.Job)] = true
		l.requestCleanup(ctx, int64(o.Job))
	}
	if named {
		l.notifyWhenWritten(ctx, func(_ actor.Context, f *messages.Failure) {
			if f == nil {
				l.config.Owners.Remove(livelock)
			}
		})
	}
}

// releaseFormer frees what former processes of the job of an owner have left, who asks for locks. The queue starts a job again when all
// processes of the try before have ended, but its JobCleanedUp may have found no state, and for a job that has started again it sends none.
func (l *locks) releaseFormer(ctx actor.Context, o lock.Owner) {
	if o.Named || len(l.owners.byJob[int64(o.Job)]) == 0 {
		return
	}
	for _, former := range sortedOwners(l.owners.byJob[int64(o.Job)]) {
		if paths.StartOfLivelock(former.Livelock) < paths.StartOfLivelock(o.Livelock) {
			l.config.Owners.Forget(former.Livelock)
			l.release(ctx, former)
		}
	}
}

// hasLaterProcess reports whether a later process of the job of an owner has locks or wants them.
func (l *locks) hasLaterProcess(o lock.Owner) bool {
	for other := range l.owners.byJob[int64(o.Job)] { // the order does not matter
		if paths.StartOfLivelock(other.Livelock) > paths.StartOfLivelock(o.Livelock) {
			return true
		}
	}
	return false
}

// publishDead tells the subscribers of dead owners, before their locks are freed.
func (l *locks) publishDead(ctx actor.Context, dead []lock.Owner) {
	if len(dead) == 0 {
		return
	}
	kit.Publish(ctx, l.config.Subscribers, &OwnersPublished{Dead: dead, Incarnation: uint64(l.incarnation)})
}

// repeatCleanupRequests sends AwaitJobCleanup again to a restarted queue.
func (l *locks) repeatCleanupRequests(ctx actor.Context) {
	for _, id := range slices.SortedFunc(maps.Keys(l.owners.awaitingCleanup), cmp.Compare[int64]) {
		l.requestCleanup(ctx, id)
	}
}

// requestCleanup asks the queue to tell the end of a dead job. Without a queue the locks of the job stay until there is one:
// until then processes of the job may be alive.
func (l *locks) requestCleanup(ctx actor.Context, id int64) {
	if l.config.Queue != nil {
		ctx.Request(l.config.Queue, &messages.AwaitJobCleanup{Id: id})
	}
}

func (l *locks) jobCleanedUp(ctx actor.Context, m *messages.JobCleanedUp) {
	delete(l.owners.awaitingCleanup, m.Id)
	if l.state == nil {
		delete(l.paused, m.Id)
		return // resume finds the free livelock
	}
	for _, o := range sortedOwners(l.owners.byJob[m.Id]) {
		l.config.Owners.Forget(o.Livelock)
		l.release(ctx, o)
	}
	l.allow(ctx, m.Id)
}

func (l *locks) release(ctx actor.Context, o lock.Owner) {
	l.updated(ctx, l.state.Release(l.config.Env.Clock().Now(), o))
}

// probe tries the livelocks of all owners now. It answers the call with number request, if
// that is not 0.
func (l *locks) probe(ctx actor.Context, request uint64, sender *actor.PID) {
	livelocks := slices.Sorted(maps.Keys(l.owners.byLivelock))
	root, self := ctx.ActorSystem().Root, ctx.Self()
	l.config.Owners.Probe(livelocks, func(dead []string) {
		root.RequestWithCustomSender(self, &messages.OwnersProbed{Request: request, DeadLivelocks: dead}, sender)
	})
}

func (l *locks) ownersDead(ctx actor.Context, m *messages.OwnersProbed, sender *actor.PID) {
	if !l.ready(m, sender) {
		if l.unavailable != nil {
			l.refuse(ctx, m, sender)
		}
		return
	}
	for _, livelock := range m.DeadLivelocks {
		l.ownerDead(ctx, livelock)
	}
	if m.Request == 0 {
		return
	}
	l.notifyWhenWritten(ctx, func(ctx actor.Context, f *messages.Failure) {
		ctx.Send(sender, &OperateResult{Request: m.Request, Value: []any{}, Failure: f})
	})
}
