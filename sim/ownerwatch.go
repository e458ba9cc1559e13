package sim

import (
	"lockstep/actors/locks"
	"lockstep/messages"
	"lockstep/sim/kernel"
	"lockstep/supervisor"
)

// ownerWatch is the lock manager's port to the processes that own locks.
type ownerWatch struct {
	daemon         *daemon
	daemonLivelock string // the daemon's livelock
	watched        map[string]bool
}

var _ locks.Owners = (*ownerWatch)(nil)

func newOwnerWatch(d *daemon, own string) *ownerWatch {
	return &ownerWatch{daemon: d, daemonLivelock: own, watched: map[string]bool{}}
}

func (o *ownerWatch) alive(livelock string) bool {
	m := o.daemon.node.machine
	return livelock == o.daemonLivelock || m.alive(m.local(livelock))
}

// Watch reports the death of a livelock's process, at once if there is none.
func (o *ownerWatch) Watch(livelock string, _ int) {
	if o.watched[livelock] || livelock == o.daemonLivelock {
		return
	}
	o.watched[livelock] = true
	t := kernel.NewThread(o.daemon.world.kernel, o.daemon.life)
	tell := func() {
		t.Do(func() {
			if o.watched[livelock] {
				delete(o.watched, livelock)
				o.daemon.env.System().Root.Send(supervisor.Locks(o.daemon.env), &messages.OwnerDied{Livelock: livelock})
			}
		})
	}
	m := o.daemon.node.machine
	if p := m.livelocks[m.local(livelock)]; p != nil {
		p.whenEnded(tell)
		return
	}
	tell()
}

// Forget ends a watch: the death of the livelock is not reported.
func (o *ownerWatch) Forget(livelock string) { delete(o.watched, livelock) }

// Wake signals a process that does not wait on a connection: Ganeti's.
func (o *ownerWatch) Wake(livelock string, _ int) {
	o.daemon.world.trace.addf(topicProcess, "the holder of %s is woken", livelock)
	if p := o.daemon.node.machine.livelocks[livelock]; p != nil && !p.life.Over && p.ganeti != nil {
		p.then(p.ganeti.wake)
	}
}

// Probe answers with the dead ones of these livelocks, in the order given.
func (o *ownerWatch) Probe(livelocks []string, answer func(dead []string)) {
	t := kernel.NewThread(o.daemon.world.kernel, o.daemon.life)
	t.Do(func() {
		var dead []string
		for _, l := range livelocks {
			if !o.alive(l) {
				dead = append(dead, l)
			}
		}
		t.Do(func() { answer(dead) })
	})
}

// Remove removes a lock file, so that nobody holds the livelock.
func (o *ownerWatch) Remove(livelock string) {
	m := o.daemon.node.machine
	delete(m.livelocks, m.local(livelock))
}
