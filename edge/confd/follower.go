package confd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/confd"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
)

// followInterval is the pause between two looks at config.data. It also bounds how often a file that changes all the time is read.
const followInterval = 100 * time.Millisecond

// Follower reads the config.data that another program writes (confd.md 7). It looks at the file instead of waiting for inotify, so that a
// directory that is replaced is no special case.
type Follower struct {
	path string
	log  *logrus.Logger
	use  func(*confd.Snapshot)

	seen       fs.FileInfo // the file that was read last; nil: there was none
	complained string      // the last complaint

	stop    chan struct{}
	running sync.WaitGroup
}

// Follow watches the configuration file of a data directory, and calls use with each new content. It calls use with nil when the file is
// gone, because a node that is no longer a candidate must not answer. A file that is no configuration is ignored. Follow has read the
// file once when it returns.
func Follow(dataDir string, log *logrus.Logger, use func(*confd.Snapshot)) *Follower {
	f := &Follower{path: filepath.Join(dataDir, paths.ConfigPath), log: log, use: use, stop: make(chan struct{})}
	f.look()
	f.running.Go(func() {
		ticker := time.NewTicker(followInterval)
		defer ticker.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-ticker.C:
				f.look()
			}
		}
	})
	return f
}

// Close ends the looks at the file, and returns when none is under way.
func (f *Follower) Close() {
	close(f.stop)
	f.running.Wait()
}

// look reads the file if it is another one than the last time. A file that is written in place may be read in the middle; its next state
// has another time.
func (f *Follower) look() {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.gone(err)
		return
	}
	if err == nil && f.seen != nil && os.SameFile(info, f.seen) && info.ModTime().Equal(f.seen.ModTime()) && info.Size() == f.seen.Size() {
		return
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(f.path)
	}
	if err != nil {
		f.complain(err)
		return
	}
	f.seen = info
	current, _, err := journal.DecodeConfig(content)
	if err != nil {
		f.complain(err)
		return
	}
	f.complained = ""
	f.use(confd.NewSnapshot(current, nil))
	f.log.WithField("serial", current.Serial).Debug("configuration queries: configuration loaded")
}

func (f *Follower) gone(err error) {
	f.seen = nil
	f.use(nil)
	f.complain(err)
}

// complain logs what is wrong with the file, once for each text.
func (f *Follower) complain(err error) {
	if text := err.Error(); text != f.complained {
		f.complained = text
		f.log.WithFields(logrus.Fields{"path": f.path, "err": err}).Warn("configuration queries: the configuration cannot be read")
	}
}
