package raftlog

import (
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// Raft looks at random times, one to two heartbeat timeouts apart, whether the leader is overdue, and a node grants no vote before it has
// looked. So the last node of a majority notices the death of its leader up to three timeouts afterwards. watchLeader makes raft look
// when the leader becomes overdue. It makes no node vote earlier than raft may: raft compares the last message with the timeout itself.

const (
	// overdueStagger is the pause between two nodes that notice the same death, so that they are not candidates of the same term.
	overdueStagger = 100 * time.Millisecond
	// overdueLook is the least pause between two looks.
	overdueLook = 20 * time.Millisecond
)

// watchLeader makes raft look when the leader is overdue, until the log is closed.
func (l *Log) watchLeader() {
	r := l.awaitRaft()
	if r == nil {
		return
	}
	for {
		pause := l.untilOverdue(r)
		if pause <= 0 {
			l.times.look()
		}
		select {
		case <-time.After(max(pause, overdueLook)):
		case <-l.closing:
			return
		}
	}
}

// untilOverdue is the time until this node should look for its leader. A node without leader looks at raft's times.
func (l *Log) untilOverdue(r *raft.Raft) time.Duration {
	timeout := l.times.heartbeat()
	_, leader := r.LeaderWithID()
	if r.State() != raft.Follower || leader == "" {
		return timeout / 4
	}
	return timeout + time.Duration(l.rank(leader))*overdueStagger - time.Since(r.LastContact())
}

// rank is the number of voters, other than the leader, whose names come before this node's.
func (l *Log) rank(leader raft.ServerID) (rank int) {
	voters := l.voters()
	slices.Sort(voters)
	for _, id := range voters {
		if id < raft.ServerID(l.config.Name) && id != leader {
			rank++
		}
	}
	return rank
}
