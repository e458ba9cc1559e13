package jobprocess

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// KillAll makes away with all job processes of this node, and with what is left of
// those that have ended: the node is not the master of its cluster, and whoever is
// has failed their jobs (design.md 9). They have ended by themselves, normally;
// it returns when nothing is left.
func (p *Processes) KillAll() {
	for livelock, id := range p.livelocks() {
		p.config.Log.WithFields(logrus.Fields{"job": id, "path": livelock}).Info("ending a job: this node is not the master any more")
		p.killProcess(livelock, id)
		p.killOrphans(livelock, 0)
		p.removePriorityMessage(id)
	}
}

// RunningJobs are the jobs whose processes live here, whichever daemon has started them, in
// order.
func (p *Processes) RunningJobs() (ids []int64) {
	for livelock, id := range p.livelocks() {
		if isAlive(livelock) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// livelocks are the lock files of jobs on this node, and whose they are.
func (p *Processes) livelocks() map[string]int64 {
	files, err := filepath.Glob(filepath.Join(persistence.LivelockDir(p.config.RunDir), paths.JobLivelockPattern))
	if err != nil {
		panic(err) // the pattern is ours
	}
	locks := map[string]int64{}
	for _, path := range files {
		if id, ok := paths.JobIDOfLivelock(path); ok {
			locks[path] = id
		}
	}
	return locks
}

// killProcess kills a job's process, which is known by its lock file, held, with its
// pid in the name, and by how we start job processes.
func (p *Processes) killProcess(livelock string, id int64) {
	pid := pidOf(livelock)
	for deadline := time.Now().Add(killTimeout); isAlive(livelock) && time.Now().Before(deadline); time.Sleep(killInterval) {
		process := openProcess(pid)
		if process == nil {
			continue // what it has started may hold the lock, until killOrphans
		}
		if p.isJobProcess(pid, id) && !errors.Is(process.Signal(unix.SIGKILL), os.ErrProcessDone) {
			process.EndsWithin(killTimeout)
		}
		_ = process.Close()
		return
	}
}

// pidOf is the one in the name job_ID_SECONDS_PID_RANDOM; 0 where there is none.
func pidOf(livelock string) int {
	parts := strings.Split(filepath.Base(livelock), "_")
	if len(parts) != 5 {
		return 0
	}
	pid, err := strconv.Atoi(parts[3])
	if err != nil {
		return 0
	}
	return pid
}
