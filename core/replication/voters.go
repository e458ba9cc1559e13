package replication

import (
	"slices"

	"lockstep/messages"
)

// JoinRequest is what a node says that wants to be a member.
type JoinRequest struct {
	Name      string
	Address   string // host:port
	WantsVote bool   // it would have a say
	NoLog     bool   // it has nothing of the log yet, or not any more
	Applied   uint64 // index of the last entry on its disk
}

// catchUpMax is how far a node may be behind when it is given a vote, in entries: what
// it lacks then it has in a moment, and until it has, it cannot help a majority.
const catchUpMax = 100

// NextChange is the change of membership that comes next for a node, nil if it is what it
// wants to be, or has to wait. applied is the master's index, ready are the nodes
// that have asked for a vote of late and could be given one.
//
// A node that has a log and is no member was removed, and stays out: to come back it
// must come as a new one. A node without its log is no voter, whatever it was before:
// it has forgotten what it helped to commit. So it is removed first, and then comes as
// a new one. Votes are handed out such that their number is odd: two voters fail more
// often than one (design.md 9).
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

// MayVote: it wants a vote, and has caught up. One that has applied nothing at all may
// not even be reached yet, and would be waited for.
func (w JoinRequest) MayVote(applied uint64) bool {
	return w.WantsVote && !w.NoLog && w.Applied > 0 && w.Applied+catchUpMax >= applied
}

// RemovedNodes are the names of nodes that were members and are not any more, sorted: those
// of before, but for who is one again, and who has left since.
func RemovedNodes(removed []string, before, now []*messages.Member) []string {
	all := slices.Clone(removed)
	for _, m := range before {
		all = append(all, m.Name)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return isMember(now, name) })
}

// IsBarred: a node may not take part in the log at this one, though it has a certificate
// of the cluster. That is who was removed, for as long as another node leads: to
// whoever leads it listens, and while nobody does it may be far behind, and the one
// that was removed back again. And it is whom a recovery has left behind, always:
// together they may have a majority of what was.
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
