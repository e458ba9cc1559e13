// Package ratelog bounds the lines of the log that clients without a login can cause: one line a second of each kind, with counts, so
// that no stranger fills the disk. It owns the counts since the last line.
package ratelog

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// interval is the least time between two lines of one kind.
const interval = time.Second

// Log writes log lines of one kind that strangers could cause any number of: at most one in a while, with counts of the rest. Its methods
// may be called from any goroutine.
type Log struct {
	to      *logrus.Logger
	level   logrus.Level
	message string
	counts  []string

	mu      sync.Mutex
	pausing bool // the last line is less than an interval old
	since   map[string]int
	latest  logrus.Fields
}

// New returns a log of lines with a level and a message. counts are the names of what is counted; each line has them all.
func New(to *logrus.Logger, level logrus.Level, message string, counts ...string) *Log {
	return &Log{to: to, level: level, message: message, counts: counts, since: map[string]int{}}
}

// Record counts one event. The next line has the fields of the latest event, and the counts since the last line.
func (l *Log) Record(count string, fields logrus.Fields) {
	if !l.to.IsLevelEnabled(l.level) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since[count]++
	l.latest = fields
	if !l.pausing {
		l.write()
	}
}

// write writes a line and starts a pause. The caller holds the mutex.
func (l *Log) write() {
	counts := logrus.Fields{}
	for _, name := range l.counts {
		counts[name] = l.since[name]
	}
	l.to.WithFields(l.latest).WithFields(counts).Log(l.level, l.message)
	clear(l.since)
	l.pausing = true
	time.AfterFunc(interval, l.resume)
}

// resume writes what was counted during the pause; nothing if nothing came.
func (l *Log) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pausing = false
	if len(l.since) > 0 {
		l.write()
	}
}
