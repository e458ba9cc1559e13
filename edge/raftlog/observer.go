package raftlog

import (
	"time"

	"github.com/hashicorp/raft"

	"lockstep/messages"
)

// election is an election that this node has won, from the moment at which raft says so until the actor is told.
type election struct {
	number uint64 // counts the changes of leadership in this process
	term   uint64
}

// observe reports the leader and the membership to the bridge until raft has ended. Raft
// blocks until it has received a change of leadership, so observe never blocks.
func (l *Log) observe() {
	ticks := time.NewTicker(l.config.Shortest.Lease / 4)
	defer ticks.Stop()
	transitions := uint64(0) // of leadership; they distinguish a result of a former election
	for {
		select {
		case leads := <-l.leadership:
			transitions++
			if leads {
				l.scheduleCatchUp(transitions)
			} else {
				// The lease ends before the actor hears of it: from here on no answer leaves this node as the master's.
				l.lease.end()
				l.reportFollower()
			}
		case <-l.reattached:
			transitions++
			l.scheduleCatchUp(transitions)
		case won := <-l.caughtUp:
			// Only the result of the latest election counts, and only if no further change waits to be read.
			if won.number == transitions && len(l.leadership) == 0 {
				l.confirmLeader(won.term)
			}
		case <-l.refresh:
			l.publish()
		case <-ticks.C:
			l.lease.tick()
			l.publish()
		case <-l.raftStopped:
			return
		}
	}
}

// scheduleCatchUp asks catchUp to run for the election of that number, in place of any
// earlier one.
func (l *Log) scheduleCatchUp(number uint64) {
	select {
	case <-l.electionsWon:
	default:
	}
	l.electionsWon <- number
}

// catchUp waits, after each election that was won, until everything that was committed before is applied here, and reports that to
// observe.
func (l *Log) catchUp() {
	for {
		select {
		case number := <-l.electionsWon:
			if term, ok := l.awaitCaughtUp(); ok {
				select {
				case l.caughtUp <- election{number: number, term: term}:
				case <-l.closing:
				}
			}
		case <-l.closing:
			return
		}
	}
}

// awaitCaughtUp returns the term in which everything was applied; false: this node does not
// lead.
func (l *Log) awaitCaughtUp() (term uint64, ok bool) {
	r := l.awaitRaft()
	for r != nil && r.State() == raft.Leader {
		// Proposals of a former actor come before the barrier, too.
		select {
		case <-l.proposals.barrier():
		case <-l.closing:
			return 0, false
		}
		term := r.CurrentTerm()
		// The barrier is an entry of this term: when it is applied, so is every entry of former terms. The term is compared again, because this
		// node may have lost and won another election meanwhile.
		if r.Barrier(0).Error() == nil && l.bridge.awaitApplied() == nil && r.CurrentTerm() == term {
			return term, true
		}
		select { // a transfer of leadership is going on, or has failed; raft knows soon
		case <-time.After(l.config.Timing.Heartbeat / 10):
		case <-l.closing:
			return 0, false
		}
	}
	return 0, false
}

// awaitRaft returns raft when it is started. Raft may report leadership a moment before
// startRaft has stored it.
func (l *Log) awaitRaft() *raft.Raft {
	l.starting.Wait()
	return l.raft.Load()
}

// confirmLeader starts the lease and reports leadership. Every entry of former terms is
// applied by then.
func (l *Log) confirmLeader(term uint64) {
	r := l.raft.Load()
	if r.State() != raft.Leader || r.CurrentTerm() != term {
		return // raft is about to report that
	}
	select {
	case <-l.closing:
		return
	default:
	}
	// Before the actor hears of the leadership, so that it never leads without a lease.
	l.lease.begin(term)
	l.bridge.becomeLeader(term)
}

func (l *Log) publish() {
	r := l.raft.Load()
	if r == nil {
		return
	}
	if !l.bridge.isLeader() {
		l.reportFollower()
	}
	l.bridge.setMembers(membersOf(r.GetConfiguration().Configuration()))
}

// reportFollower reports that this node does not lead, and which other node does, if one is known.
func (l *Log) reportFollower() {
	r := l.raft.Load()
	if r == nil {
		return
	}
	address, id := r.LeaderWithID()
	if id == raft.ServerID(l.config.Name) {
		address, id = "", "" // this node counts as leader only when everything is applied
	}
	l.bridge.becomeFollower(string(id), string(address))
}

// voters returns the voters of the latest configuration, which is in force as soon as it is
// in the log.
func (l *Log) voters() []raft.ServerID {
	r := l.raft.Load()
	if r == nil {
		return nil
	}
	var voters []raft.ServerID
	for _, server := range r.GetConfiguration().Configuration().Servers {
		if server.Suffrage == raft.Voter {
			voters = append(voters, server.ID)
		}
	}
	return voters
}

func membersOf(configuration raft.Configuration) []*messages.Member {
	var members []*messages.Member
	for _, server := range configuration.Servers {
		members = append(members, &messages.Member{Name: string(server.ID), Address: string(server.Address),
			Voter: server.Suffrage == raft.Voter})
	}
	return members
}
