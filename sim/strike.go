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

// Strike is one fault of a run: what, when, and in which way. As text it is
// "kind@when:way,way".
type Strike struct {
	Kind strikeKind
	// At is the step before which something is hit. What does not come between steps
	// has its chances counted: the calls to the disk, the messages.
	At uint64
	// How are the choices that were made; the first one of a strike between steps is
	// the node.
	How []int
}

type strikeKind uint8

const (
	strikeNone strikeKind = iota
	// Between two steps.
	strikeKill
	strikeReboot
	strikeCrash
	strikePartition
	strikeSlow
	strikePause
	strikeWipe
	strikeTransfer
	strikeFull
	strikeStop
	strikeStarve
	strikeLoseQueue
	// When there is a chance.
	strikePanic
	strikeStall
	strikeDisk
	strikeProcess
	strikeSpawn
	strikeDrop
	strikeAway
	strikeKinds // how many there are
)

var strikeNames = [strikeKinds]string{"", "kill", "reboot", "crash", "partition", "slow", "pause", "wipe", "transfer", "full", "stop", "starve", "lost-queue",
	"panic", "stall", "disk", "process", "spawn", "drop", "away"}

func (s Strike) String() string {
	text := fmt.Sprintf("%s@%d", strikeNames[s.Kind], s.At)
	for i, way := range s.How {
		text += string(":,"[min(i, 1)]) + strconv.Itoa(way)
	}
	return text
}

// MarshalText and UnmarshalText have the form of String.
func (s Strike) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (s *Strike) UnmarshalText(text []byte) error {
	name, rest, found := strings.Cut(string(text), "@")
	at, ways, some := strings.Cut(rest, ":")
	kind := slices.Index(strikeNames[:], name)
	when, err := strconv.ParseUint(at, 10, 64)
	if !found || kind <= 0 || err != nil {
		return fmt.Errorf("%q is not a fault of the form kind@when:way,way", text)
	}
	*s = Strike{Kind: strikeKind(kind), At: when}
	if !some {
		return nil
	}
	for word := range strings.SplitSeq(ways, ",") {
		way, err := strconv.Atoi(word)
		if err != nil || way < 0 {
			return fmt.Errorf("%q is not a fault of the form kind@when:way,way", text)
		}
		s.How = append(s.How, way)
	}
	return nil
}

// strike hits some node, or all, between two steps.
func (c *chaos) strike() {
	w := c.world
	if c.scripted {
		for kind := strikeKill; kind <= strikeLoseQueue; kind++ {
			if c.due(kind, w.count) {
				if n := w.nodes[c.draw(len(w.nodes))]; c.possible(kind, n) {
					c.perform(kind, n)
				}
			}
		}
		return
	}
	at := 0
	if len(w.nodes) > 1 && c.any() {
		at = c.rng.IntN(len(w.nodes))
	}
	if kind := c.roll(w.nodes[at]); kind != strikeNone {
		c.struck = append(c.struck, Strike{Kind: kind, At: w.count, How: []int{at}})
		c.perform(kind, w.nodes[at])
	}
}

// killsRarer is by how much a process is less often hit between two steps than
// at a stage: there are many steps, and its command lives on.
const killsRarer = 40

// roll throws the dice for what may hit a node now.
func (c *chaos) roll(n *node) strikeKind {
	for _, r := range [...]struct {
		kind strikeKind
		rate int
	}{
		{strikeKill, killsRarer * c.faults.Process}, {strikeReboot, c.faults.Reboot}, {strikeCrash, c.faults.Crash},
		{strikePartition, c.cluster.Partition}, {strikeSlow, c.cluster.Slow}, {strikePause, c.cluster.Pause},
		{strikeWipe, c.cluster.Wipe}, {strikeTransfer, c.cluster.Transfer}, {strikeFull, c.faults.Full}, {strikeStop, c.faults.Stop},
		{strikeStarve, c.faults.Starve},
		{strikeLoseQueue, c.cluster.LoseQueue},
	} {
		switch {
		case r.rate == 0:
		case r.kind == strikeWipe, r.kind == strikeLoseQueue: // the dice are cheaper than to look
			if c.oneIn(r.rate) && c.possible(r.kind, n) {
				return r.kind
			}
		case c.possible(r.kind, n) && c.oneIn(r.rate):
			return r.kind
		}
	}
	return strikeNone
}

// possible: there is something to hit.
func (c *chaos) possible(kind strikeKind, n *node) bool {
	switch kind {
	case strikeKill:
		return len(n.machine.processes) > 0
	case strikeCrash:
		return n.daemon != nil
	case strikePause:
		return n.daemon != nil && !n.daemon.life.paused
	case strikeStop:
		return n.daemon != nil && n.daemon.ready && !n.daemon.stopping && !n.daemon.life.paused
	case strikeWipe, strikeLoseQueue:
		return c.world.whole()
	case strikeTransfer:
		return n.daemon != nil && n.daemon.whole != nil
	case strikePartition, strikeSlow:
		return n.clustered()
	default:
		return true
	}
}

func (c *chaos) perform(kind strikeKind, n *node) {
	c.world.notify(struck{})
	switch kind {
	case strikeKill:
		p := n.machine.processes[c.draw(len(n.machine.processes))]
		n.say(TopicFault, "job %d: process is killed", p.job)
		n.disk.leaveTemp(c.remains(), p.pid)
		p.kill("SIGKILL")
	case strikeReboot:
		n.Reboot()
	case strikeCrash:
		n.Crash()
	case strikePartition:
		c.partition()
	case strikeSlow:
		n.say(TopicFault, "is slow")
		n.member.slow = time.Duration(1+c.draw(200)) * time.Millisecond
		c.later(10*time.Second, func() { n.member.slow = 0 })
	case strikePause:
		n.pause(time.Duration(c.draw(6000)) * time.Millisecond)
	case strikeWipe:
		n.wipe()
	case strikeLoseQueue:
		n.loseQueue()
	case strikeTransfer:
		n.say(TopicFault, "is told to hand the mastership over")
		n.daemon.question(supervisor.Replicator(n.daemon.env), &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER}, 10*time.Second, func(any) {})
	case strikeFull:
		c.fill(n)
	case strikeStop:
		n.Stop()
	case strikeStarve:
		n.starved = c.world.clock.now.Add(time.Duration(1+c.draw(8000)) * time.Millisecond)
		n.say(TopicFault, "processes die as they start")
	}
}

// any: something may go wrong at all.
func (c *chaos) any() bool { return c.faults != (Faults{}) || c.cluster != (ClusterFaults{}) }

func (c *chaos) later(most time.Duration, f func()) {
	c.world.clock.after(time.Duration(c.draw(int(most))), c.world.life, f)
}
