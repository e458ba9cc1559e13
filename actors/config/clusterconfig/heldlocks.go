package clusterconfig

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/core/config/calls"
	"lockstep/core/lock"
	"lockstep/messages"
)

// heldLocks is what the lock manager has told of the locks that calls depend on.
type heldLocks struct {
	known   bool
	holders locks.ConfigLocks
	daemon  lock.Owner // the daemon as an owner of the big lock
}

// held reports whether a client holds the configuration lock.
func (h *heldLocks) held() bool { return len(h.holders.Config) > 0 }

// forClient returns the locks as a call of a client sees them.
func (h *heldLocks) forClient(o lock.Owner) calls.Locks {
	mode := h.holders.Config[o]
	l := calls.Locks{Held: h.held(), Mode: mode, Granted: mode != lock.None}
	switch h.holders.BGL {
	case lock.Owner{}:
	case o:
		l.BGL = calls.BGLClient
	case h.daemon:
		l.BGL = calls.BGLDaemon
	}
	return l
}

// names names the holders of the configuration lock, for people.
func (h *heldLocks) names() string {
	var names []string
	for _, o := range slices.SortedFunc(maps.Keys(h.holders.Config), lock.Owner.Compare) {
		names = append(names, o.String())
	}
	return strings.Join(names, ", ")
}

// waiting are the calls that wait until no client holds the configuration lock, in the order of their arrival.
type waiting struct {
	requests []*request
	last     uint64 // number of the last one
}

// patienceOver is a timer: a call has waited long enough.
type patienceOver struct{ number uint64 }

// wait makes a request wait. patience bounds the wait of a call that takes the lock; other calls wait for the first message of the
// lock manager.
func (c *clusterconfig) wait(ctx actor.Context, r *request) {
	w := &c.waiting
	w.last++
	r.number = w.last
	w.requests = append(w.requests, r)
	r.stop = func() bool { return true }
	patience := r.patience
	if !c.locks.known {
		patience = min(patience, managerPatience)
	}
	if r.call.TakesLock() {
		r.stop = kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), patience, ctx.Self(), &patienceOver{uint64(c.incarnation)<<32 | r.number})
	}
}

// serveWaiting applies the calls that no longer have to wait. If one of them finds another state on the disk, the others are deferred
// until it is loaded.
func (c *clusterconfig) serveWaiting(ctx actor.Context) {
	requests := c.waiting.requests
	c.waiting.requests = nil
	for i, r := range requests {
		if !c.ready(r.origin.Message, r.origin.Sender) { // a call before it has found another state on the disk
			r.stop()
			continue
		}
		if c.mustWait(r) {
			c.waiting.requests = append(c.waiting.requests, requests[i])
			continue
		}
		r.stop()
		c.apply(ctx, r)
	}
}

// mustWait reports whether a call waits for the release of the configuration lock, or for the lock manager.
func (c *clusterconfig) mustWait(r *request) bool {
	return !c.locks.known || r.call.TakesLock() && c.locks.held()
}

// patienceOver answers a call that has waited for too long: it is busy, or it fails if the lock manager has not told its locks yet.
func (c *clusterconfig) patienceOver(ctx actor.Context, m *patienceOver) {
	for i, r := range c.waiting.requests {
		if uint64(c.incarnation)<<32|r.number == m.number {
			c.waiting.requests = slices.Delete(c.waiting.requests, i, i+1)
			switch {
			case c.locks.known || r.patience < managerPatience:
				_, out := r.call.Apply(c.commits.state, calls.Env{Locks: calls.Locks{Held: true}})
				r.answer(ctx, out, nil)
			default:
				r.answer(ctx, calls.Outcome{Err: errorOf(messages.ConfigurationFailure(managerSilent))}, nil)
			}
			return
		}
	}
}

// callPatience is how long a call waits for the release of the configuration lock (config.md 12.15), and editPatience how long a
// change of lockstep's own.
const (
	callPatience = time.Second
	editPatience = time.Minute
	// managerPatience is how long a change of lockstep's own waits for a lock manager that is not ready, as on a full disk.
	managerPatience = 10 * time.Second
)

const managerSilent = "The configuration was not changed, because the lock manager is not ready: " +
	"perhaps its files cannot be written. lockstep status says more"
