package supervisor

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/monitor"
	coreconfig "lockstep/core/config"
)

// Monitor has the ports and settings of the monitor.
type Monitor struct {
	Sources monitor.Sources
	Board   monitor.Board
	// Node is the name of this node in the configuration.
	Node string
}

// hasMonitor reports whether this node has a monitor.
func hasMonitor(p Ports) bool { return p.Monitor != nil }

// monitorOf returns the monitor, if there is one.
func monitorOf(p Ports) *actor.PID {
	if hasMonitor(p) {
		return p.Env.PID(answersPath(p) + "/monitor")
	}
	return nil
}

func monitorProps(p Ports, s Settings) *actor.Props {
	return monitor.Props(monitor.Config{Env: p.Env, Sources: p.Monitor.Sources, Board: p.Monitor.Board, Node: p.Monitor.Node, Version: s.About.Version, Started: s.About.Started,
		Queue: p.Env.PID(queueName), Locks: p.Env.PID(locksName), Storage: ownKeeperOf(p), Distributor: distributorOf(p), Replicator: replicatorOf(p), Release: coreconfig.SoftwareVersion})
}
