package replication

import (
	"slices"

	"lockstep/messages"
)

// JoinRequest is the request of a node to become a member.
type JoinRequest struct {
	Name      string
	Address   string // host:port
	WantsVote bool   // the node wants a vote
	NoLog     bool   // the node has no log, or has lost it
	Applied   uint64 // index of the last entry on its disk
}

// catchUpMax is how many entries a node may be behind when it is given a vote. It receives them within a moment. Until
// then it does not help a majority.
const catchUpMax = 100

// NextChange is the next change of membership for a node, nil if its request is fulfilled or must wait. applied is the
// master's index. readyVoters are the nodes that have recently asked for a vote and could be given one.
//
// A node that has a log and is not a member was removed. It can join only as a new node. A node that has lost its log
// cannot be a voter, even if it was one, because it does not have the entries that it helped to commit. So it is
// removed first, and then joins as a new node. The number of votes is kept odd: two voters fail more often than one
// (design.md "Acknowledged").
func NextChange(members []*messages.Member, w JoinRequest, applied uint64, readyVoters []string) *messages.ChangeNodes {
	add := &messages.ChangeNodes{What: messages.ChangeNodes_ADD_NONVOTER, Name: w.Name, Address: w.Address}
	i := slices.IndexFunc(members, func(m *messages.Member) bool { return m.Name == w.Name })
	switch {
	case i < 0 && w.NoLog:
		return add
	case i < 0: // the node was removed
		return nil
	case w.NoLog && members[i].Voter:
		return &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: w.Name}
	case members[i].Address != w.Address:
		if members[i].Voter {
			add.What = messages.ChangeNodes_ADD_VOTER
		}
		return add
	case members[i].Voter, !w.MayVote(applied):
		return nil
	}
	voters := Voters(members)
	others := slices.DeleteFunc(slices.Clone(readyVoters), func(name string) bool {
		return name == w.Name || isVoter(members, name) || !isMember(members, name)
	})
	if voters%2 == 1 && len(others) == 0 {
		return nil
	}
	add.What = messages.ChangeNodes_ADD_VOTER
	return add
}

// MayVote reports whether the node wants a vote and has caught up. A node that has applied nothing may be unreachable,
// and the others would wait for it.
func (w JoinRequest) MayVote(applied uint64) bool {
	return w.WantsVote && !w.NoLog && w.Applied > 0 && w.Applied+catchUpMax >= applied
}

// RemovedNodes are the names of nodes that were members and no longer are, sorted: the earlier ones without the nodes
// that are members again, and the nodes that have left since.
func RemovedNodes(removed []string, before, now []*messages.Member) []string {
	all := slices.Clone(removed)
	for _, m := range before {
		all = append(all, m.Name)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return isMember(now, name) })
}

// IsBarred reports whether this node refuses another node's part in the log, although the other has a certificate of
// the cluster. A removed node is barred while another node leads. The leader itself is not barred. While there is no
// leader, a removed node is not barred: this node may be far behind, and the other node may be a member again. A node
// that a recovery has excluded is always barred, because together such nodes may have a majority of the former cluster.
func IsBarred(name, leader string, removed, lost []string) bool {
	return slices.Contains(lost, name) || slices.Contains(removed, name) && leader != "" && leader != name
}

// Voters is the number of members with a vote.
func Voters(members []*messages.Member) int {
	n := 0
	for _, m := range members {
		if m.Voter {
			n++
		}
	}
	return n
}

func isMember(members []*messages.Member, name string) bool {
	return slices.ContainsFunc(members, func(m *messages.Member) bool { return m.Name == name })
}

func isVoter(members []*messages.Member, name string) bool {
	return slices.ContainsFunc(members, func(m *messages.Member) bool { return m.Name == name && m.Voter })
}
