package sched

import (
	"fmt"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Candidate is a job that may be picked.
//
// Declared is the worst case over the opcodes that the job still has to run. ReceivedUs is in microseconds since 1970.
type Candidate struct {
	ID         job.ID
	Priority   int
	ReceivedUs int64
	Declared   lock.Declaration
	Limits     []Limit
}

// Limit says that at most N jobs that carry Key may run at once. Different limits have different keys: the UUID of a
// filter rule, or the number and label of a bucket in the reason trail.
type Limit struct {
	Key string
	N   int
}

// Settings may change while jobs wait and run.
type Settings struct {
	// Slots is how many jobs may run (max_running_jobs).
	Slots int
	// Predictive puts the weight between priority and id.
	Predictive bool
	// Base is the weight of a job without contention, before it ages.
	Base int
	// Tick is the unit of ages.
	Tick time.Duration
	// K is the age in ticks at which the weight of a job is 0.
	K int
}

// Defaults are Ganeti's number of slots, and the parameters of designs.md "Weight".
func Defaults() Settings {
	return Settings{Slots: 20, Predictive: true, Base: 1, Tick: 30 * time.Second, K: 30}
}

// The limits exceed all useful values, and keep weights within 63 bits.
const (
	baseMax = 1_000_000
	kMax    = 1_000_000
	tickMin = time.Millisecond
	tickMax = 365 * 24 * time.Hour
)

// Validate is the error for the first setting that is out of range.
func (s Settings) Validate() error {
	switch {
	case s.Slots < 1:
		return fmt.Errorf("slots: %d is less than 1", s.Slots)
	case s.Base < 0 || s.Base > baseMax:
		return fmt.Errorf("base: %d is not in 0..%d", s.Base, baseMax)
	case s.Tick < tickMin || s.Tick > tickMax:
		return fmt.Errorf("tick: %v is not in %v..%v", s.Tick, tickMin, tickMax)
	case s.K < 1 || s.K > kMax:
		return fmt.Errorf("K: %d is not in 1..%d", s.K, kMax)
	}
	return nil
}

// tickOf counts ticks since 1970. All jobs share this clock, so that all of them
// age at the same moments.
func (s Settings) tickOf(us int64) int64 {
	tickUs := s.Tick.Microseconds()
	tick := us / tickUs
	if us%tickUs < 0 {
		tick--
	}
	return tick
}
