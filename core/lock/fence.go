package lock

import "time"

// Fence is the time until which a new master of a cluster grants no lock. Until then jobs of the former master may
// still work with their locks. The zero value is over.
type Fence struct{ until time.Time }

// NewFence is a fence that begins now and lasts for d.
func NewFence(now time.Time, d time.Duration) Fence { return Fence{until: now.Add(d)} }

// Remaining is for how long no lock is granted yet.
func (f Fence) Remaining(now time.Time) time.Duration { return max(0, f.until.Sub(now)) }
