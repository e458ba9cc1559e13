package rapi

import (
	"container/list"
	"crypto/sha256"
	"net/netip"
	"time"
)

// Bounds of what failed logins cost.
const (
	failuresFree = 3 // failures from an address that cost nothing
	pauseFirst   = 100 * time.Millisecond
	pauseMost    = 3 * time.Second

	nameFailuresFree = 10 // failures for a name, from all addresses, that cost nothing
	namePause        = 100 * time.Millisecond

	forgetAfter = time.Minute // without a failure
	knownFor    = time.Hour   // since the last login
	countersMax = 4096
)

// throttle decides which logins are checked. A login that is refused is not
// checked, so that a guess costs the time that is left whether or not the client
// waits for the answer. It is a pure state machine; it reads no clock.
//
// Failures are counted for the address: after the first few, each doubles the pause
// in which logins from that address are refused, up to pauseMost. They are counted
// for the name as well: after nameFailuresFree, each one starts a pause of namePause
// for the name at all addresses. That pause is short, so failures at one address do
// not lock out the user at another.
//
// A name that has logged in from an address has a counter of its own there. Failures
// of other names at that address, and of that name at other addresses, do not
// affect it.
type throttle struct {
	most     int
	counters map[counted]*list.Element
	byAge    *list.List // of *counter, the one that was used last at the end
}

// counted is what a counter is for: an address, a name, or a name at an address.
type counted struct {
	address netip.Prefix
	name    digest
}

// digest stands for a name. Names are chosen by clients and may be long.
type digest [16]byte

// counter is what is remembered of logins.
type counter struct {
	of       counted
	failures int
	failed   time.Time // the last time
	loggedIn time.Time // the last time; only for a name at an address
}

// attempt is a login as the throttle sees it.
type attempt struct {
	address netip.Prefix
	name    digest
}

// newAttempt is a login from an address. Addresses of a network that one customer
// usually has, a /64 of IPv6, count as one.
func newAttempt(source, name string) attempt {
	address, err := netip.ParseAddr(source)
	if err != nil {
		address = netip.IPv6Unspecified()
	}
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	sum := sha256.Sum256([]byte(name))
	return attempt{netip.PrefixFrom(address, bits).Masked(), digest(sum[:16])}
}

func newThrottle(most int) *throttle {
	return &throttle{most: most, counters: map[counted]*list.Element{}, byAge: list.New()}
}

// wait is how long logins like this one are refused; 0: this one may be checked.
func (t *throttle) wait(a attempt, now time.Time) time.Duration {
	if c := t.known(a, now); c != nil {
		return c.pause(failuresFree, pauseFirst, pauseMost, now)
	}
	return max(t.find(counted{address: a.address}).pause(failuresFree, pauseFirst, pauseMost, now),
		t.find(counted{name: a.name}).pause(nameFailuresFree, namePause, namePause, now))
}

// failed notes that a login was checked and was wrong.
func (t *throttle) failed(a attempt, now time.Time) {
	if c := t.known(a, now); c != nil {
		c.fail(now)
	} else {
		t.use(counted{address: a.address}).fail(now)
	}
	t.use(counted{name: a.name}).fail(now)
}

// loggedIn notes that a login was checked and was right.
func (t *throttle) loggedIn(a attempt, now time.Time) {
	c := t.use(counted(a))
	c.failures, c.loggedIn = 0, now
}

// known is the counter of a name that has logged in from this address; nil: it has
// not, or too long ago.
func (t *throttle) known(a attempt, now time.Time) *counter {
	c := t.find(counted(a))
	if c == nil || now.Sub(c.loggedIn) > knownFor {
		return nil
	}
	return c
}

// find is the counter, nil if there is none. It stays while it is asked for.
func (t *throttle) find(of counted) *counter {
	e := t.counters[of]
	if e == nil {
		return nil
	}
	t.byAge.MoveToBack(e)
	c, _ := e.Value.(*counter)
	return c
}

// use is the counter, made if there is none. The one that was not used for longest
// makes room.
func (t *throttle) use(of counted) *counter {
	if c := t.find(of); c != nil {
		return c
	}
	if len(t.counters) >= t.most {
		oldest := t.byAge.Front()
		if c, ok := t.byAge.Remove(oldest).(*counter); ok {
			delete(t.counters, c.of)
		}
	}
	c := &counter{of: of}
	t.counters[of] = t.byAge.PushBack(c)
	return c
}

func (c *counter) fail(now time.Time) {
	if now.Sub(c.failed) > forgetAfter {
		c.failures = 0
	}
	c.failures++
	c.failed = now
}

// pause is what is left of the time in which logins are refused: first after so many
// failures, and twice as long after each further one.
func (c *counter) pause(free int, first, most time.Duration, now time.Time) time.Duration {
	if c == nil || c.failures <= free || now.Sub(c.failed) > forgetAfter {
		return 0
	}
	pause := min(first<<min(c.failures-free-1, 10), most)
	return max(0, pause-now.Sub(c.failed))
}
