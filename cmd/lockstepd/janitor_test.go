package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/persistence"
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

// A settings.json that cannot be read may have forbidden what --archive-days permits: it is set aside, the status names it, and no
// archived job is removed by its age until an operator sets that again.
func TestDamagedSettingsRemoveNothing(t *testing.T) {
	d := newDaemon(t)
	d.start()
	require.Zero(t, d.stop())
	files, err := persistence.OpenFiles(d.path("lib"), ownership.Rules{})
	require.NoError(t, err)
	age := func() time.Duration {
		t.Helper()
		age, err := archiveAge(files, settings.Config{ArchiveDays: 30})
		require.NoError(t, err)
		return age
	}
	require.Equal(t, 30*day, age())
	const edited = `{"remove_archived_after": 0,`
	require.NoError(t, os.WriteFile(d.path("lib", "settings.json"), []byte(edited), 0o640))
	_, err = archiveAge(files, settings.Config{ArchiveDays: 30})
	require.Error(t, err, "before the daemon has set it aside")
	for range 2 {
		d.start("--archive-days", "30", "--archive-after", "1s")
		c := d.dial()
		var status struct {
			Quarantined []string
			Retention   struct {
				ArchiveAfter  float64 `json:"archive_after"`
				RemoveArchive float64 `json:"remove_archived_after"`
			}
		}
		c.call("LockstepStatus", &status)
		require.Equal(t, []string{"queue/quarantine/settings.json"}, status.Quarantined)
		require.Zero(t, status.Retention.ArchiveAfter)
		require.Zero(t, status.Retention.RemoveArchive)
		c.call("LockstepSetSettings", nil, map[string]any{"keep_last": 3})
		require.Zero(t, age())
		aside, err := os.ReadFile(d.path("lib", "queue", "quarantine", "settings.json"))
		require.NoError(t, err)
		require.Equal(t, edited, string(aside))
		require.Zero(t, d.stop())
	}
	require.NoError(t, os.Remove(d.path("lib", "settings.json")))
	_, err = archiveAge(files, settings.Config{ArchiveDays: 30})
	require.ErrorContains(t, err, "in the quarantine", "a crash may have come before the file that replaces it")
	require.NoError(t, os.WriteFile(d.path("lib", "settings.json"), []byte(`{"remove_archived_after": 86400}`), 0o640))
	require.Equal(t, day, age())
}
