package sim

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// chaos strikes: at random, or as a recipe says. It has dice of its own, so that the
// same seed without faults has the same schedule.
type chaos struct {
	world  *World
	faults Faults
	// cluster are those that take several nodes.
	cluster ClusterFaults
	rng     *rand.Rand
	chances [strikeKinds]uint64 // that each kind has had
	struck  []Strike            // by the dice, so far

	scripted bool // no dice: what is to come is in script
	script   [strikeKinds][]Strike
	how      []int // what is left to say of the strike at hand

	asleep bool // nothing goes wrong, and that is no chance
}

func newChaos(w *World, f Faults) *chaos {
	c := &chaos{world: w, faults: f, rng: rand.New(rand.NewPCG(w.options.Seed, 0xc4a05))}
	for _, n := range w.nodes {
		c.haunt(n)
	}
	return c
}

// follow has the strikes of a recipe happen, and no others.
func (c *chaos) follow(strikes []Strike) {
	c.scripted = true
	for _, s := range strikes {
		c.script[s.Kind] = append(c.script[s.Kind], s)
	}
	for _, script := range c.script {
		slices.SortFunc(script, func(a, b Strike) int { return int(a.At) - int(b.At) })
	}
}

// haunt has a node's disk fail.
func (c *chaos) haunt(n *node) {
	n.disk.chance = func(op string, call diskCall) (FaultWhen, error) { return c.disk(n, op, call) }
	n.disk.part = c.draw
}

func (c *chaos) oneIn(n int) bool { return n > 0 && c.rng.IntN(n) == 0 }

// hits is one chance for a kind to strike.
func (c *chaos) hits(kind strikeKind, rate int) bool {
	if c.asleep {
		return false
	}
	c.chances[kind]++
	if c.scripted {
		return c.due(kind, c.chances[kind])
	}
	if !c.oneIn(rate) {
		return false
	}
	c.struck = append(c.struck, Strike{Kind: kind, At: c.chances[kind]})
	return true
}

// due takes a strike off the script if its chance has come.
func (c *chaos) due(kind strikeKind, chance uint64) bool {
	script := c.script[kind]
	for len(script) > 0 && script[0].At < chance {
		script = script[1:]
	}
	c.script[kind] = script
	if len(script) == 0 || script[0].At != chance {
		return false
	}
	c.how, c.script[kind] = script[0].How, script[1:]
	return true
}

// draw is one of n ways in which the strike at hand may hit.
func (c *chaos) draw(n int) int {
	if !c.scripted {
		way := c.rng.IntN(n)
		if last := len(c.struck) - 1; last >= 0 {
			c.struck[last].How = append(c.struck[last].How, way)
		}
		return way
	}
	if len(c.how) == 0 {
		return 0
	}
	way := c.how[0] % n
	c.how = c.how[1:]
	return way
}

// stop ends the faults. What hangs because of them is put out of its misery.
func (c *chaos) stop() {
	c.faults, c.script = Faults{}, [strikeKinds][]Strike{}
	for _, n := range c.world.nodes {
		n.full, n.starved = full{}, time.Time{}
		for _, p := range append([]*process(nil), n.machine.processes...) {
			if p.hung {
				p.kill("SIGKILL")
			}
		}
	}
	c.cluster = ClusterFaults{}
	c.heal()
}

func (c *chaos) stalls() bool { return c.hits(strikeStall, c.faults.Stall) }

func (c *chaos) panics(kind messageKind) panicWhen {
	switch {
	case kind == frameworkMessage || !c.hits(strikePanic, c.faults.Panic):
		return noPanic
	case kind == startedMessage || c.draw(2) == 0:
		return panicAfter
	default:
		return panicBefore
	}
}

var diskErrors = []error{syscall.ENOSPC, syscall.EIO}

// disk has calls fail. Of a sync that failed nobody knows what it has done; an
// append may have written the beginning; the others have done nothing.
func (c *chaos) disk(n *node, op string, call diskCall) (FaultWhen, error) {
	if n.fills(op, call) {
		return BeforeEffect, syscall.ENOSPC
	}
	if !c.hits(strikeDisk, c.faults.Disk) {
		return BeforeEffect, nil
	}
	err := diskErrors[c.draw(len(diskErrors))]
	if call == callSync && c.draw(2) == 0 {
		return AfterEffect, err
	}
	if call == callAppend && c.draw(2) == 0 {
		return PartEffect, err
	}
	return BeforeEffect, err
}

// full is that a disk refuses to write, for a while.
type full struct {
	until time.Time
	op    string // "": everything
}

// fills: the disk has no room for a write now.
func (n *node) fills(op string, call diskCall) bool {
	if !n.world.clock.now.Before(n.full.until) || call != callReplace && call != callAppend {
		return false
	}
	return n.full.op == "" || n.full.op == op
}

// fullOps are the steps of which a disk may refuse the writes alone: a quota, a
// directory whose blocks are used up.
var fullOps = []string{"", "", "", "run-job", "submit-job", "serial", "start-job", "end-job", "archive-job", "locks", "config", "settings", "apply"}

// fill makes the disk of a node full, for a while.
func (c *chaos) fill(n *node) {
	n.full.op = fullOps[c.draw(len(fullOps))]
	n.full.until = c.world.clock.now.Add(time.Duration(1+c.draw(8000)) * time.Millisecond)
	n.say(TopicFault, "the disk is full (%s)", n.full.op)
}

// hangsUp is when a client drops its connection, if it does: after a while, or after
// so many steps of its own, for most answers take no time.
func (c *chaos) hangsUp() (after time.Duration, steps int, does bool) {
	switch {
	case !c.hits(strikeDrop, c.faults.Drop):
		return 0, 0, false
	case c.draw(2) == 0:
		return 0, c.draw(30), true
	default:
		return time.Duration(c.draw(3000)) * time.Millisecond, 0, true
	}
}

// remains are dice for what is left behind; they change nothing else.
func (c *chaos) remains() *rand.Rand {
	return rand.New(rand.NewPCG(c.world.options.Seed, c.world.count))
}

// fate is what becomes of a process at a stage.
type fate uint8

const (
	fateLive fate = iota
	fateDie
	fateHang
)

func (w *World) fate(p *process, s stage) fate {
	c := w.chaos
	switch {
	case w.clock.now.Before(p.machine.node.starved) && p.starves(s):
		return fateDie
	case !c.hits(strikeProcess, c.faults.Process):
		return fateLive
	case c.draw(4) == 0:
		return fateHang
	default:
		return fateDie
	}
}

func (w *World) refusesToSpawn(int64) bool { return w.chaos.hits(strikeSpawn, w.chaos.faults.Process) }

// restartDelay is systemd's.
const restartDelay = time.Second
