package clusterconfig_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/paths"
	"lockstep/messages"
)

// set sends a change of a setting, and returns its number.
func (b *bench) set(name, value string) uint64 {
	b.number++
	b.client.Ask(b.cluster, &messages.EditConfig{Request: b.number, Settings: map[string][]byte{name: []byte(value)}})
	return b.number
}

func (b *bench) expectSet(number uint64) *messages.Failure {
	b.Helper()
	m := kittest.Expect[*messages.EditConfigResult](b.client)
	require.Equal(b, number, m.Request)
	return m.Failure
}

// Settings are in a file of their own, and are published with the configuration. The lock manager is told the limit of bypass.
func TestSettings(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		first, second := b.set("predictive", "false"), b.set("lock_bypass_after", "7")
		require.Nil(t, b.expectSet(first))
		require.Nil(t, b.expectSet(second))
		kittest.Expect[*clusterconfig.ConfigPublished](b.others)
		m := kittest.Expect[*clusterconfig.ConfigPublished](b.others)
		require.JSONEq(t, `{"predictive":false,"lock_bypass_after":7}`, string(m.Settings))
		require.Equal(t, string(m.Settings), b.disk.Content(paths.SettingsPath))
		require.Equal(t, 30*time.Second, kittest.Expect[*locks.SetBypassLimit](b.locks).Limit)
		require.Equal(t, 7*time.Second, kittest.Expect[*locks.SetBypassLimit](b.locks).Limit)

		f := b.expectSet(b.set("colour", "1"))
		require.Equal(t, messages.ClassPrereq, f.GetClass())
		require.Contains(t, f.GetText(), `there is no setting "colour"`)

		b.Restart(b.cluster)
		require.Equal(t, string(m.Settings), string(kittest.Expect[*clusterconfig.ConfigPublished](b.others).Settings))
	})
}

// After a failed write the content of the file is in force, because the next start would read it.
func TestAFailedWriteOfSettings(t *testing.T) {
	for failing, left := range map[string]string{"replace settings": "", "sync": `{"predictive":false}`} {
		onBench(t, func(t *testing.T, b *bench) {
			b.disk.Fail(failing, 1)
			require.Contains(t, b.expectSet(b.set("predictive", "false")).GetText(), "the disk says no")
			told := kittest.Expect[*clusterconfig.ConfigPublished](b.others)
			require.Equal(t, b.disk.Content(paths.SettingsPath), string(told.Settings))
			if left != "" {
				require.JSONEq(t, left, string(told.Settings))
			}
			b.disk.Fail("replace settings", 1)
			b.disk.Fail("read settings", 1)
			require.Contains(t, b.expectSet(b.set("predictive_base", "7")).GetText(), "the disk says no")
			b.others.Quiet()
			require.Len(t, b.Logged("file cannot be read after a failed write; the former content stays in force"), 1)
		})
	}
}

// A failed read of the settings does not put the defaults in force.
func TestSettingsThatCannotBeRead(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		require.Nil(t, b.expectSet(b.set("predictive", "false")))
		kittest.Expect[*clusterconfig.ConfigPublished](b.others)
		b.disk.Fail("read settings", 1)
		b.Restart(b.cluster)
		b.Advance(time.Second)
		require.JSONEq(t, `{"predictive":false}`, string(kittest.Expect[*clusterconfig.ConfigPublished](b.others).Settings))
		require.Len(t, b.Logged("settings cannot be read; reading them again"), 1)
	})
}

const protective = `{"archive_after": 0, "remove_archived_after": 0, "output_total": 1000000000000000, "set_aside": ["queue/quarantine/settings.json"]}`

// A damaged file is set aside, and nothing is archived or removed by a default that the file may have overruled.
func TestSettingsThatCannotBeUsed(t *testing.T) {
	for _, content := range []string{"", "{", `{"predictive":3}`, `{"keep_last": 5, "remove_archived_after": 1e9,}`} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			b := newBench(t, e, map[string]string{paths.SettingsPath: content})
			b.storage = startStorage(t, e)
			b.startUnusable()
			told := kittest.Expect[*clusterconfig.ConfigPublished](b.others)
			require.JSONEq(t, protective, string(told.Settings))
			require.Equal(t, []string{"queue/quarantine/settings.json"}, told.SetAside)
			require.Equal(t, content, b.disk.Content("queue/quarantine/settings.json"))
			require.JSONEq(t, protective, b.disk.Content(paths.SettingsPath))
			require.Len(t, b.Logged("settings cannot be used, and are set aside; no job is archived or removed by its age until an operator sets that again"), 1)

			require.Nil(t, b.expectSet(b.set("keep_last", "3")))
			require.JSONEq(t, `{"archive_after": 0, "remove_archived_after": 0, "output_total": 1000000000000000, "keep_last": 3, "set_aside": ["queue/quarantine/settings.json"]}`, b.disk.Content(paths.SettingsPath))
			kittest.Expect[*clusterconfig.ConfigPublished](b.others)
			b.Restart(b.cluster)
			told = kittest.Expect[*clusterconfig.ConfigPublished](b.others)
			require.Equal(t, []string{"queue/quarantine/settings.json"}, told.SetAside, "it is named until an operator removes it")
			require.JSONEq(t, `{"archive_after": 0, "remove_archived_after": 0, "output_total": 1000000000000000, "keep_last": 3, "set_aside": ["queue/quarantine/settings.json"]}`, string(told.Settings))
		})
	}
}

