package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/messages"
	"lockstep/supervisor"
)

// Fault is one injected fault of a run: its kind, its time and its details. As text it is
// "kind@when:choice,choice".
type Fault struct {
	Kind faultKind
	// At is the number of the step before which the fault comes. A fault that does not come
	// between steps counts its opportunities: calls to the disk, messages.
	At uint64
	// Choices are the details that were drawn. For a fault between steps the first one is the
	// node.
	Choices []int
}

type faultKind uint8

const (
	faultNone faultKind = iota
	// Faults between two steps.
	faultKill
	faultReboot
	faultCrash
	faultPartition
	faultSlow
	faultPause
	faultWipe
	faultTransfer
	faultFull
	faultStop
	faultStarve
	faultLoseQueue
	faultOlderQueue
	// Faults at an opportunity.
	faultPanic
	faultStall
	faultDisk
	faultProcess
	faultSpawn
	faultDrop
	faultLateRestart
	faultKindCount // number of kinds
)

var faultNames = [faultKindCount]string{
	"", "kill", "reboot", "crash", "partition", "slow", "pause", "wipe", "transfer", "full", "stop", "starve",
	"lost-queue", "older-queue", "panic", "stall", "disk", "process", "spawn", "drop", "away",
}

func (s Fault) String() string {
	text := fmt.Sprintf("%s@%d", faultNames[s.Kind], s.At)
	for i, way := range s.Choices {
		text += string(":,"[min(i, 1)]) + strconv.Itoa(way)
	}
	return text
}

// MarshalText and UnmarshalText have the form of String.
func (s Fault) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText has written: kind@when:way,way.
func (s *Fault) UnmarshalText(text []byte) error {
	name, rest, found := strings.Cut(string(text), "@")
	at, ways, some := strings.Cut(rest, ":")
	kind := slices.Index(faultNames[:], name)
	when, err := strconv.ParseUint(at, 10, 64)
	if !found || kind <= 0 || err != nil {
		return fmt.Errorf("%q is not a fault of the form kind@when:way,way", text)
	}
	*s = Fault{Kind: faultKind(kind), At: when}
	if !some {
		return nil
	}
	for word := range strings.SplitSeq(ways, ",") {
		way, err := strconv.Atoi(word)
		if err != nil || way < 0 {
			return fmt.Errorf("%q is not a fault of the form kind@when:way,way", text)
		}
		s.Choices = append(s.Choices, way)
	}
	return nil
}

// inject injects the faults that come between two steps: those of the recipe, or a drawn one.
func (c *injector) inject() {
	w := c.world
	if c.scheduled {
		for kind := faultKill; kind <= faultOlderQueue; kind++ {
			if c.due(kind, w.stepCount) {
				if n := w.nodes[c.draw(len(w.nodes))]; c.possible(kind, n) {
					c.perform(kind, n)
				}
			}
		}
		return
	}
	at := 0
	if len(w.nodes) > 1 && c.enabled() {
		at = c.rng.IntN(len(w.nodes))
	}
	if kind := c.drawKind(w.nodes[at]); kind != faultNone {
		c.injected = append(c.injected, Fault{Kind: kind, At: w.stepCount, Choices: []int{at}})
		c.perform(kind, w.nodes[at])
	}
	c.injectLater()
}

// injectLater injects the faults of kinds that have dice of their own, so that the draws of the older kinds do not change.
func (c *injector) injectLater() {
	w := c.world
	if rate := c.clusterRates.OlderQueue; rate == 0 || c.later.IntN(rate) > 0 {
		return
	}
	if at := c.later.IntN(len(w.nodes)); c.possible(faultOlderQueue, w.nodes[at]) {
		c.injected = append(c.injected, Fault{Kind: faultOlderQueue, At: w.stepCount, Choices: []int{at}})
		c.perform(faultOlderQueue, w.nodes[at])
	}
}

// killRateFactor is how much more rarely a process is killed between two steps than at a stage:
// there are many steps, and the process's command survives.
const killRateFactor = 40

