package jobproc

import "time"

// Backoff gives the pauses between attempts: First, then twice the pause before, at most Max.
type Backoff struct {
	First, Max time.Duration
	last       time.Duration // 0: no pause since the last Reset
}

// Pause returns the pause before the next attempt, twice the former one: from First up to Max.
func (b *Backoff) Pause() time.Duration {
	b.last = min(max(b.First, 2*b.last), b.Max)
	return b.last
}

// Reset makes First the next pause. It follows a success.
func (b *Backoff) Reset() { b.last = 0 }

// DaemonBackoff gives the pauses between attempts to reach a daemon.
func DaemonBackoff() Backoff { return Backoff{First: 50 * time.Millisecond, Max: time.Second} }
