package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// FaultRates are the rates of faults: 1 in so many opportunities, 0 for never.
type FaultRates struct {
	Crash   int // of the daemon, per step
	Reboot  int // of the machine, per step
	Disk    int // per call to the disk
	Process int // a process dies or hangs, per stage
	Panic   int // per message to an actor
	Stall   int // a timer overtakes a possible step, per step
	Full    int // the disk refuses writes for a while, all or those of one op, per step
	Drop    int // a client hangs up while it waits for an answer, per call
	Stop    int // the daemon is stopped in order, per step
	Starve  int // all processes die at their start for a while, per step
}

// FaultKinds are the names of the kinds, as parseFaults accepts them.
//
// "disk" fails single calls; "full" fails all writes, or those of one op, for a while, or takes the
// directory of the queue from job processes; "starve"
// ends all processes before they have named their lock files, for a while; "drop" makes clients
// hang up; "stop" stops daemons in order and starts them again, as an upgrade does. The others
// are for clusters only: "partition" cuts nodes off and makes them slow, "pause" suspends
// daemons, "wipe" empties disks, "transfer" transfers the mastership, "lost-queue" takes the
// power of a machine, which comes back without the queue's directory, "older-queue" with an earlier copy of it.
var FaultKinds = []string{
	"crash", "reboot", "disk", "full", "process", "panic", "stall", "drop", "stop", "starve", "partition", "pause",
	"wipe", "transfer", "lost-queue", "older-queue",
}

// clusterFaultKinds are the kinds for clusters only.
var clusterFaultKinds = []string{"partition", "pause", "wipe", "transfer", "lost-queue", "older-queue"}

// parseFaults reads "none", or kinds separated by commas, one of which may be "all".
func parseFaults(text string) (map[string]bool, error) {
	kinds := map[string]bool{}
	if text == "none" {
		return kinds, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if name == "all" {
			for _, kind := range FaultKinds {
				kinds[kind] = true
			}
			continue
		}
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

// drawFaultRates draws rates for the allowed kinds. Each run leaves some kinds out, because a run
// in which everything fails all the time reaches little.
//
// Newer kinds have separate dice, later: so the draws of the older kinds do not change, and kept
// seeds stay useful.
func drawFaultRates(rng, later *rand.Rand, allowed map[string]bool) FaultRates {
	draw, drawLater := drawRates(rng, allowed), drawRates(later, allowed)
	return FaultRates{
		Crash:   draw("crash", 150, 3000),
		Reboot:  draw("reboot", 400, 6000),
		Disk:    draw("disk", 10, 400),
		Process: draw("process", 8, 200),
		Panic:   draw("panic", 60, 3000),
		Stall:   draw("stall", 30, 1000),
		Full:    drawLater("full", 300, 6000),
		Drop:    drawLater("drop", 5, 100),
		Stop:    drawLater("stop", 300, 6000),
		Starve:  drawLater("starve", 300, 6000),
	}
}

// drawRates returns a function that draws the rate of a kind between often and rarely: one fault in so many opportunities. 0: none, also
// for a kind that is not allowed.
func drawRates(rng *rand.Rand, allowed map[string]bool) func(kind string, often, rarely int) int {
	return func(kind string, often, rarely int) int {
		rate, in := often+rng.IntN(rarely-often), rng.IntN(3) > 0
		if !in || !allowed[kind] {
			return 0
		}
		return rate
	}
}
