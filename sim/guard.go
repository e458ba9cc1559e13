package sim

import (
	"slices"
	"time"

	"lockstep/core/guard"
)

// wakeGuard lets the guard of the machine look while a command lives. The looks have a fixed distance, and the first one comes at any time
// within it. The guard does not belong to the daemon, and ends with the machine alone.
func (m *machine) wakeGuard() {
	w := m.world
	if !w.options.Guard || m.guardAwake {
		return
	}
	m.guardAwake = true
	w.clock.After(time.Duration(w.guardDice.Int64N(int64(guard.Interval))), w.life, m.guardLooks)
}

func (m *machine) guardLooks() {
	w := m.world
	for _, c := range slices.Clone(m.commands) {
		if !w.mutations.IdleGuard && guard.Kills(m.lockFile(c.process.livelock), m.node.leaseExpired()) {
			c.end("killed by the guard")
		}
	}
	if len(m.commands) == 0 {
		m.guardAwake = false
		return
	}
	w.clock.After(guard.Interval, w.life, m.guardLooks)
}

// lockFile is what the guard finds of a job's lock file.
func (m *machine) lockFile(livelock string) guard.LockFile {
	switch p := m.livelocks[livelock]; {
	case p == nil:
		return guard.Missing
	case p.life.Over:
		return guard.Free
	default:
		return guard.Held
	}
}
