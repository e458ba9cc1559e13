package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// checkReservations: no two sessions hold one reservation. A reservation that was acknowledged is in the files after any crash, until
// its session drops it or ends. When nothing has failed for a while, the files have no reservation of a session that has ended.
//
// In a cluster the committed entries of the log stand for the files. A new master does not see the processes of the former one and
// drops their reservations, so those are forgotten then.
type checkReservations struct {
	held        map[reservationKey]*configSession
	dead        []*configSession // by the time of their end; not judged yet
	undisturbed time.Duration    // time of the last fault or start of a daemon
}

// reservationKey names what is reserved, as tempres.data does.
type reservationKey struct{ kind, value string }

func compareReservations(a, b reservationKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.value, b.value))
}

// deadReservationMax is how long the reservations of a dead session may stay.
const deadReservationMax = 90 * time.Second

func (*checkReservations) Name() string { return "reservations have one living owner" }

func (c *checkReservations) See(w *World, event any) error {
	if c.held == nil {
		c.held = map[reservationKey]*configSession{}
	}
	switch e := event.(type) {
	case reservationMade:
		return c.made(w, e)
	case reservationsDropping:
		c.forget(func(s *configSession, _ reservationKey) bool { return s == e.session })
	case minorsReleasing:
		c.forget(func(s *configSession, k reservationKey) bool { return s == e.session && k.kind == reservedMinor })
	case sessionEnded:
		c.forget(func(s *configSession, _ reservationKey) bool { return s == e.session })
		c.dead = append(c.dead, e.session)
	case powerLost:
		c.undisturbed = w.clock.Elapsed()
		return c.files(w)
	case deciderStarted:
		c.undisturbed = w.clock.Elapsed()
		clear(c.held)
	case daemonStarted, diskFailed, panicked, stalled, faultInjected:
		c.undisturbed = w.clock.Elapsed()
		if _, is := event.(daemonStarted); is {
			return c.files(w)
		}
	case timePassed, finished:
		if len(c.dead) > 0 && c.isServed(w) && w.clock.Elapsed() > max(c.dead[0].endedAt, c.undisturbed)+deadReservationMax {
			return c.released(w)
		}
	}
	return nil
}

// isServed reports whether there is a daemon that drops the reservations of the dead.
func (c *checkReservations) isServed(w *World) bool {
	if w.oracle != nil {
		return w.decider != nil && w.disturbance.recovered(w)
	}
	return w.daemon != nil && w.daemon.ready
}

func (c *checkReservations) forget(which func(*configSession, reservationKey) bool) {
	maps.DeleteFunc(c.held, func(k reservationKey, s *configSession) bool { return which(s, k) })
}

func (c *checkReservations) made(w *World, e reservationMade) error {
	key := reservationKey{e.kind, e.value}
	if other := c.held[key]; other != nil && other != e.session {
		return fmt.Errorf("session %d has reserved %s %s, which session %d holds", e.session.number, e.kind, e.value, other.number)
	}
	if w.oracle != nil && (w.decider == nil || w.decider.machine != e.session.process.machine) {
		return nil // the master takes the session for dead
	}
	c.held[key] = e.session
	kept, err := w.keptSurely()
	return c.compare(kept, err)
}

// files checks that the files have the reservations that sessions were told of.
func (c *checkReservations) files(w *World) error {
	if len(c.held) == 0 {
		return nil
	}
	kept, err := w.keptNow()
	return c.compare(kept, err)
}

func (c *checkReservations) compare(kept *keptConfig, err error) error {
	if err != nil || kept == nil {
		return err
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.held), compareReservations) {
		s := c.held[key]
		owner, found := kept.owners[key.kind][key.value]
		if !found {
			return fmt.Errorf("%s %s of session %d is not in the files", key.kind, key.value, s.number)
		}
		if key.kind != reservedMinor && owner != s.process.livelock {
			return fmt.Errorf("%s %s of session %d is of %s in the files", key.kind, key.value, s.number, owner)
		}
	}
	return nil
}

// released checks that sessions that ended more than deadReservationMax ago have no reservations.
func (c *checkReservations) released(w *World) error {
	kept, err := w.keptNow()
	if err != nil || kept == nil {
		return err
	}
	for len(c.dead) > 0 && w.clock.Elapsed() > max(c.dead[0].endedAt, c.undisturbed)+deadReservationMax {
		s := c.dead[0]
		c.dead = c.dead[1:]
		for _, trace := range []string{s.process.livelock, s.diskPrefix()} {
			if bytes.Contains(kept.reserved, []byte(trace)) {
				return fmt.Errorf("session %d has ended long ago, and has reservations: %s", s.number, kept.reserved)
			}
		}
	}
	return nil
}
