package sim

import (
	"io/fs"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"lockstep/sim/simdisk"
)

// injector injects faults, at random or by a recipe. It has separate dice, so that a seed has
// the same order of steps without faults.
type injector struct {
	world *World
	rates FaultRates
	// clusterRates are the rates of faults that need several nodes.
	clusterRates  ClusterFaultRates
	rng           *rand.Rand
	later         *rand.Rand             // of kinds with dice of their own
	opportunities [faultKindCount]uint64 // number of opportunities of each kind so far
	injected      []Fault                // faults drawn so far

	scheduled bool // no dice: recipe has the faults to come
	recipe    [faultKindCount][]Fault
	choices   []int // unused details of the current fault

	disabled bool // no fault is injected, and no opportunity counted
}

func newInjector(w *World, f FaultRates) *injector {
	c := &injector{
		world: w,
		rates: f,
		rng:   rand.New(rand.NewPCG(w.options.Seed, 0xc4a05)),
		later: rand.New(rand.NewPCG(w.options.Seed, 0x01de4)),
	}
	for _, n := range w.nodes {
		c.attachDisk(n)
	}
	return c
}

// replay injects the faults of a recipe at their opportunities, and no others.
func (c *injector) replay(faults []Fault) {
	c.scheduled = true
	for _, s := range faults {
		c.recipe[s.Kind] = append(c.recipe[s.Kind], s)
	}
	for _, script := range c.recipe {
		slices.SortFunc(script, func(a, b Fault) int { return int(a.At) - int(b.At) })
	}
}

// attachDisk lets the calls of a node's disk fail when the injector says so.
func (c *injector) attachDisk(n *node) {
	n.disk.Chance = func(op string, call simdisk.Call) (simdisk.FaultWhen, error) { return c.disk(n, op, call) }
	n.disk.Partial = c.draw
}

func (c *injector) oneIn(n int) bool { return n > 0 && c.rng.IntN(n) == 0 }

// occurs reports whether a fault of a kind comes at this opportunity: by the recipe, or one in rate. It records the fault.
func (c *injector) occurs(kind faultKind, rate int) bool {
	if c.disabled {
		return false
	}
	c.opportunities[kind]++
	if c.scheduled {
		return c.due(kind, c.opportunities[kind])
	}
	if !c.oneIn(rate) {
		return false
	}
	c.injected = append(c.injected, Fault{Kind: kind, At: c.opportunities[kind]})
	return true
}

// due takes a fault off the recipe if its opportunity has come, and reports whether it has. Faults whose opportunity has passed are
// dropped.
func (c *injector) due(kind faultKind, chance uint64) bool {
	script := c.recipe[kind]
	for len(script) > 0 && script[0].At < chance {
		script = script[1:]
	}
	c.recipe[kind] = script
	if len(script) == 0 || script[0].At != chance {
		return false
	}
	c.choices, c.recipe[kind] = script[0].Choices, script[1:]
	return true
}

// draw draws one of n variants of the current fault, or takes it from the recipe.
func (c *injector) draw(n int) int {
	if !c.scheduled {
		way := c.rng.IntN(n)
		if last := len(c.injected) - 1; last >= 0 {
			c.injected[last].Choices = append(c.injected[last].Choices, way)
		}
		return way
	}
	if len(c.choices) == 0 {
		return 0
	}
	way := c.choices[0] % n
	c.choices = c.choices[1:]
	return way
}

// stop ends the faults and kills the processes that hang, so that everything can end.
func (c *injector) stop() {
	c.rates, c.recipe = FaultRates{}, [faultKindCount][]Fault{}
	for _, n := range c.world.nodes {
		n.diskFull, n.starvedUntil = diskFull{}, time.Time{}
		for _, p := range append([]*process(nil), n.machine.processes...) {
			if p.hung {
				p.kill("SIGKILL")
			}
		}
	}
	c.clusterRates = ClusterFaultRates{}
	c.heal()
}

func (c *injector) stalls() bool { return c.occurs(faultStall, c.rates.Stall) }

func (c *injector) panics(kind messageKind) panicWhen {
	switch {
	case kind == frameworkMessage || !c.occurs(faultPanic, c.rates.Panic):
		return noPanic
	case kind == startedMessage || c.draw(2) == 0:
		return panicAfter
	default:
		return panicBefore
	}
}

