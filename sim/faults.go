package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"
)

// Faults are how often things go wrong: 1 in so many opportunities, 0 for never.
type Faults struct {
	Crash   int // of the daemon, per step
	Reboot  int // of the machine, per step
	Disk    int // per call to the disk
	Process int // death or hanging of a process, per stage
	Panic   int // per message to an actor
	Stall   int // a timer overtakes what could happen now, per step
}

// FaultKinds are the names of the kinds, as ParseFaults takes them.
//
// The last ones concern clusters alone: "partition" cuts nodes off and makes them slow,
// "pause" stops daemons short, "wipe" empties disks, "transfer" hands the mastership over.
var FaultKinds = []string{"crash", "reboot", "disk", "process", "panic", "stall", "partition", "pause", "wipe", "transfer"}

// ParseFaults reads "all", "none", or kinds separated by commas.
func ParseFaults(text string) (map[string]bool, error) {
	kinds := map[string]bool{}
	if text == "none" {
		return kinds, nil
	}
	names := strings.Split(text, ",")
	if text == "all" {
		names = FaultKinds
	}
	for _, name := range names {
		known := false
		for _, kind := range FaultKinds {
			known = known || kind == name
		}
		if !known {
			return nil, fmt.Errorf("unknown fault %q: there are all, none, %s", name, strings.Join(FaultKinds, ", "))
		}
		kinds[name] = true
	}
	return kinds, nil
}

// DrawFaults chooses rates for the kinds allowed. Each kind is left out of some
// runs: where everything fails all the time, much is never reached.
func DrawFaults(rng *rand.Rand, allowed map[string]bool) Faults {
	draw := func(kind string, often, rarely int) int {
		rate, in := often+rng.IntN(rarely-often), rng.IntN(3) > 0
		if !in || !allowed[kind] {
			return 0
		}
		return rate
	}
	return Faults{
		Crash:   draw("crash", 150, 3000),
		Reboot:  draw("reboot", 400, 6000),
		Disk:    draw("disk", 10, 400),
		Process: draw("process", 8, 200),
		Panic:   draw("panic", 60, 3000),
		Stall:   draw("stall", 30, 1000),
	}
}

// chaos strikes at random. It has dice of its own, so that the same seed
// without faults has the same schedule.
type chaos struct {
	world  *World
	faults Faults
	// cluster are those that take several nodes.
	cluster ClusterFaults
	rng     *rand.Rand
}

func newChaos(w *World, f Faults) *chaos {
	c := &chaos{world: w, faults: f, rng: rand.New(rand.NewPCG(w.options.Seed, 0xc4a05))}
	for _, n := range w.nodes {
		c.haunt(n)
	}
	return c
}

// haunt has a node's disk fail.
func (c *chaos) haunt(n *node) { n.disk.chance, n.disk.part = c.disk, c.rng.IntN }

func (c *chaos) oneIn(n int) bool { return n > 0 && c.rng.IntN(n) == 0 }

// stop ends the faults. What hangs because of them is put out of its misery.
func (c *chaos) stop() {
	c.faults = Faults{}
	for _, n := range c.world.nodes {
		for _, p := range append([]*process(nil), n.machine.processes...) {
			if p.hung {
				p.kill("SIGKILL")
			}
		}
	}
	c.cluster = ClusterFaults{}
	c.heal()
}

func (c *chaos) stalls() bool { return c.oneIn(c.faults.Stall) }

// killsRarer is by how much a process is less often hit between two steps than
// at a stage: there are many steps, and its command lives on.
const killsRarer = 40

// strike hits the daemon, the machine or a process, between two steps.
func (c *chaos) strike() {
	w := c.world
	if w.truth != nil {
		c.strikeCluster()
		return
	}
	switch living := w.machine.processes; {
	case len(living) > 0 && c.oneIn(killsRarer*c.faults.Process):
		p := living[c.rng.IntN(len(living))]
		w.trace.say(TopicFault, "job %d: process is killed", p.job)
		p.kill("SIGKILL")
	case c.oneIn(c.faults.Reboot):
		w.Reboot()
	case w.daemon != nil && c.oneIn(c.faults.Crash):
		w.Crash()
	}
}

func (c *chaos) panics(kind messageKind) panicWhen {
	switch {
	case kind == frameworkMessage || !c.oneIn(c.faults.Panic):
		return noPanic
	case kind == startedMessage || c.rng.IntN(2) == 0:
		return panicAfter
	default:
		return panicBefore
	}
}

var diskErrors = []error{syscall.ENOSPC, syscall.EIO}

// disk has calls fail. Of a sync that failed nobody knows what it has done; an
// append may have written the beginning; the others have done nothing.
func (c *chaos) disk(_ string, call diskCall) (FaultWhen, error) {
	if !c.oneIn(c.faults.Disk) {
		return BeforeEffect, nil
	}
	err := diskErrors[c.rng.IntN(len(diskErrors))]
	if call == callSync && c.rng.IntN(2) == 0 {
		return AfterEffect, err
	}
	if call == callAppend && c.rng.IntN(2) == 0 {
		return PartEffect, err
	}
	return BeforeEffect, err
}

// fate is what becomes of a process at a stage.
type fate uint8

const (
	fateLive fate = iota
	fateDie
	fateHang
)

func (w *World) fate(*process, stage) fate {
	c := w.chaos
	switch {
	case !c.oneIn(c.faults.Process):
		return fateLive
	case c.rng.IntN(4) == 0:
		return fateHang
	default:
		return fateDie
	}
}

func (w *World) refusesToSpawn(int64) bool { return w.chaos.oneIn(w.chaos.faults.Process) }

// restartDelay is systemd's.
const restartDelay = time.Second
