package sim

import (
	"lockstep/actors/locks"
	"lockstep/messages"
	"lockstep/supervisor"
)

// watchman is the lock manager's port to the processes that own locks.
type watchman struct {
	daemon  *daemon
	own     string // the daemon's livelock
	watched map[string]bool
}

var _ locks.Owners = (*watchman)(nil)

func newWatchman(d *daemon, own string) *watchman {
	return &watchman{daemon: d, own: own, watched: map[string]bool{}}
}

func (o *watchman) alive(livelock string) bool {
	return livelock == o.own || o.daemon.node.machine.alive(livelock)
}

// Watch tells of the end of a livelock's process, at once if there is none.
func (o *watchman) Watch(livelock string, _ int) {
	if o.watched[livelock] || livelock == o.own {
		return
	}
	o.watched[livelock] = true
	t := newThread(o.daemon.world.steps, o.daemon.life)
	tell := func() {
		t.do(func() {
			if o.watched[livelock] {
				delete(o.watched, livelock)
				o.daemon.env.System().Root.Send(supervisor.Locks(o.daemon.env), &messages.OwnerDead{Livelock: livelock})
			}
		})
	}
	if p := o.daemon.node.machine.livelocks[livelock]; p != nil {
		p.whenOver(tell)
		return
	}
	tell()
}

// Forget ends a watch.
func (o *watchman) Forget(livelock string) { delete(o.watched, livelock) }

// Wake would signal a process that does not wait on a connection: none does.
func (o *watchman) Wake(livelock string, _ int) {
	o.daemon.world.trace.say(TopicProcess, "the holder of %s is woken", livelock)
}

// Probe looks at livelocks.
func (o *watchman) Probe(livelocks []string, answer func(dead []string)) {
	t := newThread(o.daemon.world.steps, o.daemon.life)
	t.do(func() {
		var dead []string
		for _, l := range livelocks {
			if !o.alive(l) {
				dead = append(dead, l)
			}
		}
		t.do(func() { answer(dead) })
	})
}

// Remove removes a lock file.
func (o *watchman) Remove(livelock string) { delete(o.daemon.node.machine.livelocks, livelock) }
