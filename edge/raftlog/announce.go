package raftlog

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// announcer tells the other nodes of commits. Raft tells them with the next entry, so that an empty entry tells them at once.
type announcer struct {
	wanted  atomic.Bool // a commit since the last empty entry was begun
	running atomic.Bool
}

// announce appends an empty entry to the log if this node is the leader and the entry is urgent. Entries that are committed meanwhile
// share the next empty one.
func (l *Log) announce(entry []byte) {
	r := l.raft.Load()
	if l.config.Urgent == nil || r == nil || r.State() != raft.Leader || !l.config.Urgent(entry) {
		return
	}
	l.announcer.wanted.Store(true)
	if l.announcer.running.CompareAndSwap(false, true) {
		go l.announceAll(r)
	}
}

func (l *Log) announceAll(r *raft.Raft) {
	for {
		for l.announcer.wanted.Swap(false) {
			if r.Barrier(0).Error() != nil { // no longer the leader: the next one tells of all commits
				break
			}
		}
		l.announcer.running.Store(false)
		if !l.announcer.wanted.Load() || !l.announcer.running.CompareAndSwap(false, true) {
			return
		}
	}
}
