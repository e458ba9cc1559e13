package raftlog

import (
	"time"

	"github.com/hashicorp/raft"

	"lockstep/messages"
)

// election is one that this node has won.
type election struct {
	number uint64 // of this process
	term   uint64
}

// watch tells who leads and who belongs to the cluster, until raft has ended. Raft
// waits for it where leadership begins or ends, so it waits for nothing.
func (l *Log) watch() {
	ticks := time.NewTicker(l.config.Timing.Lease / 4)
	defer ticks.Stop()
	turns := uint64(0) // of leadership, to tell what belongs to a former one
	for {
		select {
		case leads := <-l.notify:
			turns++
			if leads {
				l.won(turns)
			} else {
				l.lease.end()
				l.follow()
			}
		case <-l.again:
			turns++
			l.won(turns)
		case won := <-l.led:
			if won.number == turns && len(l.notify) == 0 {
				l.lead(won.term)
			}
		case <-l.look:
			l.lookNow()
		case <-ticks.C:
			l.lease.tick()
			l.lookNow()
		case <-l.halt:
			return
		}
	}
}

// won has this log catch up, for the election of that number only.
func (l *Log) won(number uint64) {
	select {
	case <-l.elections:
	default:
	}
	l.elections <- number
}

// catchUp waits, after each election that was won, until everything that was committed
// before is applied here.
func (l *Log) catchUp() {
	for {
		select {
		case number := <-l.elections:
			if term, ok := l.caughtUp(); ok {
				select {
				case l.led <- election{number: number, term: term}:
				case <-l.stop:
				}
			}
		case <-l.stop:
			return
		}
	}
}

// caughtUp returns the term in which it was; false: this node leads no more.
func (l *Log) caughtUp() (term uint64, ok bool) {
	r := l.running()
	for r != nil && r.State() == raft.Leader {
		// What a former actor has proposed comes before the barrier, too.
		select {
		case <-l.proposals.mark():
		case <-l.stop:
			return 0, false
		}
		term := r.CurrentTerm()
		if r.Barrier(0).Error() == nil && r.CurrentTerm() == term {
			return term, true
		}
		select { // it is handing the leadership over, or was; that is known soon
		case <-time.After(l.config.Timing.Heartbeat / 10):
		case <-l.stop:
			return 0, false
		}
	}
	return 0, false
}

// running is raft, which may say that it leads a moment before it is known here.
func (l *Log) running() *raft.Raft {
	l.started.Wait()
	return l.raft.Load()
}

// lead is called when everything of former terms is applied.
func (l *Log) lead(term uint64) {
	r := l.raft.Load()
	if r.State() != raft.Leader || r.CurrentTerm() != term {
		return // which raft is about to tell
	}
	select {
	case <-l.stop:
		return
	default:
	}
	l.lease.begin(term)
	l.desk.lead(term)
}

func (l *Log) lookNow() {
	r := l.raft.Load()
	if r == nil {
		return
	}
	if !l.desk.leading() {
		l.follow()
	}
	l.desk.setMembers(membersOf(r.GetConfiguration().Configuration()))
}

// follow tells who leads, if it is another node.
func (l *Log) follow() {
	r := l.raft.Load()
	if r == nil {
		return
	}
	address, id := r.LeaderWithID()
	if id == raft.ServerID(l.config.Name) {
		address, id = "", "" // not before everything is applied
	}
	l.desk.follow(string(id), string(address))
}

// voters are those of the latest configuration, which counts from the moment it is
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
