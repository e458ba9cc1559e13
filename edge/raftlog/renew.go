package raftlog

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// A snapshot cannot be taken while a change of the membership is not applied, and a new node is such a change. So it is tried
// renewTries times, with renewPause between two of them.
const (
	renewTries = 10
	renewPause = 100 * time.Millisecond
)

// renewSnapshot takes a snapshot if anything was applied since the last one. It blocks the goroutine that replicates to one node.
func (l *Log) renewSnapshot() error {
	r := l.raft.Load()
	if r == nil {
		return errClosed
	}
	for try := 1; ; try++ {
		err := r.Snapshot().Error()
		if err == nil || errors.Is(err, raft.ErrNothingNewToSnapshot) {
			return nil
		}
		if try == renewTries {
			l.config.Log.WithField("err", err).Info("a node that lacks entries gets an old snapshot, since no new one can be taken")
			return err
		}
		select {
		case <-time.After(renewPause):
		case <-l.closing:
			return errClosed
		}
	}
}