// A disk that is full does not put the defaults in force.
func TestDamagedSettingsAndAFullDisk(t *testing.T) {
	for _, failing := range []string{"rename quarantine", "replace settings"} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			b := newBench(t, e, map[string]string{paths.SettingsPath: "{"})
			b.storage = startStorage(t, e)
			b.disk.Fail(failing, 1)
			b.startUnusable()
			told := kittest.Expect[*clusterconfig.ConfigPublished](b.others)
			s, err := config.DecodeSettings(told.Settings)
			require.NoError(t, err)
			require.Zero(t, s.ArchiveAfter(time.Hour))
			require.Zero(t, s.RemoveArchivedAfter(time.Hour))
			require.Nil(t, b.expectSet(b.set("keep_last", "3")))
			told = kittest.Expect[*clusterconfig.ConfigPublished](b.others)
			s, err = config.DecodeSettings(told.Settings)
			require.NoError(t, err)
			require.Zero(t, s.RemoveArchivedAfter(time.Hour))
			require.Equal(t, 3, s.KeepLast)
			require.Equal(t, string(told.Settings), b.disk.Content(paths.SettingsPath))
			require.Equal(t, "{", b.disk.Content(told.SetAside[0]))
		})
	}
}

// What an operator has written to the file while the daemon runs is not replaced by a change of another setting.
func TestSettingsThatWereEditedInTheFile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		require.Nil(t, b.expectSet(b.set("keep_last", "2")))
		kittest.Expect[*clusterconfig.ConfigPublished](b.others)
		require.NoError(t, b.disk.Replace("edit", paths.SettingsPath, []byte(`{"keep_last": 4, "archive_after": 60}`)))
		require.Nil(t, b.expectSet(b.set("predictive_base", "7")))
		require.JSONEq(t, `{"keep_last": 4, "archive_after": 60, "predictive_base": 7}`, b.disk.Content(paths.SettingsPath))
		kittest.Expect[*clusterconfig.ConfigPublished](b.others)
		kittest.Expect[*clusterconfig.ConfigPublished](b.others)

		require.NoError(t, b.disk.Replace("edit", paths.SettingsPath, []byte(`{"keep_last": 9,`)))
		require.Nil(t, b.expectSet(b.set("predictive_base", "8")))
		require.JSONEq(t, `{"keep_last": 4, "archive_after": 60, "predictive_base": 8}`, b.disk.Content(paths.SettingsPath))
		require.Equal(t, `{"keep_last": 9,`, b.disk.Content("queue/quarantine/settings.json"))
		require.Equal(t, []string{"queue/quarantine/settings.json"}, kittest.Expect[*clusterconfig.ConfigPublished](b.others).SetAside)
	})
}

// A lock manager that is not ready, as on a full disk after a restart, does not keep a change waiting until its client has given up. It is
// refused after ten seconds, and nothing was changed.
func TestChangesWhileTheLockManagerIsNotReady(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, nil)
		b.storage = startStorage(t, e)
		b.start()
		edit := func() uint64 {
			b.number++
			b.client.Ask(b.cluster, &messages.EditConfig{Request: b.number, Cluster: map[string][]byte{"max_running_jobs": []byte("7")}})
			b.Settle()
			return b.number
		}
		number := edit()
		b.Advance(9 * time.Second)
		b.client.Quiet()
		b.Advance(2 * time.Second)
		f := b.expectSet(number)
		require.Equal(t, messages.ConfigurationFailure("").Class, f.GetClass())
		require.Contains(t, f.GetText(), "was not changed, because the lock manager is not ready")
		number = edit()
		b.locked(nil)
		require.Nil(t, b.expectSet(number))
	})
}
