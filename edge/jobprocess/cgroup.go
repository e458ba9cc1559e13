package jobprocess

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/sirupsen/logrus"

	"lockstep/core/job"
	kernelgroup "lockstep/edge/cgroup"
)

// cgroup is the control group in which job processes start, outside the one of the daemon's
// service: a service of systemd with controllers cannot start again while processes of jobs are
// in its group. systemd makes the parent directory for another unit; the group itself is made by
// the first job. Without the parent, and on a kernel that cannot start a process in a group, job processes
// start in the group of the daemon.
type cgroup struct {
	path string // "": job processes start in the group of the daemon
	log  *logrus.Logger

	refused sync.Once
}

// open returns the directory of the group; nil: there is none.
func (g *cgroup) open() *os.File {
	if g.path == "" {
		return nil
	}
	dir, err := os.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		const mode = 0o755 // of every control group
		if err = os.Mkdir(g.path, mode); err == nil || errors.Is(err, fs.ErrExist) {
			dir, err = os.Open(g.path)
		}
	}
	if err != nil {
		g.unusable(err)
		return nil
	}
	// A directory of another file system is no control group.
	if err := kernelgroup.IsGroup(g.path); err != nil {
		g.unusable(errors.Join(err, dir.Close()))
		return nil
	}
	return dir
}

// ofCommands is the group below which job processes make those of their commands; "": there is none.
func (g *cgroup) ofCommands() string {
	dir := g.open()
	if dir == nil {
		return ""
	}
	_ = dir.Close()
	return g.path
}

// usage is what the last command of a dead job has used, as its control group tells. The zero value: it is not known.
type usage struct {
	encoded []byte // job.Usage as JSON
	op      int
}

// killGroups kills all processes in the control groups of a job's commands. No process of a command can leave its group without root's
// rights, so this also ends those that reaper.Job does not find.
func (p *Processes) killGroups(livelock string) (used usage) {
	for _, path := range kernelgroup.Of(p.cgroup.path, livelock) {
		if err := kernelgroup.Kill(path, killTimeout); err != nil {
			p.config.Log.WithFields(logrus.Fields{"path": path, "err": err}).Error("processes of a dead job may still run")
		}
		op := kernelgroup.OpOf(path, livelock)
		measured, known := kernelgroup.UsageOf(path)
		if !known || used.encoded != nil && op < used.op {
			continue
		}
		u := job.Usage{CPUSeconds: measured.CPU.Seconds()}
		if measured.MemoryPeak > 0 {
			u.MemoryPeakBytes, u.MemoryOf = measured.MemoryPeak, job.MemoryOfGroup
		}
		encoded, err := json.Marshal(u)
		if err != nil {
			panic(err) // numbers
		}
		used = usage{encoded, op}
	}
	return used
}

// remove removes the control groups of a job's commands. One in which a process has not ended yet stays, and the janitor removes it.
func (g *cgroup) remove(livelock string) {
	for _, path := range kernelgroup.Of(g.path, livelock) {
		kernelgroup.Remove(path)
	}
}

// unusable logs why the control group of job processes cannot be used, the first time only.
func (g *cgroup) unusable(err error) {
	g.refused.Do(func() {
		g.log.WithFields(logrus.Fields{"path": g.path, "err": err}).
			Warn("job processes cannot start in their control group; they start in the daemon's")
	})
}
