package node

import (
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// slowSync is from which duration on a sync of all files is logged as slow. It waits for the writes of all programs.
const slowSync = 5 * time.Second

// syncTimes are the syncs of all replicated files.
type syncTimes struct {
	count, nanoseconds, last atomic.Int64 // last is in nanoseconds
}

func (s *syncTimes) add(took time.Duration) {
	s.count.Add(1)
	s.nanoseconds.Add(int64(took))
	s.last.Store(int64(took))
}

// syncApplied makes durable what entries of the log have changed, and what job processes have written. After a failed sync it marks the
// queue as one that needs its log. It is not called again after an error.
func (n *node) syncApplied() error {
	if !n.unsynced {
		return n.Files.SyncDir("note", paths.QueueDir) // for the files that job processes have renamed
	}
	begin := time.Now()
	err := n.Files.SyncAll("note")
	took := time.Since(begin)
	n.synced.add(took)
	entry := n.Log.WithFields(logrus.Fields{"duration": took})
	switch {
	case err != nil:
		n.syncFailed.Store(true)
		if marked := persistence.MarkSyncFailed(n.Files); marked != nil {
			entry.WithField("err", marked).Error("write of the mark that the queue needs its log failed")
		}
	case took > slowSync:
		entry.Warn("sync of the file systems of the queue was slow; it waits for the writes of all programs")
	default:
		entry.Debug("file systems of the queue synced")
	}
	return err
}

// settle makes the files durable after an orderly stop, so that they do not need the log. A sync that has failed is not repeated: the
// kernel would report a success. Then the mark says so, if that could not be written before.
func (n *node) settle(reapplied bool) error {
	if n.syncFailed.Load() {
		return persistence.MarkSyncFailed(n.Files)
	}
	return persistence.SettleFiles(n.Files, n.Settings.BootID, reapplied)
}
