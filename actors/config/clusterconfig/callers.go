package clusterconfig

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/config/calls"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

// identitiesMax bounds the processes whose identity is known. A process that is forgotten counts as a process without identity.
const identitiesMax = 10_000

// callers knows the processes behind calls. Some calls carry no identity: their caller is the process at the other end of the
// socket, which is a job process or a tool. If that process has named itself in another call, its identity counts
// (config.md 12.6).
type callers struct {
	port       Owners
	identities map[int]lock.Owner // by pid; all are watched
	dead       []reserve.Caller   // of reservations that stay although their owner is dead
}

// identify learns which owner a process is. A name counts only for the process whose pid it has.
func (c *callers) identify(pid int, o lock.Owner) {
	if pid <= 0 || o.PID != pid || c.identities[pid] == o {
		return
	}
	if c.identities == nil || len(c.identities) >= identitiesMax {
		c.identities = map[int]lock.Owner{}
	}
	c.identities[pid] = o
	c.port.Watch(reserve.Caller{Known: true, Owner: o})
}

// named returns the identity of a process if it is known.
func (c *callers) named(by reserve.Caller) reserve.Caller {
	if o, known := c.identities[by.PID]; known && !by.Known {
		return reserve.Caller{Known: true, Owner: o}
	}
	return by
}

func (c *callers) watch(by reserve.Caller) {
	if by != (reserve.Caller{}) {
		c.port.Watch(by)
	}
}

// watchAll watches the owners of all reservations, so that their death is reported.
func (c *callers) watchAll(s reserve.State) {
	for _, by := range s.Callers() {
		c.watch(by)
	}
}

// isSame reports whether two callers are one process, or share a livelock.
func isSame(a, b reserve.Caller) bool {
	return a == b || a.Known && b.Known && a.Owner.Livelock == b.Owner.Livelock
}

// callerDied forgets a dead caller and drops its reservations.
func (c *clusterconfig) callerDied(ctx actor.Context, died reserve.Caller) {
	for pid, o := range c.callers.identities {
		if isSame(died, reserve.Caller{Known: true, Owner: o}) {
			delete(c.callers.identities, pid)
		}
	}
	c.dropDead(ctx, died)
}

// dropDead drops the reservations of dead callers. Those that stay are remembered: they are dropped when the configuration has no
// longer the disks that they are for.
func (c *clusterconfig) dropDead(ctx actor.Context, dead ...reserve.Caller) {
	isDead := func(by reserve.Caller) bool {
		return slices.ContainsFunc(dead, func(d reserve.Caller) bool { return isSame(d, by) })
	}
	owned := func() bool { return slices.ContainsFunc(c.commits.state.Reserved.Callers(), isDead) }
	if !owned() {
		return
	}
	c.apply(ctx, &request{call: calls.DropDead(isDead), caller: reserve.Caller{Program: "lockstepd"},
		answer: func(ctx actor.Context, out calls.Outcome, _ *model.Config) {
			if out.Err != nil { // it could not be written
				again := &dropAgain{c.incarnation, dead}
				kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), dropPause, ctx.Self(), again)
			}
		}})
	if owned() {
		c.callers.dead = append(c.callers.dead, dead...)
	}
}

// dropPause is the pause after which a release that could not be written is repeated.
const dropPause = 5 * time.Second

// dropAgain is a timer: the release of the reservations of dead callers could not be written.
type dropAgain struct {
	incarnation uint32
	dead        []reserve.Caller
}

// dropForDisks drops reservations of dead callers for disks that a change has removed.
func (c *clusterconfig) dropForDisks(ctx actor.Context, touched []model.Touched) {
	disks := slices.ContainsFunc(touched, func(t model.Touched) bool { return t.Kind == model.Disks.Name })
	if dead := c.callers.dead; disks && len(dead) > 0 {
		c.callers.dead = nil
		c.dropDead(ctx, dead...)
	}
}
