package sim

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"lockstep/core/paths"
	"lockstep/core/session"
)

// checkLogins: an acknowledged login is valid until its log-out is ordered or it was not used for the time after which it expires, and
// would survive a power loss at the moment of its acknowledgement. After an acknowledged log-out, or when it has expired, it is never
// valid again: not after a restart, and at no other master.
type checkLogins struct{ known map[string]*login }

// login is what browsers know of a session.
type login struct {
	acknowledged bool
	opened       time.Time // the session was used then, and the disk knows it
	used         time.Time // the session was not used later, unless unclear
	unclear      bool      // a call that uses it has no answer
	leaving      bool      // a log-out was ordered
	left         bool      // the log-out was acknowledged
	leftStep     uint64    // step of that
}

// The events of browsers.
type (
	// loginKept: the session is one of an earlier daemon.
	loginKept struct {
		hash string
		used time.Time
	}
	loginSent struct{ hash string }
	// loginAnswered: the browser was told that it has a session, or not, or nothing.
	loginAnswered struct {
		hash string
		sent time.Time
		done bool
	}
	// loginLooked: the browser was told whether it has the session, or nothing.
	loginLooked struct {
		hash  string
		sent  time.Time
		step  uint64 // of the sending
		valid bool
		err   error
	}
	logoutSent     struct{ hash string }
	logoutAnswered struct {
		hash string
		done bool
	}
)

func (*checkLogins) Name() string { return "logins" }

func (c *checkLogins) See(w *World, event any) error {
	if c.known == nil {
		c.known = map[string]*login{}
	}
	switch e := event.(type) {
	case loginKept:
		c.known[e.hash] = &login{acknowledged: true, opened: e.used, used: e.used}
	case loginSent:
		c.known[e.hash] = &login{}
	case loginAnswered:
		l := c.known[e.hash]
		l.acknowledged, l.unclear, l.opened, l.used = e.done, !e.done, e.sent, w.clock.Now()
		if content, _ := w.disk.Surviving(paths.SessionsPath); e.done && !bytes.Contains(content, []byte(e.hash)) {
			return fmt.Errorf("the login %.8s is acknowledged, and would be lost after a power loss", e.hash)
		}
	case loginLooked:
		return c.looked(w, e)
	case logoutSent:
		c.known[e.hash].leaving = true
	case logoutAnswered:
		l := c.known[e.hash]
		if !e.done {
			return nil
		}
		l.left, l.leftStep = true, w.stepCount
		if content, _ := w.disk.Surviving(paths.SessionsPath); bytes.Contains(content, []byte(e.hash)) && l.acknowledged {
			return fmt.Errorf("the log-out of %.8s is acknowledged, and would be undone by a power loss", e.hash)
		}
	}
	return nil
}

// clockMargin is the precision of the times in the file.
const clockMargin = 2 * time.Second

func (c *checkLogins) looked(w *World, e loginLooked) error {
	l := c.known[e.hash]
	now := w.clock.Now()
	defer func() {
		l.unclear = l.unclear || e.err != nil
		if e.valid {
			l.used = now
		}
	}()
	switch {
	case e.err != nil || !l.acknowledged:
		return nil
	case e.valid && l.left && e.step >= l.leftStep:
		return fmt.Errorf("the session %.8s is valid after its log-out", e.hash)
	case e.valid && !l.unclear && e.sent.Sub(l.used) > session.Idle:
		return fmt.Errorf("the session %.8s is valid %v after its last use", e.hash, e.sent.Sub(l.used))
	case !e.valid && !l.leaving && now.Sub(l.opened) < session.Idle-clockMargin:
		return errors.New("a session that was acknowledged, and neither ended nor expired, is not valid")
	}
	return nil
}
