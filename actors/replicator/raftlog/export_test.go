package raftlog

// TakeSnapshot takes one now, and drops entries before it.
func (l *Log) TakeSnapshot() error { return l.raft.Load().Snapshot().Error() }
