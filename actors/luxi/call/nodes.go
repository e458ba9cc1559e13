package call

import (
	"lockstep/core/answer"
	"lockstep/messages"
)

// NodesMethod lists the nodes of the cluster. Each node answers it, also one that is not the master.
const NodesMethod = "LockstepNodes"

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
