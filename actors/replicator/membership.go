package replicator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"lockstep/core/replication"
	"lockstep/messages"
)

// membership knows the nodes of the cluster and the changes of the membership that are
// on their way.
type membership struct {
	self string // name of this node
	// members are the nodes, as the log last said. The slice is replaced, never changed.
	members []*messages.Member
	// changes are who waits for a change, by its number. pid is nil if the replicator has
	// started the change itself.
	changes map[uint64]requester
	// joinRequests are the last join requests of nodes that may be given a vote, by name.
	joinRequests map[string]joinRequest
}

type joinRequest struct {
	replication.JoinRequest
	received time.Time
}

// joinRequestTTL is how long a join request counts. A node repeats its request until it
// is a member; a node that does not may be gone.
const joinRequestTTL = 30 * time.Second

func newMembership(self string) *membership {
	return &membership{self: self, changes: map[uint64]requester{}, joinRequests: map[string]joinRequest{}}
}

// find returns nil if no node has that name.
func (s *membership) find(name string) *messages.Member {
	at := slices.IndexFunc(s.members, func(m *messages.Member) bool { return m.Name == name })
	if at < 0 {
		return nil
	}
	return s.members[at]
}

// others returns the nodes but this one.
func (s *membership) others() []*messages.Member {
	return slices.DeleteFunc(slices.Clone(s.members), func(m *messages.Member) bool { return m.Name == s.self })
}

// ownAddress is the address of this node, host:port; "" if it is not a member.
func (s *membership) ownAddress() string { return s.find(s.self).GetAddress() }

// ip is the IP address of this node; the loopback address if it is not known.
func (s *membership) ip() string {
	for _, m := range s.members {
		if address, err := netip.ParseAddrPort(m.Address); err == nil && m.Name == s.self {
			return address.Addr().String()
		}
	}
	return "127.0.0.1"
}

// refusal returns why a change is not made; nil if it is. A leader checks it.
func (s *membership) refusal(m *messages.ChangeNodes) *messages.Failure {
	removes, transfers := m.What == messages.ChangeNodes_REMOVE, m.What == messages.ChangeNodes_TRANSFER
	if m.Name == "" && transfers {
		return nil // to any node
	}
	node := s.find(m.Name)
	switch {
	case node == nil && (removes || transfers):
		return messages.PrereqFailure(messages.UnknownEntity, fmt.Sprintf("There is no node %s", m.Name))
	case transfers && !node.Voter:
		return wrongState("Node %s is a copy without a vote, and cannot be the master", m.Name)
	case removes && node.Voter && replication.Voters(s.members) == 1:
		return wrongState("Node %s is the only one with a vote: there would be no cluster without it", m.Name)
	case removes && m.Name == s.self:
		return wrongState("Node %s is the master: promote another one first", m.Name)
	}
	return nil
}

func wrongState(format, node string) *messages.Failure {
	return messages.PrereqFailure(messages.WrongState, fmt.Sprintf(format, node))
}

// changing reports whether a change of the membership is on its way.
func (s *membership) changing() bool { return len(s.changes) > 0 }

// takeChange returns who waits for a change, and forgets it; false: no client waits for one.
func (s *membership) takeChange(number uint64) (requester, bool) {
	a, known := s.changes[number]
	delete(s.changes, number)
	return a, known
}

// admit decides on a join request. The answer says how far the node is; next is the
// change that takes it further, nil if there is none. applied is the index of the last
// entry on this node's disk, which is the master.
func (s *membership) admit(m *messages.AdmitNode, applied uint64, now time.Time) (
	answer *messages.AdmitNodeResult, next *messages.ChangeNodes,
) {
	answer = &messages.AdmitNodeResult{Request: m.Request}
	w := replication.JoinRequest{Name: m.Name, Address: m.Address, WantsVote: m.Voting, NoLog: m.Fresh, Applied: m.Applied}
	next = replication.NextChange(s.members, w, applied, s.voteCandidates(w, applied, now))
	node := s.find(m.Name)
	if node == nil && !m.Fresh {
		answer.Failure = wrongState(
			"Node %s was removed from the cluster. To take it back, stop its daemon, move its raft directory aside, and add it anew", m.Name)
	}
	if removed := next.GetWhat() == messages.ChangeNodes_REMOVE; node != nil && !removed {
		answer.Member, answer.Voter = true, node.Voter
	}
	return answer, next
}

// voteCandidates notes a join request, or forgets the last one of the node if it may not vote now. It returns the names of the nodes that
// may be given a vote and have asked within joinRequestTTL, sorted.
func (s *membership) voteCandidates(w replication.JoinRequest, applied uint64, now time.Time) []string {
	if w.MayVote(applied) {
		s.joinRequests[w.Name] = joinRequest{w, now}
	} else {
		delete(s.joinRequests, w.Name)
	}
	var names []string
	for name, w := range s.joinRequests {
		if now.Sub(w.received) < joinRequestTTL {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *membership) forgetJoinRequests() { clear(s.joinRequests) }
