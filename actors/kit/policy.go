package kit

import (
	"fmt"
	"time"
)

// Policy says what a supervisor does when a child panics: restart it, after which delay, how often, and what when it fails too often.
type Policy struct {
	Scope Scope

	// Backoff is the delay of the restart after the first failure. It doubles with each
	// further failure within Window, up to BackoffMax; it does not grow if BackoffMax is
	// not above Backoff. The actual delay is random between one half of that and all of it.
	Backoff    time.Duration
	BackoffMax time.Duration

	// Limit is the number of failures within Window that lead to a restart; OnGiveUp
	// follows the next one. With Limit 0 there is never a restart.
	Limit    int
	Window   time.Duration // zero: failures are never forgotten
	OnGiveUp Directive     // Stop or Escalate
}

// Scope says whether the siblings of a failed child are restarted with it.
type Scope int

const (
	// OneForOne treats the failed child alone, and counts the failures of each child.
	OneForOne Scope = iota

	// AllForOne treats all children of the supervisor, and counts their failures together.
	// From the first failure until all are restarted, the children handle no user message,
	// except one that is being handled.
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

// Directive is what a supervisor does about a failed child, or about all its children (Scope).
type Directive int

const (
	// Stop stops the child, or all children. The supervisor gets Terminated of each.
	Stop Directive = iota

	// Escalate makes the supervisor fail with the child's reason: it handles no more user
	// messages, and its own supervisor decides. The root is stopped.
	Escalate

	// Restart replaces the child, or all children, after the delay.
	Restart

	// Ignore does nothing: the child is being restarted or stopped already after an earlier
	// failure, or its supervisor is stopping.
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

// Validate returns an error that names the first field out of its range, nil if there is none.
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

// delay is the delay of the nth restart in a row without jitter. n starts at 1.
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

// failures counts the failures of one child, or of a group.
//
// Invariant: times are within the window, oldest first, at most Limit+1.
type failures struct {
	policy Policy
	times  []time.Time
	phase  phase
}

// phase is the state of a child in the view of its supervisor.
type phase int

const (
	running    phase = iota // no restart is due and the child was not given up
	restarting              // the restart is due after the delay
	givenUp                 // the policy's limit was exceeded
)

// step is the decision about one failure.
type step struct {
	directive Directive
	attempt   int           // failures within the window, including this one if it counts
	delay     time.Duration // of a restart, without jitter
}

// next decides about a failure at now. A failure between another one and its restart does
// not count, because it most likely has the same cause.
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

// restarted records that the restart of next was ordered.
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
