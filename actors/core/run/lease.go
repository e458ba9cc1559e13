package run

import "time"

// In a cluster the process of a job ends itself when its node may not be the master
// any more: another one may have failed the job by then, and given its locks away
// (DESIGN section 9; package repl says how these times fit with the others).
const (
	// LeaseProbe is how often it looks.
	LeaseProbe = 250 * time.Millisecond
	// LeaseGrace is what its command is given to end, after SIGTERM.
	LeaseGrace = 500 * time.Millisecond
)
