package luxi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/messages"
)

// NodesMethod lists the nodes of the cluster; every node answers it.
const NodesMethod = "LockstepNodes"

// NodesOf is what a client is told of a cluster.
func NodesOf(n *messages.GetNodesResult) answer.Nodes {
	most := n.Applied
	for _, s := range n.States {
		most = max(most, s.Applied)
	}
	nodes := answer.Nodes{Self: n.Self, Master: n.Master, MasterAddress: n.MasterAddress, Nodes: []answer.Node{}}
	for i, m := range n.Members {
		node := answer.Node{Name: m.Name, Address: m.Address, Voter: m.Voter, Master: m.Name == n.Master}
		if i < len(n.States) {
			s := n.States[i]
			node.Answers, node.Error, node.Applied = s.Answers, s.Error, s.Applied
			if s.Answers {
				node.Behind, node.Joining = most-s.Applied, s.Voting && !m.Voter
			}
		}
		nodes.Nodes = append(nodes.Nodes, node)
	}
	if len(n.Members) == 0 && n.Self != "" {
		nodes.Nodes = append(nodes.Nodes, answer.Node{Name: n.Self, Answers: true, Joining: true})
	}
	return nodes
}

// askNodes asks who knows the nodes; a daemon that is alone has nobody to ask.
func (c *connection) askNodes(ctx actor.Context, question func(request uint64) any, answers func(actor.Context, any)) {
	if c.config.Nodes == nil {
		c.fail(ctx, messages.PrereqFailure(messages.WrongState, "This daemon belongs to no cluster; see lockstep node --help for how to make one"))
		return
	}
	c.ask(ctx, repeatable, func(ctx actor.Context, request uint64) { ctx.Request(c.config.Nodes, question(request)) }, answers)
}

// withNodes goes on with how the nodes are; nil for a daemon that is alone.
func (c *connection) withNodes(ctx actor.Context, done func(actor.Context, *answer.Nodes)) {
	if c.config.Nodes == nil {
		done(ctx, nil)
		return
	}
	c.askNodes(ctx,
		func(request uint64) any { return &messages.GetNodes{Request: request, WithStates: true} },
		func(ctx actor.Context, m any) {
			if n, ok := m.(*messages.GetNodesResult); ok && n.Request == c.request {
				nodes := NodesOf(n)
				done(ctx, &nodes)
			}
		})
}

func (c *connection) lockstepNodes(ctx actor.Context, _ []json.RawMessage) error {
	if c.config.Nodes == nil {
		c.succeed(ctx, answer.Nodes{Nodes: []answer.Node{}})
		return nil
	}
	c.withNodes(ctx, func(ctx actor.Context, nodes *answer.Nodes) { c.succeed(ctx, nodes) })
	return nil
}

// lockstepNodeRemove takes a node out of the cluster: [name].
func (c *connection) lockstepNodeRemove(ctx actor.Context, args []json.RawMessage) error {
	return c.changeNode(ctx, messages.ChangeNodes_REMOVE, args)
}

// lockstepNodePromote hands the mastership over: [name].
func (c *connection) lockstepNodePromote(ctx actor.Context, args []json.RawMessage) error {
	return c.changeNode(ctx, messages.ChangeNodes_TRANSFER, args)
}

func (c *connection) changeNode(ctx actor.Context, what messages.ChangeNodes_What, args []json.RawMessage) error {
	var name string
	if err := arguments(args, &name); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	c.askNodes(ctx,
		func(request uint64) any { return &messages.ChangeNodes{Request: request, What: what, Name: name} },
		func(ctx actor.Context, m any) {
			a, ok := m.(*messages.ChangeNodesResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			default:
				c.succeed(ctx, nil)
			}
		})
	c.resend = nil // it may have been done
	return nil
}

// lockstepNodeCheck compares the files of all nodes: [repair].
func (c *connection) lockstepNodeCheck(ctx actor.Context, args []json.RawMessage) error {
	var repair bool
	if err := arguments(args, &repair); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	c.askNodes(ctx,
		func(request uint64) any { return &messages.CheckNodes{Request: request, Repair: repair} },
		func(ctx actor.Context, m any) {
			a, ok := m.(*messages.CheckNodesResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			default:
				c.succeed(ctx, checkedOf(a))
			}
		})
	return nil
}

func checkedOf(a *messages.CheckNodesResult) answer.NodesCheck {
	nodes := []answer.NodeCheck{}
	for _, n := range a.Nodes {
		node := answer.NodeCheck{Name: n.Name, Answers: n.Answers, Error: n.Error, Differs: []answer.FileDifference{}, Repaired: n.Repaired}
		for _, f := range n.Files {
			node.Differs = append(node.Differs, answer.FileDifference{Path: f.Path, What: strings.ToLower(f.What.String())})
		}
		nodes = append(nodes, node)
	}
	return answer.NodesCheck{Files: a.Files, Nodes: nodes}
}
