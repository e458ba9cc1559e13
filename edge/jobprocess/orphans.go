package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// killTimeout is how long a killed process may take to end.
const killTimeout = 5 * time.Second

// killOrphans kills the orphans of a job whose process has ended, so that none of them works
// beside the next job with the same locks, and removes the lock file. For session see
// reaper.Job; if it is 0, the lock file names the session.
func (p *Processes) killOrphans(livelock string, session int) {
	if livelock == "" {
		return // the process ended before it had a lock file
	}
	p.runReaper(livelock, session)
	if err := os.Remove(livelock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.config.Log.WithFields(map[string]any{"path": livelock, "err": err}).Warn("a dead job's lock file cannot be removed")
	}
}

func (p *Processes) runReaper(livelock string, session int) {
	orphans := reaper.Job{Livelock: livelock, Session: session, KillTimeout: killTimeout, OnKill: func(pid int) {
		p.config.Log.WithField("pid", pid).Info("killing a process that a dead job has left")
	}}
	if session == 0 {
		orphans.Leader = readLeader(livelock)
	}
	if err := orphans.Kill(); err != nil {
		p.config.Log.WithField("err", err).Error("a dead job may have left processes")
	}
}

// readLeader returns the process that made the lock file; nil: the file is missing, or does
// not name the process.
func readLeader(livelock string) *reaper.Leader {
	content, err := persistence.ReadOwnerInfo(livelock)
	if err != nil {
		return nil
	}
	leader, err := reaper.DecodeLeader(content)
	if err != nil {
		return nil
	}
	return &leader
}
