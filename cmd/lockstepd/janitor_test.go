package main

import (
	"os"
	"testing"
	"time"

	"lockstep/core/config"

	"github.com/stretchr/testify/require"
)

// The start of a daemon removes no archived job, whatever the clock says.
func TestTheStartRemovesNoArchivedJobs(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(command("true"))
	c.await(id)
	c.call("ArchiveJob", nil, id)
	path := d.path("lib", "queue", "archive", "0", "job-"+itoa(id))
	require.FileExists(t, path)
	require.Equal(t, 0, d.stop())
	old := time.Now().Add(-3 * 24 * time.Hour) // for a clock that is ahead by three days
	require.NoError(t, os.Chtimes(path, old, old))
	d.start("--archive-days", "1")
	c = d.dial()
	c.await(c.submit(command("true")))
	require.Equal(t, 0, d.stop())
	require.FileExists(t, path)
}

// A settings.json that cannot be read may have forbidden what --archive-days permits: it is set aside, the status names it, and no
// archived job is removed by its age until an operator sets that again.
func TestDamagedSettingsAreSetAside(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	require.Zero(t, d.stop())
	const edited = `{"remove_archived_after": 0,`
	require.NoError(t, os.WriteFile(d.path("lib", "settings.json"), []byte(edited), 0o640))
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
		written, err := os.ReadFile(d.path("lib", "settings.json"))
		require.NoError(t, err)
		stored, err := config.DecodeSettings(written)
		require.NoError(t, err)
		require.Zero(t, stored.RemoveArchivedAfter(30*24*time.Hour))
		aside, err := os.ReadFile(d.path("lib", "queue", "quarantine", "settings.json"))
		require.NoError(t, err)
		require.Equal(t, edited, string(aside))
		require.Zero(t, d.stop())
	}
}
