package jobproc

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWriteOfTheLogWaitsLongerTheMoreItCosts(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		what          string
		size          int
		talking, cost time.Duration
		want          time.Duration
	}{
		{"the first line", 1000, 0, ms / 10, 5 * ms},
		{"on a slow disk", 1000, 0, 20 * ms, 40 * ms},
		{"a line now and then, for hours", 20_000, time.Hour, ms, 20_000 * time.Second / (1 << 20)},
		{"the first lines of a big file", 1 << 20, 100 * ms, ms, 10 * ms},
		{"still new", 1 << 20, 400 * ms, ms, 40 * ms},
		{"a flood", 1 << 20, 5 * time.Second, 10 * ms, 500 * ms},
		{"that does not end", 1 << 20, time.Minute, 10 * ms, time.Second},
		{"at the bound", 3 << 20, time.Hour, 10 * ms, time.Second},
	} {
		require.InDelta(t, c.want, logDelay(c.size, c.talking, c.cost), 1e3, c.what)
	}
}

// An opcode that logs for an hour without a gap causes at most one write a second, and no more bytes than the bound
// where the file is small.
func TestAnOpcodeThatNeverStopsLoggingIsWrittenOnceASecond(t *testing.T) {
	const size = 1_400_000
	var burst logBurst
	now, written := time.Unix(0, 0), 0
	for start := now; now.Sub(start) < time.Hour; {
		now = now.Add(logDelay(size, burst.extend(now), 20*time.Millisecond))
		written += size
	}
	require.Less(t, written/3600, 2*logWriteMax)

	require.Zero(t, burst.extend(now.Add(logBurstGap+1)), "a gap ends the burst")
	burst.output = logFlood + 1
	require.Equal(t, time.Second, logDelay(size, burst.extend(burst.last.Add(1)), time.Millisecond), "a flood is old at once")
	require.Zero(t, burst.extend(burst.last.Add(logBurstGap+1)), "and ends, too")
}

// A change of status does not wait as long as a log that grows, even if the log entry came first.
func TestOnlyAGrowingLogWaitsLong(t *testing.T) {
	now := time.Unix(10_000, 0)
	w := writes{lastSize: 1 << 20, burst: logBurst{start: now.Add(-time.Hour), last: now}}
	w.schedule(now, Logged)
	require.Equal(t, now.Add(logDelayMax), w.due)
	w.schedule(now.Add(1), Logged)
	require.Equal(t, now.Add(logDelayMax), w.due, "a second line does not postpone the write")
	w.schedule(now, Visible)
	require.Equal(t, now.Add(visibleDelay), w.due)
	require.True(t, w.pending)
}

func TestADelayFollowsTheCostOfTheLastWrite(t *testing.T) {
	var w writes
	var out Actions
	now := time.Unix(10_000, 0)
	w.begin(now, &out, FileWrite{Content: make([]byte, 7)})
	w.succeeded(now.Add(3 * time.Millisecond))
	require.Equal(t, 7, w.lastSize)
	w.schedule(now, Visible)
	require.Equal(t, now.Add(30*time.Millisecond), w.due)
}

// Only a directory that is missing all the time counts, not a full disk.
func TestQueueLoss(t *testing.T) {
	missing, full := &QueueMissingError{Err: syscall.ENOENT}, syscall.ENOSPC
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var l queueLoss
	for _, c := range []struct {
		err   error
		at    int
		lost  bool
		since time.Duration
	}{
		{full, 0, false, 0}, {full, 600, false, 0},
		{missing, 601, true, 0}, {missing, 660, true, 59 * time.Second}, {missing, 661, true, queueLossMax},
		{full, 662, false, 0}, {missing, 700, true, 0},
	} {
		l.observe(c.err, at(c.at))
		require.Equal(t, c.lost, l.isLost(), "at %d", c.at)
		require.Equal(t, c.since, l.duration(), "at %d", c.at)
	}
}
