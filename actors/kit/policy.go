package kit

import (
	"fmt"
	"time"
)

// Policy is data: how a failing child is treated.
type Policy struct {
	Scope Scope

	// Backoff is the delay of the restart after the first failure; it doubles with
	// each further failure within Window, up to BackoffMax (or stays as it is, if
	// BackoffMax is not above it). The real delay is random between half of that
	// and all of it.
	Backoff    time.Duration
	BackoffMax time.Duration

	// Limit is the number of failures tolerated within Window, OnGiveUp what is
	// done about one more. With Limit 0 that is the first one: there is never a
	// restart.
	Limit    int
	Window   time.Duration // zero: failures are never forgotten
	OnGiveUp Directive     // Stop or Escalate
}

// Scope is who shares the fate of a child that failed, and its count of failures.
type Scope int

const (
	// OneForOne concerns the child alone; failures are counted for each child.
	OneForOne Scope = iota

	// AllForOne concerns all children of the supervisor; their failures are
	// counted together. From the first failure until they are all restarted the
	// children handle no user message, beyond the one in hand.
	AllForOne
)

func (s Scope) String() string {
	switch s {
	case OneForOne:
		return "one-for-one"
	case AllForOne:
		return "all-for-one"
	default:
		return fmt.Sprintf("Scope(%d)", int(s))
	}
}

// Directive is what is done about a failure.
type Directive int

const (
	// Stop stops the child, or all children; the supervisor gets Terminated of each.
	Stop Directive = iota

	// Escalate has the supervisor itself fail, with the child's reason: it handles
	// no more user messages, and its own supervisor decides. The root is stopped.
	Escalate

	// Restart replaces the child, or all children, after the delay.
	Restart

	// Ignore does nothing: the child is restarted or stopped already because of an
	// earlier failure, or its supervisor is leaving.
	Ignore
)

func (d Directive) String() string {
	switch d {
	case Stop:
		return "stop"
	case Escalate:
		return "escalate"
	case Restart:
		return "restart"
	case Ignore:
		return "ignore"
	default:
		return fmt.Sprintf("Directive(%d)", int(d))
	}
}

// Validate names the first field that makes no sense.
func (p Policy) Validate() error {
	switch {
	case p.Scope != OneForOne && p.Scope != AllForOne:
		return fmt.Errorf("policy: Scope is %v", p.Scope)
	case p.OnGiveUp != Stop && p.OnGiveUp != Escalate:
		return fmt.Errorf("policy: OnGiveUp is %v, want stop or escalate", p.OnGiveUp)
	case p.Limit < 0:
		return fmt.Errorf("policy: Limit is %d, want 0 or more", p.Limit)
	case p.Backoff < 0:
		return fmt.Errorf("policy: Backoff is %v, want 0 or more", p.Backoff)
	case p.BackoffMax < 0:
		return fmt.Errorf("policy: BackoffMax is %v, want 0 or more", p.BackoffMax)
	case p.Window < 0:
		return fmt.Errorf("policy: Window is %v, want 0 or more", p.Window)
	}
	return nil
}

// delay is that of the nth restart in a row, before it is spread; n counts from 1.
func (p Policy) delay(n int) time.Duration {
	limit := max(p.Backoff, p.BackoffMax)
	d := p.Backoff
	for ; n > 1 && d > 0 && d < limit; n-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return d
}

// jitter is uniform in [d/2, d].
func jitter(d time.Duration, random uint64) time.Duration {
	low := d / 2
	return low + time.Duration(random%uint64(d-low+1))
}

// failures is what a supervisor knows of one child, or of all of them, and
// decides by.
//
// Invariant: times are those within the window, oldest first, at most Limit+1.
type failures struct {
	policy Policy
	times  []time.Time
	phase  phase
}

// phase is where a child stands with its supervisor.
type phase int

const (
	running    phase = iota // as far as is known
	restarting              // its restart is due later
	givenUp                 // given up
)

// step is what to do about one failure.
type step struct {
	directive Directive
	attempt   int           // failures within the window, this one included if it counts
	delay     time.Duration // of a restart, before it is spread
}

// next decides about a failure at now. One that comes while an earlier one is
// being dealt with does not count: it has most likely the same cause.
func (f *failures) next(now time.Time) step {
	if f.phase != running {
		return step{directive: Ignore, attempt: len(f.times)}
	}
	f.times = append(f.recent(now), now)
	n := len(f.times)
	if n > f.policy.Limit {
		f.phase = givenUp
		return step{directive: f.policy.OnGiveUp, attempt: n}
	}
	f.phase = restarting
	return step{directive: Restart, attempt: n, delay: f.policy.delay(n)}
}

// restarted notes that the restart decided by next has been ordered.
func (f *failures) restarted() { f.phase = running }

func (f *failures) recent(now time.Time) []time.Time {
	if f.policy.Window == 0 {
		return f.times
	}
	for i, t := range f.times {
		if now.Sub(t) < f.policy.Window {
			return f.times[i:]
		}
	}
	return nil
}
