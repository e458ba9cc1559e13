package login

import (
	"container/list"
	"crypto/sha256"
	"time"

	"lockstep/core/budget"
)

// Bounds and pauses of failed logins.
const (
	freeFailures = 3 // failures of a name at a client without a pause
	pauseFirst   = 100 * time.Millisecond
	pauseMax     = 3 * time.Second

	freeNameFailures = 10 // failures of a name in all, or of a client in all, without a pause
	namePause        = 100 * time.Millisecond

	forgetAfter = time.Minute // after the last failure
	countersMax = 4096
)

// throttle decides when a password may be checked. It is a pure state machine; it reads no clock.
//
// Failures are counted for a name at a client: after the first few, each doubles the pause before the next check there, up to pauseMax.
// They are forgotten with time only: a right password ends no pause, for it may be that of a program beside the one that guesses.
//
// A name that has failed at a client also waits for the pauses of the name and of the client, which count all their failures: this
// slows down guesses from many addresses, and of many names. A name without a failure at its client is checked at once, whatever
// others guess. So a user waits for the guesses of others only if they come from his client with his name.
type throttle struct {
	limit     int
	counters  map[attempt]*list.Element
	byLastUse *list.List // of *counter, the most recently used at the end
}

// digest is the hash of a name. Names are sent by clients and may be long.
type digest [16]byte

// counter counts the failed logins of a name, of a client, or of a name at a client.
type counter struct {
	key         attempt
	failures    int
	lastFailure time.Time
}

// attempt is whose failures the throttle counts: a name at a client. With the client alone it is the key of the client's counter, with
// the name alone that of the name's counter.
type attempt struct {
	client budget.Client
	name   digest
}

// newAttempt identifies logins of a client as a user name, of which only a hash is kept.
func newAttempt(client budget.Client, name string) attempt {
	sum := sha256.Sum256([]byte(name))
	return attempt{client.Key(), digest(sum[:16])}
}

func newThrottle(limit int) *throttle {
	return &throttle{limit: limit, counters: map[attempt]*list.Element{}, byLastUse: list.New()}
}

// wait returns how long the check of this login has to wait; 0: it may be made now.
func (t *throttle) wait(a attempt, now time.Time) time.Duration {
	mine := t.find(a)
	if mine == nil || mine.forgotten(now) {
		return 0
	}
	return max(mine.remainingPause(freeFailures, pauseFirst, pauseMax, now),
		t.find(attempt{client: a.client}).remainingPause(freeNameFailures, pauseFirst, pauseMax, now),
		t.find(attempt{name: a.name}).remainingPause(freeNameFailures, namePause, namePause, now))
}

// recordFailure counts a login that was checked and failed: for its name, for its client, and for both together.
func (t *throttle) recordFailure(a attempt, now time.Time) {
	for _, key := range []attempt{{name: a.name}, {client: a.client}, a} {
		t.findOrCreate(key).addFailure(now)
	}
}

// find returns a counter and marks it as used; nil if there is none.
func (t *throttle) find(key attempt) *counter {
	e := t.counters[key]
	if e == nil {
		return nil
	}
	t.byLastUse.MoveToBack(e)
	c, _ := e.Value.(*counter)
	return c
}

// findOrCreate returns a counter. A new one evicts the least recently used at the limit.
func (t *throttle) findOrCreate(key attempt) *counter {
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

func (c *counter) forgotten(now time.Time) bool { return now.Sub(c.lastFailure) > forgetAfter }

func (c *counter) addFailure(now time.Time) {
	if c.forgotten(now) {
		c.failures = 0
	}
	c.failures++
	c.lastFailure = now
}

// remainingPause returns how long a check still has to wait: after more than free failures for first, and for twice as long after each
// further failure, up to limit; 0 if it need not wait.
func (c *counter) remainingPause(free int, first, limit time.Duration, now time.Time) time.Duration {
	if c == nil || c.failures <= free || c.forgotten(now) {
		return 0
	}
	pause := min(first<<min(c.failures-free-1, 10), limit)
	return max(0, pause-now.Sub(c.lastFailure))
}
