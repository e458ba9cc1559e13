package sim

import (
	"errors"
	"fmt"
	"path"
	"time"

	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/sim/simdisk"
)

// logDir is the directory of a node's log. The simulated one holds only the id of the queue.
var logDir = path.Dir(paths.LogQueuePath)

// node is one machine with its disk and, most of the time, a daemon.
type node struct {
	world   *World
	name    string
	disk    *simdisk.Disk
	machine *machine
	daemon  *daemon // nil: none runs

	daemons      int    // number of daemons so far
	wantedRunDir string // with which the operator starts daemons; "": as before
	bootsSeen    int    // see Mutations.DropsJournal
	diskFull     diskFull
	older        *simdisk.Disk // a copy of queue/; nil: there is none
	starvedUntil time.Time     // until then processes die at their start
	// cluster is the part that only a node of a cluster has; nil: the node is not in a cluster.
	cluster *clusterNode
}

func newNode(w *World, name string) *node {
	n := &node{world: w, name: name}
	n.machine = newMachine(n)
	n.newDisk()
	return n
}

func (n *node) newDisk() {
	n.disk = simdisk.New(paths.QueueDir, paths.ArchiveDir, paths.QuarantineDir, paths.AuditDir, paths.ScheduleDir, logDir)
	n.disk.Changed = n.diskChanged
	n.disk.Failed = func(call simdisk.Call, op, path string, err error) {
		n.tracef(topicFault, "disk: %s %s (%s) fails: %v", call, path, op, err)
		n.world.notify(diskFailed{node: n, path: path})
	}
}

func (n *node) clustered() bool { return n.cluster != nil }

// tracef adds a line about this node to the trace. It names the node if there are several.
func (n *node) tracef(about topic, format string, args ...any) {
	n.world.trace.addf(about, "%s", n.prefix()+fmt.Sprintf(format, args...))
}

func (n *node) prefix() string {
	if !n.clustered() {
		return ""
	}
	return n.name + ": "
}

// Start starts a daemon as lockstepd does. The error is that of the disk or of the check of the queue; no daemon runs then.
func (n *node) Start() error {
	if n.daemon != nil {
		panic("sim: there is a daemon")
	}
	n.daemons++
	if err := n.prepare(); err != nil {
		n.tracef(topicDaemon, "daemon %d cannot start: %v", n.daemons, err)
		return err
	}
	n.disk.Mutations = n.world.mutations.Disk // not before there is a queue
	d := newDaemon(n)
	if n.clustered() {
		d.joinCluster()
	} else {
		d.startAlone()
	}
	return nil
}

// Crash ends the daemon at once; processes and the disk stay.
func (n *node) Crash() {
	n.tracef(topicFault, "daemon %d crashes", n.daemon.number)
	n.disk.LeaveTemp(n.world.injector.leftoverDice(), n.daemon.settings.About.PID)
	n.endDaemon()
}

func (n *node) endDaemon() {
	w, d := n.world, n.daemon
	n.daemon = nil
	d.life.Over = true
	d.outputs.end()
	for _, p := range n.machine.processes {
		p.stdin.closeWriter()
		p.stdout.closeReader()
	}
	for _, c := range d.conns {
		if c.rpc != nil {
			c.rpc.lost(c)
		}
	}
	for _, t := range d.tunnels {
		t.rpc.hangUp()
	}
	if n.clustered() {
		n.cluster.daemonEnded()
	}
	if w.restartAfter > 0 {
		w.clock.After(w.restartAfter+w.injector.extraDowntime(n), w.life, n.startAgain)
	}
}

func (n *node) startAgain() {
	if n.daemon != nil || !n.mayStart() {
		return
	}
	n.world.hands.beforeStart(n)
	err := n.Start()
	if _, lost := errors.AsType[*persistence.LostQueueError](err); lost && n.clustered() {
		n.rejoinAsNew() // the operator follows the daemon's error message
		return
	}
	if err != nil {
		n.world.clock.After(n.world.restartAfter, n.world.life, n.startAgain)
	}
}

// Reboot reboots the machine: the daemon, all processes and everything unsynced are gone.
func (n *node) Reboot() {
	n.tracef(topicFault, "the machine loses power")
	n.machine.losePower()
	n.disk.LosePower(n.world.rng)
	if n.daemon != nil {
		n.endDaemon()
	}
	if !n.clustered() {
		n.world.notify(powerLost{})
	}
}

// supervise notices that a daemon has failed or stopped, and ends it; a new one starts after a delay.
func (n *node) supervise() {
	if n.daemon == nil {
		return
	}
	select {
	case <-n.daemon.done:
		if n.daemon.stopping {
			n.tracef(topicDaemon, "daemon %d has stopped", n.daemon.number)
			if n.clustered() {
				n.daemon.settle()
			}
		} else {
			n.tracef(topicDaemon, "daemon %d cannot go on", n.daemon.number)
		}
		n.endDaemon()
	default:
	}
}

// As in lockstepd.
const (
	readyMax = 10 * time.Minute
	drainMax = 10 * time.Second
)

// Stop stops the daemon in order; its end is noticed by supervise.
func (n *node) Stop() {
	d := n.daemon
	n.tracef(topicDaemon, "daemon %d is told to stop", d.number)
	d.stopping = true
	if n.clustered() {
		d.resign()
		return
	}
	d.requestOK(d.tree.Root, &messages.Drain{}, drainMax, func(bool) { d.env.System().Root.Stop(d.tree.Root) })
}
