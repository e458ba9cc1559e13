package sim

import (
	"slices"
	"time"

	"lockstep/actors/conn"
	"lockstep/core/budget"
)

// entrance bounds the connections to a daemon's queue socket, as the listener of edge/socket does with core/budget. Only runs with a crowd
// have one.
type entrance struct {
	slots *budget.Slots
	conns map[*budget.Slot]*simConn
}

// entranceMax is the number of connections of clients at a time, and of job processes.
const entranceMax = 12

func newEntrance() *entrance {
	return &entrance{slots: budget.NewSlots(entranceMax), conns: map[*budget.Slot]*simConn{}}
}

// connectionLost: a client was refused a connection, or lost one to make room for a newcomer.
type connectionLost struct {
	entrance *entrance
	client   budget.Client
	newcomer budget.Client
	refused  bool
}

// admit gives a connection a slot, for which another one may have to give way. It reports false if the client is refused.
func (o *entrance) admit(c *simConn) bool {
	if o == nil {
		return true
	}
	w, client := c.daemon.world, c.rpc.as
	counted := client
	if w.mutations.OneClient {
		counted.Name = "anybody"
	}
	added, evicted := o.slots.Admit(counted)
	if victim := o.conns[evicted]; victim != nil {
		delete(o.conns, evicted)
		w.notify(connectionLost{entrance: o, client: victim.client, newcomer: client})
		victim.evict()
	}
	if added == nil {
		w.notify(connectionLost{entrance: o, client: client, newcomer: client, refused: true})
		return false
	}
	c.slot, c.client, c.phase, o.conns[added] = added, client, budget.Silent, c
	return true
}

func (o *entrance) move(c *simConn, to budget.Phase) {
	if o != nil && c.slot != nil {
		c.phase = to
		o.slots.Move(c.slot, to)
	}
}

// leave gives the slot of a connection back, if it has one.
func (o *entrance) leave(c *simConn) {
	if o != nil && c.slot != nil {
		o.slots.Remove(c.slot)
		delete(o.conns, c.slot)
	}
}

// evict ends a connection that gives way to another client.
func (c *simConn) evict() {
	if c.closing {
		return
	}
	c.closing = true
	c.thread.Do(func() {
		if c.to != nil && (c.reading || c.phase == budget.Sending) {
			c.deliver(&conn.Closed{})
		}
		c.drop()
	})
}

// sendMax is how long a client may take for an answer, as in edge/socket.
const sendMax = 60 * time.Second

// sendSlowly passes an answer to a client that takes it after a time. If that exceeds sendMax, the connection is closed instead.
func (c *simConn) sendSlowly(frame []byte, after time.Duration) {
	c.daemon.entrance.move(c, budget.Sending)
	c.daemon.world.clock.After(min(after, sendMax), c.daemon.life, func() {
		c.thread.Do(func() {
			if c.closing {
				return
			}
			if after > sendMax && c.rpc != nil {
				c.closing = true
				c.deliver(&conn.Closed{})
				c.drop()
				return
			}
			c.passAnswer(frame)
		})
	})
}

// counts is how many connections each client of a class has.
func (o *entrance) counts(class budget.Class) map[budget.Client]int {
	counts := map[budget.Client]int{}
	for _, c := range o.conns { // the order does not matter
		if c.client.Class == class {
			counts[c.client]++
		}
	}
	return counts
}

// hasIdle reports whether a client has a connection on which no request is at work.
func (o *entrance) hasIdle(client budget.Client) bool {
	for _, c := range o.conns { // the order does not matter
		if c.client == client && c.phase != budget.Working {
			return true
		}
	}
	return false
}

// sortedClients are the clients of counts by name.
func sortedClients(counts map[budget.Client]int) []budget.Client {
	var all []budget.Client
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b budget.Client) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all
}
