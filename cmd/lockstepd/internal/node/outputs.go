package node

import (
	"context"
	"fmt"
	"net"
	"time"

	"lockstep/edge/peer"
)

// lostAfter is how long the master may hear nothing from a node until its readers of output count as gone. They connect again if they are
// not.
const lostAfter = 10 * time.Second

// outputNodes are the nodes for readers of output (outputs.Nodes).
type outputNodes struct{ node *node }

// Master is part of outputs.Nodes. While this node becomes the master there is none.
func (o *outputNodes) Master() (name string, here bool) {
	own := o.node.identity.Name
	if o.node.master.Load() != nil {
		return own, true
	}
	if name = o.node.raft.Leader(); name == own {
		name = ""
	}
	return name, false
}

// Others is part of outputs.Nodes.
func (o *outputNodes) Others() ([]string, error) {
	nodes, err := o.node.queryNodes()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range nodes.Members {
		if m.Name != o.node.identity.Name && m.Address != "" {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

// Dial is part of outputs.Nodes.
func (o *outputNodes) Dial(ctx context.Context, node string) (net.Conn, error) {
	nodes, err := o.node.queryNodes()
	if err != nil {
		return nil, err
	}
	for _, m := range nodes.Members {
		if m.Name == node && m.Address != "" {
			return o.node.credentials.Dial(ctx, m.Address, peer.ProtocolOutput)
		}
	}
	return nil, fmt.Errorf("the address of node %s is not known", node)
}

// NameOf is part of outputs.Nodes.
func (o *outputNodes) NameOf(c net.Conn) string { return peer.PeerName(c) }

// Lost is part of outputs.Nodes.
func (o *outputNodes) Lost(node string) bool { return o.node.raft.SilentFor(node) > lostAfter }
