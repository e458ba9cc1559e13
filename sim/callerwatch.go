package sim

import (
	"lockstep/actors/config"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/sim/kernel"
	"lockstep/supervisor"
)

// callerWatch is the port of the configuration's actor to the processes that own reservations. All of them have livelocks.
type callerWatch struct {
	daemon  *daemon
	watched map[string]bool
}

var _ config.Owners = (*callerWatch)(nil)

func newCallerWatch(d *daemon) *callerWatch {
	return &callerWatch{daemon: d, watched: map[string]bool{}}
}

// Watch reports the death of a livelock's process, at once if there is none.
func (c *callerWatch) Watch(by reserve.Caller) {
	livelock := by.Owner.Livelock
	if !by.Known || c.watched[livelock] {
		return
	}
	c.watched[livelock] = true
	t := kernel.NewThread(c.daemon.world.kernel, c.daemon.life)
	tell := func() {
		t.Do(func() {
			delete(c.watched, livelock)
			died := reserve.Caller{Known: true, Owner: lock.Owner{Livelock: livelock}}
			c.daemon.env.System().Root.Send(supervisor.ClusterConfig(c.daemon.env), &config.CallerDied{Caller: died})
		})
	}
	if p := c.daemon.node.machine.livelocks[livelock]; p != nil {
		p.whenEnded(tell)
		return
	}
	tell()
}
