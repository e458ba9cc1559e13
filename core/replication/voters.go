package replication

import (
	"slices"

	"lockstep/messages"
)

// Wish is what a node says that wants to be a member.
type Wish struct {
	Name    string
	Address string // host:port
	Voting  bool   // it would have a say
	Fresh   bool   // it has nothing of the log yet, or not any more
	Applied uint64 // index of the last entry on its disk
}

// catchUpMax is how far a node may be behind when it is given a vote, in entries: what
// it lacks then it has in a moment, and until it has, it cannot help a majority.
const catchUpMax = 100

// Admit is the change of membership that comes next for a node, nil if it is what it
// wants to be, or has to wait. applied is the master's index, ready are the nodes
// that have asked for a vote of late and could be given one.
//
// A node that has a log and is no member was removed, and stays out: to come back it
// must come as a new one. A node without its log is no voter, whatever it was before:
// it has forgotten what it helped to commit. So it is removed first, and then comes as
// a new one. Votes are handed out such that their number is odd: two voters fail more
// often than one (design.md 9).
func Admit(members []*messages.Member, w Wish, applied uint64, ready []string) *messages.ChangeNodes {
	add := &messages.ChangeNodes{What: messages.ChangeNodes_ADD_NONVOTER, Name: w.Name, Address: w.Address}
	at := slices.IndexFunc(members, func(m *messages.Member) bool { return m.Name == w.Name })
	switch {
	case at < 0 && w.Fresh:
		return add
	case at < 0: // it was removed
		return nil
	case w.Fresh && members[at].Voter:
		return &messages.ChangeNodes{What: messages.ChangeNodes_REMOVE, Name: w.Name}
	case members[at].Address != w.Address:
		if members[at].Voter {
			add.What = messages.ChangeNodes_ADD_VOTER
		}
		return add
	case members[at].Voter, !w.MayVote(applied):
		return nil
	}
	voters := Voters(members)
	others := slices.DeleteFunc(slices.Clone(ready), func(name string) bool { return name == w.Name || isVoter(members, name) || !isMember(members, name) })
	if voters%2 == 1 && len(others) == 0 {
		return nil
	}
	add.What = messages.ChangeNodes_ADD_VOTER
	return add
}

// MayVote: it wants a vote, and has caught up. One that has applied nothing at all may
// not even be reached yet, and would be waited for.
func (w Wish) MayVote(applied uint64) bool {
	return w.Voting && !w.Fresh && w.Applied > 0 && w.Applied+catchUpMax >= applied
}

// Removed are the names of nodes that were members and are not any more, sorted: those
// of before, but for who is one again, and who has left since.
func Removed(removed []string, before, now []*messages.Member) []string {
	left := slices.Clone(removed)
	for _, m := range before {
		left = append(left, m.Name)
	}
	slices.Sort(left)
	return slices.DeleteFunc(slices.Compact(left), func(name string) bool { return isMember(now, name) })
}

// Barred: a node may not take part in the log at this one, though it has a certificate
// of the cluster. That is who was removed, for as long as another node leads: to
// whoever leads it listens, and while nobody does it may be far behind, and the one
// that was removed back again. And it is whom a recovery has left behind, always:
// together they may have a majority of what was.
func Barred(name, leader string, removed, lost []string) bool {
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
