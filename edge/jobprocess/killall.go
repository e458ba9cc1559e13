package jobprocess

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"lockstep/actors/jobs"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// KillAll kills all job processes of this node and the orphans of ended ones, and returns when
// none is left. It is called when this node is not the master of its cluster and the master has
// failed their jobs (design.md "Master"). Usually the processes have ended by then, because their lease
// has expired.
func (p *Processes) KillAll() {
	for livelock, id := range p.livelocks() {
		p.config.Log.WithFields(logrus.Fields{"job": id, "path": livelock}).Info("killing job process: this node is no longer the master")
		p.killProcess(livelock, id)
		// The orphans are killed after the process, which could have started more of them.
		p.killOrphans(livelock, session{})
		p.removePriorityMessage(id)
	}
}

// RunningJobs returns the ids of jobs whose processes live on this node, in order, also those
// that a former daemon started.
func (p *Processes) RunningJobs() (ids []int64) {
	for livelock, id := range p.livelocks() {
		if isAlive(livelock) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Process is a job process that lives on this node.
type Process struct {
	Job int64
	PID int // 0: its lock file does not name it
}

// List returns the job processes that live on this node, by job, also those that a former daemon started.
func (p *Processes) List() []Process {
	var all []Process
	for livelock, id := range p.livelocks() {
		if isAlive(livelock) {
			all = append(all, Process{id, pidOf(livelock)})
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.PID, b.PID)) })
	return all
}

// livelocks returns the lock files of jobs on this node, and the job of each.
func (p *Processes) livelocks() map[string]int64 {
	files, err := filepath.Glob(filepath.Join(persistence.LivelockDir(p.config.RunDir), paths.JobLivelockPattern))
	if err != nil {
		panic(err) // the pattern is a constant
	}
	locks := map[string]int64{}
	for _, path := range files {
		if id, ok := paths.JobIDOfLivelock(path); ok {
			locks[path] = id
		}
	}
	return locks
}

// killProcess kills a job's process. It recognises the process by its held lock file, which
// has the pid in its name, and by its command line.
func (p *Processes) killProcess(livelock string, id int64) {
	pid := pidOf(livelock)
	for deadline := time.Now().Add(killTimeout); isAlive(livelock) && time.Now().Before(deadline); time.Sleep(killInterval) {
		// Opened before the command line is compared: the signal then reaches the process that was compared, or none.
		process := openProcess(pid)
		if process == nil {
			continue // a child of the process may hold the lock until killOrphans
		}
		if p.isJobProcess(pid, jobs.Job{ID: id}) && !errors.Is(process.Signal(unix.SIGKILL), os.ErrProcessDone) {
			process.EndsWithin(killTimeout)
		}
		_ = process.Close()
		return
	}
}

// pidOf returns the pid in the name job_ID_SECONDS_PID_RANDOM or job_ID_START_SECONDS_PID_RANDOM; 0: there is none.
func pidOf(livelock string) int {
	parts := strings.Split(filepath.Base(livelock), "_")
	if len(parts) != 5 && len(parts) != 6 {
		return 0
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		return 0
	}
	return pid
}
