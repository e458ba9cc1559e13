package supervisor

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/monitor"
	"lockstep/core/config"
)

// Monitor has what the monitor of a node takes from the outside: its ports and settings.
type Monitor struct {
	Sources monitor.Sources
	Board   monitor.Board
	// Node is the name of this node in the configuration.
	Node string
	// Candidates tell a node without a copy of the configuration about it; nil: this node has one.
	Candidates monitor.Candidates
}

// hasMonitor reports whether this node has a monitor.
func hasMonitor(p Ports) bool { return p.Monitor != nil }

// monitorOf returns the actor that collects MonD's reports; nil: this node has no monitor.
func monitorOf(p Ports) *actor.PID {
	if hasMonitor(p) {
		return p.Env.PID(answersPath(p) + "/monitor")
	}
	return nil
}

func monitorProps(p Ports, s Settings) *actor.Props {
	return monitor.Props(monitor.Config{
		Env:         p.Env,
		Sources:     p.Monitor.Sources,
		Board:       p.Monitor.Board,
		Node:        p.Monitor.Node,
		Version:     s.About.Version,
		Started:     s.About.Started,
		Queue:       p.Env.PID(queueName),
		Locks:       p.Env.PID(locksName),
		ConfigStore: ownConfigstoreOf(p),
		Distributor: distributorOf(p),
		Replicator:  replicatorOf(p),
		Release:     config.SoftwareVersion,
	})
}

func loneMonitorProps(p Ports, _ Settings) *actor.Props {
	return monitor.Props(monitor.Config{
		Env:        p.Env,
		Sources:    p.Monitor.Sources,
		Board:      p.Monitor.Board,
		Node:       p.Monitor.Node,
		Candidates: p.Monitor.Candidates,
		Release:    config.SoftwareVersion,
	})
}

// Lone is a running monitor without the other actors of a daemon; it asks the master candidates for the configuration.
type Lone struct {
	env  *kit.Env
	root *actor.PID
	done <-chan struct{}
}

// LoneMonitor starts a monitor that has the configuration from the candidates.
func LoneMonitor(env *kit.Env, m Monitor) (*Lone, error) {
	root, done, err := env.SpawnRoot(monitorAlone.props(Ports{Env: env, Monitor: &m}, Settings{}), rootName)
	if err != nil {
		return nil, fmt.Errorf("start the monitor: %w", err)
	}
	return &Lone{env, root, done}, nil
}

// Stop stops the monitor and returns when it has.
func (l *Lone) Stop() {
	l.env.System().Root.Stop(l.root)
	<-l.done
}