// drawKind draws the kind of fault that hits a node now; faultNone: none does.
func (c *injector) drawKind(n *node) faultKind {
	for _, r := range [...]struct {
		kind faultKind
		rate int
	}{
		{faultKill, killRateFactor * c.rates.Process}, {faultReboot, c.rates.Reboot}, {faultCrash, c.rates.Crash},
		{faultPartition, c.clusterRates.Partition}, {faultSlow, c.clusterRates.Slow}, {faultPause, c.clusterRates.Pause},
		{faultWipe, c.clusterRates.Wipe}, {faultTransfer, c.clusterRates.Transfer}, {faultFull, c.rates.Full}, {faultStop, c.rates.Stop},
		{faultStarve, c.rates.Starve},
		{faultLoseQueue, c.clusterRates.LoseQueue},
	} {
		switch {
		case r.rate == 0:
		case r.kind == faultWipe, r.kind == faultLoseQueue: // to draw is cheaper than to check
			if c.oneIn(r.rate) && c.possible(r.kind, n) {
				return r.kind
			}
		case c.possible(r.kind, n) && c.oneIn(r.rate):
			return r.kind
		}
	}
	return faultNone
}

// possible reports whether the node is in a state that the fault can change.
func (c *injector) possible(kind faultKind, n *node) bool {
	switch kind {
	case faultKill:
		return len(n.machine.processes) > 0
	case faultCrash:
		return n.daemon != nil
	case faultPause:
		return n.daemon != nil && !n.daemon.life.Paused
	case faultStop:
		return n.daemon != nil && n.daemon.ready && !n.daemon.stopping && !n.daemon.life.Paused
	case faultWipe, faultLoseQueue:
		return c.world.allVoting()
	case faultOlderQueue:
		return n.clustered() && (n.older == nil || c.world.allVoting())
	case faultTransfer:
		return n.daemon != nil && n.daemon.nodeTree != nil
	case faultPartition, faultSlow:
		return n.clustered()
	default:
		return true
	}
}

func (c *injector) perform(kind faultKind, n *node) {
	c.world.notify(faultInjected{})
	switch kind {
	case faultKill:
		p := n.machine.processes[c.draw(len(n.machine.processes))]
		n.tracef(topicFault, "job %d: process is killed", p.job)
		n.disk.LeaveTemp(c.leftoverDice(), p.pid)
		p.kill("SIGKILL")
	case faultReboot:
		n.Reboot()
	case faultCrash:
		n.Crash()
	case faultPartition:
		c.partition()
	case faultSlow:
		n.tracef(topicFault, "is slow")
		n.cluster.slow = time.Duration(1+c.draw(200)) * time.Millisecond
		c.after(10*time.Second, func() { n.cluster.slow = 0 })
	case faultPause:
		n.pause(time.Duration(c.draw(6000)) * time.Millisecond)
	case faultWipe:
		n.wipe()
	case faultLoseQueue:
		n.loseQueue()
	case faultOlderQueue:
		n.copyOrRestoreQueue()
	case faultTransfer:
		n.tracef(topicFault, "is told to hand the mastership over")
		transfer := &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER}
		n.daemon.request(supervisor.Replicator(n.daemon.env), transfer, 10*time.Second, func(any) {})
	case faultFull:
		c.fillDisk(n)
	case faultStop:
		n.Stop()
	case faultStarve:
		n.starvedUntil = c.world.clock.Now().Add(time.Duration(1+c.draw(8000)) * time.Millisecond)
		n.tracef(topicFault, "processes die as they start")
	}
}

// enabled reports whether any fault has a rate.
func (c *injector) enabled() bool {
	return c.rates != (FaultRates{}) || c.clusterRates != (ClusterFaultRates{})
}

func (c *injector) after(most time.Duration, f func()) {
	c.world.clock.After(time.Duration(c.draw(int(most))), c.world.life, f)
}
