package raftlog

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/sirupsen/logrus"
)

// repeatAfter is how long the same warning about the same node is withheld.
const repeatAfter = 30 * time.Second

// repeatsMax bounds the number of remembered warnings.
const repeatsMax = 256

// logger passes raft's log lines on to logrus. Raft logs much, and repeats a warning about an
// unreachable node several times a second. So each line is logged one level lower, and a repeated
// warning at most once in repeatAfter.
type logger struct {
	log        *logrus.Logger
	mu         sync.Mutex
	lastLogged map[string]time.Time // when a warning was logged last, by its text and node
}

func newLogger(log *logrus.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "raft", Level: hclog.Off, Output: io.Discard})
	l.RegisterSink(&logger{log: log, lastLogged: map[string]time.Time{}})
	return l
}

// Accept logs one of raft's lines.
func (l *logger) Accept(_ string, level hclog.Level, text string, args ...any) {
	own := ownLevel(level)
	if !l.log.IsLevelEnabled(own) || level >= hclog.Warn && l.isRepeat(text, args) {
		return
	}
	fields := logrus.Fields{"lib": "raft"}
	for i := 0; i+1 < len(args); i += 2 {
		fields[fmt.Sprint(args[i])] = formatValue(args[i+1])
	}
	l.log.WithFields(fields).Log(own, text)
}

func ownLevel(level hclog.Level) logrus.Level {
	switch level {
	case hclog.Error:
		return logrus.WarnLevel
	case hclog.Warn:
		return logrus.InfoLevel
	case hclog.Info:
		return logrus.DebugLevel
	default:
		return logrus.TraceLevel
	}
}

// formatValue formats a value of a line as raft means it.
func formatValue(value any) any {
	switch value := value.(type) {
	case hclog.Format:
		if len(value) > 0 {
			return fmt.Sprintf(fmt.Sprint(value[0]), value[1:]...)
		}
	case error:
		return value.Error()
	case fmt.Stringer:
		return value.String()
	}
	return value
}

func (l *logger) isRepeat(text string, args []any) bool {
	key := text
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "target", "server-id", "from", "candidate":
			key += " " + fmt.Sprint(args[i+1])
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, known := l.lastLogged[key]; known && now.Sub(last) < repeatAfter {
		return true
	}
	if len(l.lastLogged) >= repeatsMax {
		clear(l.lastLogged)
	}
	l.lastLogged[key] = now
	return false
}
