package rapi

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// loginLogInterval is the least time between two lines about failed logins.
const loginLogInterval = time.Second

// loginLog writes at most one line a second about failed logins, so that guesses cannot fill
// the disk. A line has the counts since the last line, and the fields of the latest login.
type loginLog struct {
	log *logrus.Logger

	mu              sync.Mutex
	pausing         bool // the last line is less than a second old
	failed, refused int
	latest          logrus.Fields
}

// record counts a login that has failed, or that was refused without a check.
func (l *loginLog) record(refused bool, fields logrus.Fields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused {
		l.refused++
	} else {
		l.failed++
	}
	l.latest = fields
	if !l.pausing {
		l.write()
	}
}

// write logs the counts and starts a pause. The caller holds the mutex.
func (l *loginLog) write() {
	l.log.WithFields(l.latest).WithFields(logrus.Fields{"failed": l.failed, "refused": l.refused}).
		Warn("remote API: login failed")
	l.failed, l.refused, l.pausing = 0, 0, true
	time.AfterFunc(loginLogInterval, l.resume)
}

// resume writes what was counted during the pause.
func (l *loginLog) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pausing = false
	if l.failed+l.refused > 0 {
		l.write()
	}
}
