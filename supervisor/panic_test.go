package supervisor_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/sim/longtest"
)

// standardRun runs a daemon under the standard traffic, from a disk with existing jobs to
// the orderly stop. Then it starts the next daemon, which must find all jobs.
func standardRun(t *testing.T, e *kittest.Env) *world {
	t.Helper()
	w := newWorld(t, e, firstDisk(), time.Second)
	traffic(w)
	w.drive(w.idle)
	w.stop()
	w.verify()
	w.start(func() {
		c := &client{w: w}
		for _, id := range w.accepted[1:] { // the first was archived
			c.await(id)
		}
		c.submitAndWait(1)
	})
	w.drive(w.idle)
	w.stop()
	w.verify()
	return w
}

// frameworks are messages that the library handles, not the actors.
var frameworks = []string{"*actor.Stop", "*actor.Restart", "*actor.Failure", "*actor.Watch", "*actor.Unwatch", "*actor.DeadLetterResponse"}

// panicPlaces are the kinds of deliveries in a standard run without faults, with their
// numbers.
func panicPlaces(t *testing.T) map[kittest.DeliveryKind]int {
	t.Helper()
	found := map[kittest.DeliveryKind]int{}
	synctest.Test(t, func(t *testing.T) {
		e := kittest.New(t)
		w := standardRun(t, e)
		require.Equal(t, 2, w.daemons)
		require.Empty(t, e.Logged("actor panicked"))
		found = e.Panics.Delivered()
	})
	for place := range found {
		if !strings.HasPrefix(place.Actor, "daemon") || slices.Contains(frameworks, place.Message) {
			delete(found, place)
		}
	}
	return found
}

// TestPanics makes each actor panic once at each kind of message, before and after it has
// handled the message, in a separate standard run. No acknowledged change is lost, every
// job ends once, and every client gets an answer.
func TestPanics(t *testing.T) {
	found := panicPlaces(t)
	names := make([]kittest.DeliveryKind, 0, len(found))
	for place := range found {
		names = append(names, place)
	}
	slices.SortFunc(names, func(a, b kittest.DeliveryKind) int { return strings.Compare(a.String(), b.String()) })
	var fired, runs atomic.Int64
	number := 0 // of the panic; in short mode every tenth panic is tried
	t.Run("each", func(t *testing.T) {
		for _, place := range names {
			for _, nth := range nths(found[place]) {
				for _, when := range whens(place) {
					if number++; number%max(1, len(names)/longtest.Times(len(names))) != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%v %s nth=%d", place, when, nth), func(t *testing.T) {
						t.Parallel()
						runs.Add(1)
						if panicOnce(t, place, nth, when) {
							fired.Add(1)
						}
					})
				}
			}
		}
	})
	t.Logf("%d places, %d of %d runs with a panic", len(names), fired.Load(), runs.Load())
	require.Greater(t, fired.Load(), runs.Load()*2/3)
}

// panicOnce makes one delivery panic. It reports whether that delivery happened: the number
// of some deliveries varies with the scheduling of goroutines.
func panicOnce(t *testing.T, place kittest.DeliveryKind, nth int, when kittest.When) (fired bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := kittest.New(t)
		e.Panics.Arm(place, nth, when)
		standardRun(t, e)
		fired = e.Panics.Fired()
	})
	return fired
}

// nths selects deliveries out of n: the first, a middle one, and one near the end.
func nths(n int) []int {
	all := []int{1, (n + 1) / 2, max(1, n*9/10)}
	slices.Sort(all)
	return slices.Compact(all)
}

// whens returns when to panic. Terminated is only followed by a panic: the library must
// have handled it, or the parent waits for the child for ever.
func whens(place kittest.DeliveryKind) []kittest.When {
	if place.Message == "*actor.Terminated" {
		return []kittest.When{kittest.After}
	}
	return []kittest.When{kittest.Before, kittest.After}
}
