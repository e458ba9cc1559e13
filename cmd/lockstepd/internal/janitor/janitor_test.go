package janitor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/core/paths"
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

// A settings.json that cannot be read may have forbidden what --archive-days permits: no archived job is removed by its age until an
// operator sets that again.
func TestDamagedSettingsRemoveNothing(t *testing.T) {
	dir := t.TempDir()
	files, err := persistence.OpenFiles(dir, ownership.Rules{})
	require.NoError(t, err)
	defer files.Close()
	age := func() (time.Duration, error) { return archiveAge(files, settings.Config{ArchiveDays: 30}) }
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, paths.SettingsPath), []byte(text), 0o640))
	}
	is := func(want time.Duration) {
		t.Helper()
		got, err := age()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	is(30 * day)
	write(`{"remove_archived_after": 0,`)
	_, err = age()
	require.Error(t, err, "before the daemon has set it aside")
	aside := filepath.Join(dir, paths.QuarantineDir)
	require.NoError(t, os.MkdirAll(aside, 0o750))
	require.NoError(t, os.Rename(filepath.Join(dir, paths.SettingsPath), filepath.Join(aside, filepath.Base(paths.SettingsPath))))
	_, err = age()
	require.ErrorContains(t, err, "in the quarantine", "a crash may have come before the file that replaces it")
	write(`{"remove_archived_after": 0}`)
	is(0)
	write(`{"remove_archived_after": 86400}`)
	is(day)
}
