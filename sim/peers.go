package sim

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/replicator"
	"lockstep/actors/standby"
	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/sim/kernel"
)

// peers is the port through which the replicator of a node asks the other nodes. All of them have this version.
type peers struct{ daemon *daemon }

var _ replicator.Peers = peers{}

// peerDelay is how long an answer of the other nodes takes.
const peerDelay = 10 * time.Millisecond

// Ask answers with the states of nodes. One that is cut off, suspended or down gives no answer.
func (p peers) Ask(number uint64, members []*messages.Member, to *actor.PID) {
	p.after(func() {
		states := make([]*messages.NodeState, len(members))
		for i, m := range members {
			states[i] = &messages.NodeState{Name: m.Name, Error: "no answer"}
			if n := p.daemon.world.nodeNamed(m.Name); p.daemon.reaches(n) {
				states[i] = &messages.NodeState{Name: m.Name, Answers: true, Voting: true, Features: replication.Features()}
			}
		}
		p.daemon.env.System().Root.Send(to, &messages.NodeStatesCollected{Number: number, States: states})
	})
}

// Compare answers that nothing differs: what the files of the nodes are is compared by checkReplicas.
func (p peers) Compare(number uint64, _ []*messages.Member, _ []string, to *actor.PID) {
	p.after(func() { p.daemon.env.System().Root.Send(to, &messages.NodesCompared{Number: number}) })
}

func (p peers) after(f func()) { p.daemon.world.clock.After(peerDelay, p.daemon.life, f) }

// reaches reports whether the daemon can speak to that of a node.
func (d *daemon) reaches(n *node) bool {
	return n.daemon != nil && !n.daemon.life.Paused && !d.life.Paused && n.cluster.group == d.node.cluster.group
}

// tunnels is the port that passes the requests of a node's clients on to the master.
type tunnels struct{ daemon *daemon }

var _ standby.Tunnels = tunnels{}

// tunnel is a connection of a node to the master for one client. Its far end is a connection like that of a client.
type tunnel struct {
	daemon *daemon // of the node whose client it is
	to     *actor.PID
	rpc    *rpcClient // makes no calls of its own
}

// Open connects to the node with that address. A node that cannot be reached closes the tunnel.
func (t tunnels) Open(address string, to *actor.PID) standby.Tunnel {
	w, d := t.daemon.world, t.daemon
	x := &tunnel{daemon: d, to: to}
	x.rpc = &rpcClient{world: w, thread: kernel.NewThread(w.kernel, d.life), tunnel: x}
	d.tunnels = append(d.tunnels, x)
	for _, n := range w.nodes {
		if n.cluster.replica.Address == address && d.reaches(n) {
			x.rpc.node = n
			x.rpc.conn = n.dial(x.rpc)
		}
	}
	if x.rpc.conn == nil {
		x.rpc.thread.Do(x.ended)
	}
	return x
}

// Send passes a request on.
func (x *tunnel) Send(frame []byte) {
	x.rpc.thread.Do(func() {
		switch {
		case x.rpc.conn == nil:
		case !x.daemon.reaches(x.rpc.node):
			x.rpc.hangUp()
			x.ended()
		default:
			x.rpc.conn.send(frame)
		}
	})
}

// Close hangs up.
func (x *tunnel) Close() { x.rpc.thread.Do(x.rpc.hangUp) }

func (x *tunnel) answered(frame []byte) { x.send(&standby.TunnelAnswer{Frame: frame}) }

func (x *tunnel) ended() { x.send(&standby.TunnelClosed{}) }

func (x *tunnel) send(message any) { x.daemon.env.System().Root.Send(x.to, message) }