var diskErrors = []error{syscall.ENOSPC, syscall.EIO}

// disk decides whether a call to a disk fails. A failed sync may have had its effect, a failed append may have written the
// beginning; other failed calls have no effect.
func (c *injector) disk(n *node, op string, call simdisk.Call) (simdisk.FaultWhen, error) {
	if err := n.refusesWrite(op, call); err != nil {
		return simdisk.BeforeEffect, err
	}
	if !c.occurs(faultDisk, c.rates.Disk) {
		return simdisk.BeforeEffect, nil
	}
	err := diskErrors[c.draw(len(diskErrors))]
	if (call == simdisk.CallSync || call == simdisk.CallSyncAll) && c.draw(2) == 0 {
		return simdisk.AfterEffect, err
	}
	if (call == simdisk.CallAppend || call == simdisk.CallAppendDurable) && c.draw(2) == 0 {
		return simdisk.PartEffect, err
	}
	return simdisk.BeforeEffect, err
}

// diskFull is a period in which a disk refuses writes.
type diskFull struct {
	until time.Time
	op    string // the step whose writes fail; "": all steps
}

// refusesWrite is the error of a write for which the disk has no room now, or for which a job process does not find the
// directory of the queue; nil: the disk takes the write.
func (n *node) refusesWrite(op string, call simdisk.Call) error {
	switch {
	case !n.world.clock.Now().Before(n.diskFull.until) ||
		call != simdisk.CallReplace && call != simdisk.CallAppend && call != simdisk.CallAppendDurable:
	case n.diskFull.op == queueMissing && op == "run-job":
		return fs.ErrNotExist
	case n.diskFull.op == "" || n.diskFull.op == op:
		return syscall.ENOSPC
	}
	return nil
}

// queueMissing is the step of a diskFull in which job processes do not find the directory of the queue, because a file
// system is not mounted for them.
const queueMissing = "no queue"

// diskFullOps are the steps of which one is chosen whose writes fail: all, or one step, as with a quota on a directory.
var diskFullOps = []string{
	"", "", "", "run-job", "submit-job", "serial", "start-job", "end-job", "archive-job", "locks", "config", "settings",
	"apply", queueMissing,
}

// fillDisk makes the disk of a node fail for a while: it is full, or the queue's directory is gone.
func (c *injector) fillDisk(n *node) {
	n.diskFull.op = diskFullOps[c.draw(len(diskFullOps))]
	duration := time.Duration(1+c.draw(8000)) * time.Millisecond
	if n.diskFull.op == queueMissing {
		duration *= 20 // processes give up after a minute
	}
	n.diskFull.until = c.world.clock.Now().Add(duration)
	n.tracef(topicFault, "the disk is full (%s)", n.diskFull.op)
}

// hangsUp draws when a client drops its connection, if it does: after a while, or after some of
// its steps, because most answers take no time.
func (c *injector) hangsUp() (after time.Duration, steps int, does bool) {
	switch {
	case !c.occurs(faultDrop, c.rates.Drop):
		return 0, 0, false
	case c.draw(2) == 0:
		return 0, c.draw(30), true
	default:
		return time.Duration(c.draw(3000)) * time.Millisecond, 0, true
	}
}

// leftoverDice are separate dice for temporary files that stay, so that they change no other draws.
func (c *injector) leftoverDice() *rand.Rand {
	return rand.New(rand.NewPCG(c.world.options.Seed, c.world.stepCount))
}

// processFault is what happens to a process at a stage.
type processFault uint8

const (
	processLives processFault = iota
	processDies
	processHangs
)

func (w *World) processFault(p *process, s stage) processFault {
	c := w.injector
	switch {
	case w.clock.Now().Before(p.machine.node.starvedUntil) && p.starves(s):
		return processDies
	case !c.occurs(faultProcess, c.rates.Process):
		return processLives
	case c.draw(4) == 0:
		return processHangs
	default:
		return processDies
	}
}

func (w *World) refusesToSpawn(int64) bool {
	return w.injector.occurs(faultSpawn, w.injector.rates.Process)
}

// restartDelay is systemd's.
const restartDelay = time.Second
