package sim

import (
	"lockstep/actors/config/clusterconfig"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/sim/kernel"
	"lockstep/supervisor"
)

// callerWatch is the port of the configuration's actor to the processes that own reservations.
type callerWatch struct {
	daemon  *daemon
	watched map[reserve.Caller]bool
}

var _ clusterconfig.Owners = (*callerWatch)(nil)

func newCallerWatch(d *daemon) *callerWatch {
	return &callerWatch{daemon: d, watched: map[reserve.Caller]bool{}}
}

// Watch reports the death of a process, at once if it is dead. Owners are known by their livelock, other callers by their pid.
func (c *callerWatch) Watch(by reserve.Caller) {
	if by.Known {
		by = reserve.Caller{Known: true, Owner: lock.Owner{Livelock: by.Owner.Livelock}}
	}
	if c.watched[by] {
		return
	}
	c.watched[by] = true
	t := kernel.NewThread(c.daemon.world.kernel, c.daemon.life)
	tell := func() {
		t.Do(func() {
			delete(c.watched, by)
			c.daemon.env.System().Root.Send(supervisor.ClusterConfig(c.daemon.env), &clusterconfig.CallerDied{Caller: by})
		})
	}
	if p := c.process(by); p != nil {
		p.whenEnded(tell)
		return
	}
	tell()
}

// process returns the process of a caller; nil: there is none.
func (c *callerWatch) process(by reserve.Caller) *process {
	m := c.daemon.node.machine
	if by.Known {
		return m.livelocks[m.local(by.Owner.Livelock)]
	}
	for _, s := range m.sessions {
		if s.process.pid == by.PID {
			return s.process
		}
	}
	return nil
}
