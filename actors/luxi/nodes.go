package luxi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/messages"
)

// NodesMethod lists the nodes of the cluster. Each node answers it, also one that is not the master.
const NodesMethod = "LockstepNodes"

// ConsoleAddress is the address of this node's console; empty: there is none.
func (a About) ConsoleAddress() string {
	if a.Console == nil {
		return ""
	}
	return a.Console()
}

// MonitorAddress is the address of this node's MonD; empty: there is none.
func (a About) MonitorAddress() string {
	if a.Monitor == nil {
		return ""
	}
	return a.Monitor()
}

// NodesOf is the answer to a client from the replicator's view of the cluster. A node that knows no members yet is
// joining.
func NodesOf(n *messages.GetNodesResult) answer.Nodes {
	most := n.Applied
	for _, s := range n.States {
		most = max(most, s.Applied)
	}
	nodes := answer.Nodes{
		Self:          n.Self,
		Master:        n.Master,
		MasterAddress: n.MasterAddress,
		Nodes:         []answer.Node{},
		Files:         filesCompared(n.Compared),
	}
	for i, m := range n.Members {
		node := answer.Node{Name: m.Name, Address: m.Address, Voter: m.Voter, Master: m.Name == n.Master}
		if i < len(n.States) {
			s := n.States[i]
			node.Answers, node.Error, node.Applied, node.Console = s.Answers, s.Error, s.Applied, s.Console
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

func filesCompared(c *messages.FilesCompared) *answer.FilesCompared {
	if c == nil {
		return nil
	}
	f := &answer.FilesCompared{At: answer.TimeOf(c.AtUs), Compared: c.Files, Repaired: c.Repaired, Contested: []answer.ContestedFile{}}
	for _, contested := range c.Contested {
		f.Contested = append(f.Contested, answer.ContestedFile{Path: contested.Path, Nodes: contested.Nodes})
	}
	return f
}

// lockstepNodes takes []. The answer is an answer.Nodes, without nodes if the daemon belongs to no cluster.
func lockstepNodes(c *call, ctx actor.Context, _ []json.RawMessage) error {
	c.askNodes(ctx, func(ctx actor.Context, nodes *answer.Nodes) {
		if nodes == nil {
			nodes = &answer.Nodes{Nodes: []answer.Node{}}
		}
		nodes.Console, nodes.Monitor = c.config.About.ConsoleAddress(), c.config.About.MonitorAddress()
		c.succeed(ctx, nodes)
	})
	return nil
}

// lockstepNodeRemove takes [name] and removes that node from the cluster.
func lockstepNodeRemove(c *call, ctx actor.Context, args []json.RawMessage) error {
	return changeNode(c, ctx, messages.ChangeNodes_REMOVE, args)
}

// lockstepNodePromote takes [name] and makes that node the master.
func lockstepNodePromote(c *call, ctx actor.Context, args []json.RawMessage) error {
	return changeNode(c, ctx, messages.ChangeNodes_TRANSFER, args)
}

// changeNode asks the replicator for a change of the cluster. The question is sent once, because a change that was made
// must not be made again. A restart of the queue ends the call as it ends a submission: with an error that leaves the
// outcome open.
func changeNode(c *call, ctx actor.Context, what messages.ChangeNodes_What, args []json.RawMessage) error {
	var name string
	if err := arguments(args, &name); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	if !inCluster(c, ctx) {
		return nil
	}
	q := c.toNodes(func(number uint64) any { return &messages.ChangeNodes{Request: number, What: what, Name: name} })
	q.Once = true
	askFallible(c, ctx, q, func(ctx actor.Context, _ *messages.ChangeNodesResult) { c.succeed(ctx, nil) })
	return nil
}

// inCluster reports whether the daemon belongs to a cluster, and fails the call otherwise.
func inCluster(c *call, ctx actor.Context) bool {
	if c.config.Replicator == nil {
		c.fail(ctx, messages.PrereqFailure(messages.WrongState,
			"This daemon belongs to no cluster; see lockstep node --help for how to make one"))
		return false
	}
	return true
}

// lockstepNodeCheck takes [repair] and compares the files of all nodes. The answer is an answer.NodesCheck.
func lockstepNodeCheck(c *call, ctx actor.Context, args []json.RawMessage) error {
	var repair bool
	if err := arguments(args, &repair); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	if !inCluster(c, ctx) {
		return nil
	}
	askFallible(c, ctx, c.toNodes(func(number uint64) any { return &messages.CheckNodes{Request: number, Repair: repair} }),
		func(ctx actor.Context, a *messages.CheckNodesResult) { c.succeed(ctx, nodesCheck(a)) })
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
