package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// After a boot the clock may be ahead by years until it is set. No archived job is removed by such a clock.
func TestArchivedJobsAreNotRemovedByAClockThatIsSet(t *testing.T) {
	const year = 365 * day
	start := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	w := clockMonitor{wall: start}
	require.False(t, w.isDue(start.Add(time.Hour-10*year), time.Hour), "it was set back")
	require.True(t, w.isDue(start.Add(2*time.Hour-10*year), 2*time.Hour))
	require.False(t, w.isDue(start.Add(3*time.Hour-10*year), 3*time.Hour), "it was today")
	require.False(t, w.isDue(start.Add(26*time.Hour), 26*time.Hour), "it was set ahead")
	require.True(t, w.isDue(start.Add(27*time.Hour+10*time.Second), 27*time.Hour))
	require.False(t, w.isDue(start.Add(50*time.Hour), 50*time.Hour))
	require.True(t, w.isDue(start.Add(51*time.Hour), 51*time.Hour))
}

// The start of a daemon removes no archived job, whatever the clock says.
func TestTheStartRemovesNoArchivedJobs(t *testing.T) {
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(command("true"))
	c.await(id)
	c.call("ArchiveJob", nil, id)
	path := d.path("lib", "queue", "archive", "0", "job-"+itoa(id))
	require.FileExists(t, path)
	require.Equal(t, 0, d.stop())
	old := time.Now().Add(-3 * day) // for a clock that is ahead by three days
	require.NoError(t, os.Chtimes(path, old, old))
	d.start("--archive-days", "1")
	c = d.dial()
	c.await(c.submit(command("true")))
	require.Equal(t, 0, d.stop())
	require.FileExists(t, path)
}
