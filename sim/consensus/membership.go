package consensus

import (
	"fmt"
	"slices"
	"time"

	"lockstep/actors/replicator"
	"lockstep/messages"
)

// majorityContact returns the latest time t such that a majority has acknowledged requests sent
// at t or later.
func (n *Active) majorityContact(acked func(*peer) time.Time) time.Time {
	var times []time.Time
	for _, m := range n.Members() {
		switch {
		case !m.Voter:
		case m.Name == n.name:
			times = append(times, n.now())
		default:
			times = append(times, acked(n.peer(m.Name)))
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[len(times)-n.majority()]
}

// extendLease renews the lease of a leader that has sent LogLeadershipGained, from the latest contact with a majority.
func (n *Active) extendLease() {
	if !n.announced {
		return
	}
	until := n.majorityContact(func(p *peer) time.Time { return p.acked }).Add(n.lease(n.term))
	if until.After(n.leaseUntil) && until.After(n.now()) {
		n.leaseUntil = until
		n.Renewed(until)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (n *Active) endLease() {
	if !n.leaseUntil.IsZero() {
		n.leaseUntil = time.Time{}
		n.Renewed(time.Time{})
	}
}

// membershipChange is a requested change of membership.
type membershipChange struct {
	number uint64
	replicator.Change
}

func (n *Active) change(w membershipChange) {
	if n.role != roleLeader {
		n.answer(w, "this node does not lead")
		return
	}
	n.changes = append(n.changes, w)
	if len(n.changes) == 1 {
		n.nextChange()
	}
}

func (n *Active) answer(w membershipChange, failure string) {
	m := &messages.LogChangeResult{Number: w.number}
	if failure != "" {
		m.Failure = logFailure(failure)
	}
	n.bridge.send(m)
}

func logFailure(text string) *messages.Failure {
	return messages.GenericFailure(text)
}

// changeDone ends and answers the current change of the membership, with err if it has failed, and begins the next one.
func (n *Active) changeDone(err error) {
	w := n.changes[0]
	n.changes, n.pendingIndex = n.changes[1:], 0
	text := ""
	if err != nil {
		text = err.Error()
	}
	n.answer(w, text)
	n.nextChange()
}

// abandonChanges answers all pending changes when this node no longer leads. A transfer in
// progress has succeeded then.
func (n *Active) abandonChanges() {
	handed := n.transferTo != "" && n.ordered
	changes := n.changes
	n.changes, n.pendingIndex, n.transferTo = nil, 0, ""
	for i, w := range changes {
		if i == 0 && handed && w.What == messages.ChangeNodes_TRANSFER {
			n.answer(w, "")
		} else {
			n.answer(w, "the leadership was lost")
		}
	}
}

func (n *Active) nextChange() {
	if len(n.changes) == 0 || n.role != roleLeader {
		return
	}
	w := n.changes[0]
	members, err := n.next(w)
	switch {
	case err != nil:
		n.changeDone(err)
	case members == nil:
		n.transfer(w)
	default:
		n.pendingIndex = n.Last() + 1
		n.add(entry{members: members})
		n.broadcast()
	}
}

// next are the members after a change; nil for a transfer of the leadership, also that of a leader to be removed. The error is for the
// operator.
func (n *Active) next(w membershipChange) ([]*messages.Member, error) {
	members := slices.Clone(n.Members())
	at := slices.IndexFunc(members, func(m *messages.Member) bool { return m.Name == w.Name })
	switch w.What {
	case messages.ChangeNodes_ADD_NONVOTER, messages.ChangeNodes_ADD_VOTER:
		if w.Name == "" || w.Address == "" || n.consensus.Replica(w.Name) == nil {
			return nil, fmt.Errorf("node %q cannot be added: its name or its address is missing", w.Name)
		}
		added := &messages.Member{Name: w.Name, Address: w.Address, Voter: w.What == messages.ChangeNodes_ADD_VOTER}
		if at < 0 {
			return append(members, added), nil
		}
		added.Voter = added.Voter || members[at].Voter
		members[at] = added
		return members, nil
	case messages.ChangeNodes_REMOVE:
		if at < 0 {
			return nil, fmt.Errorf("node %s is not in the cluster", w.Name)
		}
		if w.Name == n.name {
			return nil, nil
		}
		delete(n.peers, w.Name)
		return slices.Delete(members, at, at+1), nil
	case messages.ChangeNodes_TRANSFER:
		switch {
		case w.Name == n.name:
			return nil, fmt.Errorf("node %s has the leadership", n.name)
		case w.Name != "" && (at < 0 || !members[at].Voter):
			return nil, fmt.Errorf("node %s is no voter", w.Name)
		}
		return nil, nil
	}
	return nil, fmt.Errorf("%v is no change", w.What)
}

// transfer transfers the leadership to the named node, or else to the voter with the longest log. After transferMax it has failed.
func (n *Active) transfer(w membershipChange) {
	to := w.Name
	if w.What == messages.ChangeNodes_REMOVE || to == "" {
		to = ""
		for _, m := range n.Members() {
			if m.Voter && m.Name != n.name && (to == "" || n.peer(m.Name).match > n.peer(to).match) {
				to = m.Name
			}
		}
	}
	if to == "" {
		n.changeDone(fmt.Errorf("there is no other voter"))
		return
	}
	n.consensus.Tracef("%s hands the leadership to %s", n.name, to)
	n.transferTo, n.ordered = to, false
	term := n.term
	n.consensus.clock.After(transferMax, n.life, func() {
		if n.role == roleLeader && n.term == term && n.transferTo == to {
			n.transferTo = ""
			n.changeDone(fmt.Errorf("node %s has not taken the leadership", to))
		}
	})
	n.tryTransfer()
}

// tryTransfer tells the successor to start an election, once it has every entry. The lease goes
// on until this node votes for the successor.
func (n *Active) tryTransfer() {
	to := n.transferTo
	if to == "" || n.peer(to).match < n.Last() || n.ordered {
		return
	}
	n.ordered = true
	leader, term := n.name, n.term
	n.rpc(to, 0, func(other *Replica) func() {
		if other.term == term && other.Active.leader == leader && other.Active.role == roleFollower && other.restoring == nil {
			other.Active.elect(leader)
		}
		return nil
	})
}
