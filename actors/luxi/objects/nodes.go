package objects

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepNodes takes []. The answer is an answer.Nodes, without nodes if the daemon belongs to no cluster.
func lockstepNodes(c *call.Call, ctx actor.Context, _ []json.RawMessage) error {
	c.AskNodes(ctx, func(ctx actor.Context, nodes *answer.Nodes) {
		if nodes == nil {
			nodes = &answer.Nodes{Nodes: []answer.Node{}}
		}
		nodes.Console, nodes.Monitor = c.Config.About.ConsoleAddress(), c.Config.About.MonitorAddress()
		c.Succeed(ctx, nodes)
	})
	return nil
}

// lockstepNodeRemove takes [name] and removes that node from the cluster.
func lockstepNodeRemove(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	return changeNode(c, ctx, messages.ChangeNodes_REMOVE, args)
}

// lockstepNodePromote takes [name] and makes that node the master.
func lockstepNodePromote(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	return changeNode(c, ctx, messages.ChangeNodes_TRANSFER, args)
}

// changeNode asks the replicator for a change of the cluster. The question is sent once, because a change that was made
// must not be made again. A restart of the queue ends the call as it ends a submission: with an error that leaves the
// outcome open.
func changeNode(c *call.Call, ctx actor.Context, what messages.ChangeNodes_What, args []json.RawMessage) error {
	var name string
	if err := wire.Arguments(args, &name); err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	if !inCluster(c, ctx) {
		return nil
	}
	q := c.ToNodes(func(number uint64) any { return &messages.ChangeNodes{Request: number, What: what, Name: name} })
	q.Once = true
	call.AskFallible(c, ctx, q, func(ctx actor.Context, _ *messages.ChangeNodesResult) { c.Succeed(ctx, nil) })
	return nil
}

// inCluster reports whether the daemon belongs to a cluster, and fails the call otherwise.
func inCluster(c *call.Call, ctx actor.Context) bool {
	if c.Config.Replicator == nil {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongState,
			"This daemon belongs to no cluster; see lockstep node --help for how to make one"))
		return false
	}
	return true
}

// lockstepNodeCheck takes [repair] and compares the files of all nodes. The answer is an answer.NodesCheck.
func lockstepNodeCheck(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var repair bool
	if err := wire.Arguments(args, &repair); err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	if !inCluster(c, ctx) {
		return nil
	}
	call.AskFallible(c, ctx, c.ToNodes(func(number uint64) any { return &messages.CheckNodes{Request: number, Repair: repair} }),
		func(ctx actor.Context, a *messages.CheckNodesResult) { c.Succeed(ctx, nodesCheck(a)) })
	return nil
}

func nodesCheck(a *messages.CheckNodesResult) answer.NodesCheck {
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
