package replication

import (
	"slices"

	"lockstep/messages"
)

// JoinRequest is what a node sends that wants to be a member.
type JoinRequest struct {
	Name      string
	Address   string // host:port
	WantsVote bool   // it wants a vote
	NoLog     bool   // it has no log, or has lost it
	Applied   uint64 // index of the last entry on its disk
}

// catchUpMax is how many entries a node may be behind when it is given a vote. It receives them in a moment; until
// then it cannot help a majority.
const catchUpMax = 100

// NextChange is the next change of membership for a node, nil if the node is what it wants to be, or has to wait.
// applied is the master's index. readyVoters are the nodes that have recently asked for a vote and could be given one.
//
// A node that has a log and is no member was removed, and stays out: it must come back as a new one. A node without
// its log cannot be a voter, whatever it was before, because it has forgotten what it helped to commit. So it is
// removed first, and then joins as a new one. The number of votes is kept odd: two voters fail more often than one
// (design.md 9).
func NextChange(members []*messages.Member, w JoinRequest, applied uint64, readyVoters []string) *messages.ChangeNodes {
	add := &messages.ChangeNodes{What: messages.ChangeNodes_ADD_NONVOTER, Name: w.Name, Address: w.Address}
	i := slices.IndexFunc(members, func(m *messages.Member) bool { return m.Name == w.Name })
	switch {
	case i < 0 && w.NoLog:
		return add
	case i < 0: // it was removed
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
	others := slices.DeleteFunc(slices.Clone(readyVoters), func(name string) bool { return name == w.Name || isVoter(members, name) || !isMember(members, name) })
	if voters%2 == 1 && len(others) == 0 {
		return nil
	}
	add.What = messages.ChangeNodes_ADD_VOTER
	return add
}

// MayVote tells whether the node wants a vote and has caught up. A node that has applied nothing may not even be
// reachable yet, and the others would wait for it.
func (w JoinRequest) MayVote(applied uint64) bool {
	return w.WantsVote && !w.NoLog && w.Applied > 0 && w.Applied+catchUpMax >= applied
}

// RemovedNodes are the names of nodes that were members and are not any longer, sorted: those of before without the
// nodes that are members again, and the nodes that have left since.
func RemovedNodes(removed []string, before, now []*messages.Member) []string {
	all := slices.Clone(removed)
	for _, m := range before {
		all = append(all, m.Name)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return isMember(now, name) })
}

// IsBarred tells whether a node must not take part in the log at this one, although it has a certificate of the
// cluster. A removed node is barred while another node leads. The leader itself is not barred. While there is no
// leader, a removed node is not barred: this node may be far behind, and the other one may be a member again. A node
// that a recovery has left behind is always barred, because together such nodes may have a majority of the former
// cluster.
func IsBarred(name, leader string, removed, lost []string) bool {
	return slices.Contains(lost, name) || slices.Contains(removed, name) && leader != "" && leader != name
}

// Voters is how many members have a vote.
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
