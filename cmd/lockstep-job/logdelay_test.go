package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/jobproc"
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

// In an hour of talk without end no more than the bound and one file a second are
// written.
func TestAnOpcodeThatNeverStopsTalkingIsWrittenOnceASecond(t *testing.T) {
	const size = 1_400_000
	var said logBurst
	now, written := time.Unix(0, 0), 0
	for start := now; now.Sub(start) < time.Hour; {
		now = now.Add(logDelay(size, said.extend(now), 20*time.Millisecond))
		written += size
	}
	require.Less(t, written/3600, 2*logWriteMax)

	require.Zero(t, said.extend(now.Add(burstGap+1)), "a pause ends the talk")
}

// A change of status does not wait as long as a log that grows, also if that came first.
func TestOnlyAGrowingLogWaitsLong(t *testing.T) {
	d := newDriver(nil, nil, nil, nil, nil)
	d.lastWriteSize, d.logBurst = 1<<20, logBurst{start: time.Now().Add(-time.Hour), last: time.Now()}
	began := time.Now()
	d.write(jobproc.Logged)
	require.GreaterOrEqual(t, d.writeDue.Sub(began), logDelayMax)
	first := d.writeDue
	d.write(jobproc.Logged)
	require.Equal(t, first, d.writeDue, "a second line does not put the write off")
	d.write(jobproc.Visible)
	require.LessOrEqual(t, time.Until(d.writeDue), visibleDelayMax)
	require.True(t, d.writePending)
}
