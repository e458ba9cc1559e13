package locks

import (
	"maps"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/lock"
)

// configLocks tells the configuration's actor who holds the locks that it must know.
type configLocks struct {
	to      *actor.PID
	holders ConfigLocks // as sent last; without Config: the state is not on the disk yet
}

// forget ends the messages until reset: the holders are not known any longer.
func (c *configLocks) forget() { c.holders = ConfigLocks{} }

// reset takes the holders of the configuration lock and the BGL from another state, and sends them.
func (c *configLocks) reset(ctx actor.Context, state *lock.State) {
	c.holders = ConfigLocks{Config: map[lock.Owner]lock.Mode{}}
	c.take(state.Allocation(), state.Owners())
	c.publish(ctx)
}

// update sends the holders if they have changed. changed are the owners whose locks have changed.
func (c *configLocks) update(ctx actor.Context, held *lock.Table, changed []lock.Owner) {
	if c.take(held, changed) {
		c.publish(ctx)
	}
}

// take takes the locks of owners, and reports whether the holders are others than before. It does nothing between forget and reset.
func (c *configLocks) take(held *lock.Table, owners []lock.Owner) (differ bool) {
	if c.holders.Config == nil {
		return false
	}
	config := c.holders.Config
	for _, o := range owners {
		if mode := held.Mode(o, lock.ConfigLock); mode != config[o] {
			if !differ {
				differ, config = true, maps.Clone(config) // the former map was sent
			}
			config[o] = mode
			if mode == lock.None {
				delete(config, o)
			}
		}
	}
	c.holders.Config = config
	for _, o := range owners {
		switch has := held.Mode(o, lock.BGL) == lock.Exclusive; {
		case has && c.holders.BGL != o:
			c.holders.BGL, differ = o, true
		case !has && c.holders.BGL == o:
			c.holders.BGL, differ = lock.Owner{}, true
		}
	}
	return differ
}

// publish sends the holders, if they are known. Otherwise reset sends them.
func (c *configLocks) publish(ctx actor.Context) {
	if m := c.holders; m.Config != nil {
		ctx.Send(c.to, &m)
	}
}
