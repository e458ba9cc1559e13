package rapi

import (
	"container/list"
	"crypto/sha256"
	"net/netip"
	"time"
)

// Bounds and pauses of failed logins.
const (
	freeFailures = 3 // failures from one address without a pause
	pauseFirst   = 100 * time.Millisecond
	pauseMax     = 3 * time.Second

	freeNameFailures = 10 // failures for one name, from all addresses, without a pause
	namePause        = 100 * time.Millisecond

	forgetAfter = time.Minute // after the last failure
	trustedFor  = time.Hour   // after the last login
	countersMax = 4096
)

// throttle decides which logins are checked. A login that is refused is not
// checked, so that a guess costs the time that is left whether or not the client
// waits for the answer. It is a pure state machine; it reads no clock.
//
// Failures are counted for the address: after the first few, each doubles the pause
// in which logins from that address are refused, up to pauseMax. They are counted
// for the name as well: after freeNameFailures, each one starts a pause of namePause
// for the name at all addresses. That pause is short, so failures at one address do
// not lock out the user at another.
//
// A name that has logged in from an address has a separate counter there. Failures of other
// names at that address, and of that name at other addresses, do not affect it.
type throttle struct {
	limit     int
	counters  map[counterKey]*list.Element
	byLastUse *list.List // of *counter, the most recently used at the end
}

// counterKey is what a counter is for: an address, a name, or a name at an address.
type counterKey struct {
	address netip.Prefix
	name    digest
}

// digest is the hash of a name. Names are sent by clients and may be long.
type digest [16]byte

// counter counts the failed logins of a key.
type counter struct {
	key         counterKey
	failures    int
	lastFailure time.Time
	lastLogin   time.Time // only set for a name at an address
}

// loginAttempt identifies a login to the throttle.
type loginAttempt struct {
	address netip.Prefix
	name    digest
}

// newLoginAttempt identifies a login from an address. All addresses of a /64 of IPv6, which one
// customer usually has, count as one.
func newLoginAttempt(source, name string) loginAttempt {
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
	return loginAttempt{netip.PrefixFrom(address, bits).Masked(), digest(sum[:16])}
}

func newThrottle(limit int) *throttle {
	return &throttle{limit: limit, counters: map[counterKey]*list.Element{}, byLastUse: list.New()}
}

// wait returns how long logins like this one are still refused; 0: this one may be checked.
func (t *throttle) wait(a loginAttempt, now time.Time) time.Duration {
	if c := t.trusted(a, now); c != nil {
		return c.remainingPause(freeFailures, pauseFirst, pauseMax, now)
	}
	return max(t.find(counterKey{address: a.address}).remainingPause(freeFailures, pauseFirst, pauseMax, now),
		t.find(counterKey{name: a.name}).remainingPause(freeNameFailures, namePause, namePause, now))
}

// recordFailure counts a login that was checked and failed.
func (t *throttle) recordFailure(a loginAttempt, now time.Time) {
	if c := t.trusted(a, now); c != nil {
		c.addFailure(now)
	} else {
		t.findOrCreate(counterKey{address: a.address}).addFailure(now)
	}
	t.findOrCreate(counterKey{name: a.name}).addFailure(now)
}

// recordLogin records a login that succeeded.
func (t *throttle) recordLogin(a loginAttempt, now time.Time) {
	c := t.findOrCreate(counterKey(a))
	c.failures, c.lastLogin = 0, now
}

// trusted returns the counter of a name that has logged in from this address within trustedFor;
// nil: there is none.
func (t *throttle) trusted(a loginAttempt, now time.Time) *counter {
	c := t.find(counterKey(a))
	if c == nil || now.Sub(c.lastLogin) > trustedFor {
		return nil
	}
	return c
}

// find returns a counter and marks it as used; nil if there is none.
func (t *throttle) find(key counterKey) *counter {
	e := t.counters[key]
	if e == nil {
		return nil
	}
	t.byLastUse.MoveToBack(e)
	c, _ := e.Value.(*counter)
	return c
}

// findOrCreate returns a counter. A new one evicts the least recently used at the limit.
func (t *throttle) findOrCreate(key counterKey) *counter {
	if c := t.find(key); c != nil {
		return c
	}
	if len(t.counters) >= t.limit {
		oldest := t.byLastUse.Front()
		if c, ok := t.byLastUse.Remove(oldest).(*counter); ok {
			delete(t.counters, c.key)
		}
	}
	c := &counter{key: key}
	t.counters[key] = t.byLastUse.PushBack(c)
	return c
}

func (c *counter) addFailure(now time.Time) {
	if now.Sub(c.lastFailure) > forgetAfter {
		c.failures = 0
	}
	c.failures++
	c.lastFailure = now
}

// remainingPause returns how long logins are still refused: after more than free failures for
// first, and for twice as long after each further failure, up to limit.
func (c *counter) remainingPause(free int, first, limit time.Duration, now time.Time) time.Duration {
	if c == nil || c.failures <= free || now.Sub(c.lastFailure) > forgetAfter {
		return 0
	}
	pause := min(first<<min(c.failures-free-1, 10), limit)
	return max(0, pause-now.Sub(c.lastFailure))
}
