package sim

import (
	"fmt"
	"path"
)

// checkRunDirs: a daemon does not run with another run directory than that in which a process lives that it has started, or an owner of
// locks: it would take them for dead.
type checkRunDirs struct{}

func (checkRunDirs) Name() string { return "run directories" }

func (checkRunDirs) See(w *World, event any) error {
	if _, is := event.(daemonStarted); !is {
		return nil
	}
	for _, n := range w.nodes {
		if n.daemon == nil {
			continue
		}
		for _, p := range n.machine.processes {
			hasLockFile := n.machine.livelocks[p.livelock] == p // without one it has written its end
			if p.launched && hasLockFile && !p.inRunDir() {
				return fmt.Errorf("daemon %d runs with %s, and process %d of job %d lives in %s",
					n.daemon.number, n.machine.runDir, p.pid, p.job, path.Dir(p.livelock))
			}
		}
	}
	for _, p := range w.programs {
		if p.process.machine.node.daemon != nil && !p.process.inRunDir() {
			return fmt.Errorf("the daemon runs with %s, and %s lives in %s", p.process.machine.runDir, p.name, path.Dir(p.process.livelock))
		}
	}
	return nil
}

func (p *process) inRunDir() bool { return p.machine.local(p.livelock) == p.livelock }
