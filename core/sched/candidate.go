package sched

import (
	"fmt"
	"time"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/lock"
)

// Candidate is a job that may be picked.
//
// Declared is what the next opcode declares in the order Expected, and the worst case over all opcodes that the job
// still has to run in the other orders. ReceivedUs is in microseconds since 1970. Expected is how long the rest of the
// job is expected to execute; only the order Expected uses it. BeganUs is when a running job began its opcode, in microseconds
// since 1970; 0: not known.
type Candidate struct {
	ID         job.ID
	Priority   int
	ReceivedUs int64
	Declared   lock.Declaration
	Expected   time.Duration
	BeganUs    int64
	Limits     []Limit
}

// Order names the rule by which candidates of the same priority are ordered.
type Order string

const (
	// Expected: only jobs that can be granted their locks start; those that are expected to be short and those that have
	// waited long go first.
	Expected Order = "expected"
	// Weights: the weight of designs.md "Weight", then the id.
	Weights Order = "weights"
	// Plain: the id.
	Plain Order = "plain"
)

// Valid reports whether it is one of the three orders.
func (o Order) Valid() bool { return o == Expected || o == Weights || o == Plain }

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
	// Order decides between candidates of one priority. It does not change from Expected to another order, or back: that
	// needs a new State.
	Order Order
	// Ageing is how much longer than another a job must be expected to take, divided by how much longer it has waited, to
	// come after it, in the order Expected: 1/Ageing. It is at least 1.
	Ageing int
	// ReserveAfter is how long the oldest blocked job waits before it reserves its locks. LockBypass is the setting of the
	// lock manager: 0 is never. Both are for the order Expected.
	ReserveAfter, LockBypass time.Duration
	// StartUnblocked: no job is started before its locks are free, in the order Expected. It is for a caller that plays the order
	// forward without a lock manager.
	StartUnblocked bool
	// Base is the weight of a job without contention, before it ages.
	Base int
	// Tick is the unit of ages.
	Tick time.Duration
	// K is the age in ticks at which the weight of a job is 0.
	K int
}

// Defaults are Ganeti's number of slots, and the parameters of designs.md "Weight".
func Defaults() Settings {
	return Settings{Slots: 20, Order: Weights, Base: 1, Tick: 30 * time.Second, K: 30,
		Ageing: DefaultAgeing, ReserveAfter: 30 * time.Minute, LockBypass: 30 * time.Second}
}

// DefaultAgeing is how many minutes longer a job must have waited to go first, for each minute that it is expected to take longer
// (docs/predictive.md).
const DefaultAgeing = 20

// SettingsOf are the settings of an operator for a number of slots.
func SettingsOf(slots int, s config.Settings) Settings {
	return Settings{Slots: slots, Order: Order(s.Order), Ageing: DefaultAgeing, ReserveAfter: s.ReserveAfter(), LockBypass: s.LockBypass(),
		Base: s.PredictiveBase, Tick: s.PredictiveTick(), K: s.PredictiveTicks}
}

// The limits exceed all useful values, and keep weights within 63 bits.
const (
	baseMax = 1_000_000
	kMax    = 1_000_000
	tickMin = time.Millisecond
	tickMax = 365 * 24 * time.Hour

	ageingMax = 1_000
)

// Validate is the error for the first setting that is out of range.
func (s Settings) Validate() error {
	switch {
	case s.Slots < 1:
		return fmt.Errorf("slots: %d is less than 1", s.Slots)
	case !s.Order.Valid():
		return fmt.Errorf("order: %q is none of expected, weights, plain", s.Order)
	case s.Ageing < 1 || s.Ageing > ageingMax:
		return fmt.Errorf("ageing: %d is not in 1..%d", s.Ageing, ageingMax)
	case s.ReserveAfter < 0 || s.LockBypass < 0:
		return fmt.Errorf("reserve after %v, lock bypass %v: negative", s.ReserveAfter, s.LockBypass)
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
