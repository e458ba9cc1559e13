package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"lockstep/edge/reaper"
	"lockstep/persistence"
)

// killedMax is how long a killed process may take to be gone.
const killedMax = 5 * time.Second

// clearAway kills what is left of a job whose process is gone, so that nothing
// of it still works on what the next job locks, and removes its lock file. For
// session see reaper.Job; where it is 0, the lock file says which session it was.
func (p *Processes) clearAway(livelock string, session int) {
	if livelock == "" {
		return // it never got as far as that
	}
	p.killRemnants(livelock, session)
	if err := os.Remove(livelock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.config.Log.WithFields(map[string]any{"path": livelock, "err": err}).Warn("a dead job's lock file cannot be removed")
	}
}

func (p *Processes) killRemnants(livelock string, session int) {
	left := reaper.Job{Livelock: livelock, Session: session, GoneWithin: killedMax, Killing: func(pid int) {
		p.config.Log.WithField("pid", pid).Info("killing a process that a dead job has left")
	}}
	if session == 0 {
		left.Leader = leaderOf(livelock)
	}
	if err := left.Kill(); err != nil {
		p.config.Log.WithField("err", err).Error("a dead job may have left processes")
	}
}

// leaderOf is the process that made the lock file; nil where the file is gone, or does not
// say.
func leaderOf(livelock string) *reaper.Leader {
	content, err := persistence.ReadLivelock(livelock)
	if err != nil {
		return nil
	}
	leader, err := reaper.DecodeLeader(content)
	if err != nil {
		return nil
	}
	return &leader
}
