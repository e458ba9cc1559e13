package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sirupsen/logrus"
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
	if _, err := os.Stat(filepath.Join(g.path, "cgroup.procs")); err != nil {
		g.unusable(errors.Join(err, dir.Close()))
		return nil
	}
	return dir
}

// unusable logs why the control group of job processes cannot be used, the first time only.
func (g *cgroup) unusable(err error) {
	g.refused.Do(func() {
		g.log.WithFields(logrus.Fields{"path": g.path, "err": err}).
			Warn("job processes cannot start in their control group; they start in the daemon's")
	})
}
