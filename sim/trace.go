package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/sim/kernel"
)

// topic is the subject of a line of the trace.
type topic string

// The topics. A delivery is a message handed to an actor, a file a change of a
// job's file, a disk line any other call that changes something.
const (
	topicDelivery topic = "deliver"
	topicDisk     topic = "disk"
	topicFile     topic = "job"
	topicProcess  topic = "process"
	topicClient   topic = "client"
	topicDaemon   topic = "daemon"
	topicLog      topic = "log"
	topicFault    topic = "fault"
)

// Line is one event of a run.
type Line struct {
	At    time.Duration // since the world began
	topic topic
	a, b  string
}

// Text is the line without its time.
func (l Line) Text() string {
	if l.b == "" {
		return l.a
	}
	return l.a + " <- " + l.b
}

func (l Line) String() string { return fmt.Sprintf("%8.3f %s", l.At.Seconds(), l.Text()) }

// keptLines is the number of latest lines that are kept for a failure.
const keptLines = 400

// trace hashes everything that happens, and keeps the latest lines.
type trace struct {
	clock *kernel.Clock
	sum   uint64
	ring  [keptLines]Line
	count uint64
	// sink, if set, gets every line.
	sink func(Line)
}

func (t *trace) add(about topic, a, b string) {
	line := Line{At: t.clock.Elapsed(), topic: about, a: a, b: b}
	t.hash(a)
	t.hash(b)
	t.sum = (t.sum ^ uint64(line.At)) * fnvPrime
	t.ring[t.count%keptLines] = line
	t.count++
	if t.sink != nil {
		t.sink(line)
	}
}

// FNV-1a, 64 bits.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (t *trace) hash(s string) {
	sum := t.sum
	for i := range len(s) {
		sum = (sum ^ uint64(s[i])) * fnvPrime
	}
	t.sum = (sum ^ uint64(len(s))) * fnvPrime
}

func (t *trace) addf(about topic, format string, args ...any) {
	t.add(about, fmt.Sprintf(format, args...), "")
}

// last returns the latest lines, at most n.
func (t *trace) last(n int) []Line {
	n = min(n, keptLines, int(t.count))
	lines := make([]Line, 0, n)
	for i := t.count - uint64(n); i < t.count; i++ {
		lines = append(lines, t.ring[i%keptLines])
	}
	return lines
}

// traceLog makes a log whose warnings and errors are lines of the trace.
func traceLog(t *trace, prefix string) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(discard{})
	log.SetFormatter(noFormat{})
	log.SetLevel(logrus.InfoLevel)
	log.AddHook(logHook{t, prefix})
	return log
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

type noFormat struct{}

func (noFormat) Format(*logrus.Entry) ([]byte, error) { return nil, nil }

type logHook struct {
	trace  *trace
	prefix string
}

func (logHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel, logrus.WarnLevel}
}

// Fire leaves out the stack of a panic, whose addresses differ from run to run.
func (h logHook) Fire(e *logrus.Entry) error {
	keys := make([]string, 0, len(e.Data))
	for key := range e.Data {
		if key != "stack" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s: %s", h.prefix, e.Level, e.Message)
	for _, key := range keys {
		fmt.Fprintf(&b, " %s=%v", key, e.Data[key])
	}
	h.trace.add(topicLog, b.String(), "")
	return nil
}
