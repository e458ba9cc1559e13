// Package guard decides which control groups of commands the guard kills. The guard is a process beside the daemon (lockstep-guard): it
// ends what a killed job process has left while no daemon lives that would do so, and what a suspended one does not end after the lease. So
// no command of a former master works beside the jobs of the next one (docs/cluster.md).
//
// The guard only ends what must end anyway, so its death harms nothing, and it needs to know nothing of jobs.
package guard

import "time"

const (
	// Interval is the pause between two looks.
	Interval = 250 * time.Millisecond
	// LeaseGrace is how long the lease has been over when the guard kills the commands of living job processes. By then these have ended
	// their commands and themselves, unless they are suspended. The next look and the kill end before the fence of the next master.
	LeaseGrace = time.Second
)

// LockFile is what the guard finds of the lock file of the job process that has made a control group.
type LockFile uint8

const (
	// Missing: the job process has ended in order, or a daemon has ended all that it had left. What remains in the group may go on.
	Missing LockFile = iota
	// Held: the job process lives.
	Held
	// Free: the job process has died.
	Free
)

// Kills reports whether the guard kills all processes of a control group. expired is for how long the lease of this node has been over; 0:
// it is valid, or the node needs none.
//
// A group without lock file is never killed, also not after the lease: no job works in it.
func Kills(file LockFile, expired time.Duration) bool {
	return file == Free || file == Held && expired >= LeaseGrace
}
