package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/actors/jobs"
	"lockstep/edge/reaper"
	"lockstep/messages"
)

// killTimeout is how long a killed process may take to end.
const killTimeout = 5 * time.Second

// session is the session that the process of a job has led. The zero value: the lock file names it.
type session struct {
	pid    int            // of a process whose pid cannot be reused yet; 0: see leader
	leader *reaper.Leader // nil: not known
}

// cleanUp kills the orphans of a job whose process has ended. neverBegan: it is proven that the process did not begin the job. Then the
// proof stays: a daemon that dies before the job's file is queued again leaves it to the next one. The janitor removes lock files.
//
// The pipe for progress is removed last, because an orphan may write to it.
func (p *Processes) cleanUp(job jobs.Job, livelock string, s session) (neverBegan bool, used usage) {
	defer p.removeProgressPipe(job.ID)
	if livelock == "" {
		return false, usage{}
	}
	// Read before killOrphans, which removes the lock file.
	neverBegan = p.takeProof(job, livelock)
	if neverBegan && job.Program == messages.JobProgram_LOCKSTEP_JOB {
		return true, usage{} // there are no orphans
	}
	return neverBegan, p.killOrphans(livelock, s)
}

// killOrphans kills the orphans of a job whose process has ended, so that none of them works
// beside the next job with the same locks, and removes the lock file. It returns what the last command of the job has used.
func (p *Processes) killOrphans(livelock string, s session) (used usage) {
	if livelock == "" {
		return usage{} // the process ended before it had a lock file
	}
	used = p.killGroups(livelock)
	p.runReaper(livelock, s)
	p.cgroup.remove(livelock)
	// Last: if this daemon dies before it, the next one finds the orphans by the session that the lock file names.
	if err := os.Remove(livelock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.config.Log.WithFields(logrus.Fields{"path": livelock, "err": err}).Warn("removal of the lock file of a dead job process failed")
	}
	return used
}

func (p *Processes) runReaper(livelock string, s session) {
	orphans := reaper.Job{Livelock: livelock, Session: s.pid, Leader: s.leader, KillTimeout: killTimeout, OnKill: func(pid int) {
		p.config.Log.WithField("pid", pid).Info("killing orphan of a dead job process")
	}}
	if s == (session{}) {
		orphans.Leader = reaper.ReadLeader(livelock)
	}
	if err := orphans.Kill(); err != nil {
		p.config.Log.WithField("err", err).Error("search for orphans failed; processes of a dead job may still run")
	}
}
