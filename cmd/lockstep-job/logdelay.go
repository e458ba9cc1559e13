package main

import "time"

// A log that grows has the whole file written again. The first lines of an opcode are
// seen within visibleDelayMax; an opcode that goes on talking waits longer for the
// next write, in proportion to the file's size, so that in the end no more than about
// logWriteMax bytes a second are written, however much it says.
const (
	logDelayMax = time.Second
	logWriteMax = 1 << 20
	// burstShare: a write waits at most for this part of the time for which the opcode
	// has been talking: it takes 10 s until a delay of 1 s is reached.
	burstShare = 10
	// burstGap ends a talk.
	burstGap = 2 * logDelayMax
)

// logDelay is how long a write may wait in which only a log has grown, when the file
// had that size in bytes, the opcode has been talking for so long, and the last write
// took cost.
func logDelay(size int, talking, cost time.Duration) time.Duration {
	usual := max(visibleDelay, min(10*cost, visibleDelayMax))
	sparing := time.Duration(float64(size) / logWriteMax * float64(time.Second))
	return max(usual, min(sparing, talking/burstShare, logDelayMax))
}

// logBurst is a time in which an opcode has said something again and again.
type logBurst struct{ start, last time.Time }

// extend is told that the opcode says something now, and returns since when it has
// done so.
func (t *logBurst) extend(now time.Time) time.Duration {
	if now.Sub(t.last) > burstGap {
		t.start = now
	}
	t.last = now
	return now.Sub(t.start)
}
