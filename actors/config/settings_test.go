package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/paths"
	"lockstep/messages"
)

func (b *bench) set(name, value string) uint64 {
	b.number++
	b.client.Ask(b.cluster, &messages.EditConfig{Request: b.number, Settings: map[string][]byte{name: []byte(value)}})
	return b.number
}

// Settings are edited like the configuration, are in a separate file, and are published
// with the configuration.
func TestSettings(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		request := b.set("predictive", "false")
		b.grantLock()
		m := kittest.Expect[*messages.ConfigPublished](b.others)
		require.Equal(t, fresh(t), string(m.Content))
		require.JSONEq(t, `{"predictive":false}`, string(m.Settings))
		require.Equal(t, string(m.Settings), b.disk.Content(paths.SettingsPath))
		b.freeLock()
		require.Nil(t, b.expectResult(request))

		request = b.set("colour", "1")
		b.grantLock()
		b.freeLock()
		f := b.expectResult(request)
		require.Equal(t, messages.ClassPrereq, f.GetClass())
		require.Contains(t, f.GetText(), `there is no setting "colour"`)

		b.Restart(b.cluster)
		require.JSONEq(t, `{"predictive":false}`, string(kittest.Expect[*messages.ConfigPublished](b.others).Settings))
		b.freeLock()
	})
}

// After a failed write the content of the file is in force, because the next start would
// read it.
func TestAFailedWriteOfSettings(t *testing.T) {
	for failing, left := range map[string]string{"replace settings": "", "sync": `{"predictive":false}`} {
		onBench(t, func(t *testing.T, b *bench) {
			b.disk.Fail(failing, 1)
			request := b.set("predictive", "false")
			b.grantLock()
			told := kittest.Expect[*messages.ConfigPublished](b.others)
			require.Equal(t, fresh(t), string(told.Content))
			require.Equal(t, b.disk.Content(paths.SettingsPath), string(told.Settings))
			if left != "" {
				require.JSONEq(t, left, string(told.Settings))
			}
			b.freeLock()
			require.Contains(t, b.expectResult(request).GetText(), "the disk says no")

			b.disk.Fail("replace settings", 1)
			b.disk.Fail("read settings", 1)
			request = b.set("predictive_base", "7")
			b.grantLock()
			b.freeLock()
			require.Contains(t, b.expectResult(request).GetText(), "the disk says no")
			b.others.Quiet()
			require.Len(t, b.Logged("file cannot be read after a failed write; the former content stays in force"), 1)
		})
	}
}

// A failed read of the settings does not put the defaults in force.
func TestSettingsThatCannotBeRead(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		request := b.set("predictive", "false")
		b.grantLock()
		kittest.Expect[*messages.ConfigPublished](b.others)
		b.freeLock()
		require.Nil(t, b.expectResult(request))
		b.disk.Fail("read settings", 1)
		b.Restart(b.cluster)
		b.freeLock()
		b.Advance(time.Second)
		require.JSONEq(t, `{"predictive":false}`, string(kittest.Expect[*messages.ConfigPublished](b.others).Settings))
		require.Len(t, b.Logged("configuration file cannot be used; reading it again"), 1)
	})
}

// Without the file, or with invalid content, the defaults are in force.
func TestSettingsThatCannotBeUsed(t *testing.T) {
	for _, content := range []string{"{", `{"predictive":3}`} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			b := newBench(t, e, map[string]string{paths.ConfigPath: fresh(t), paths.SettingsPath: content})
			require.Empty(t, kittest.Expect[*messages.ConfigPublished](b.others).Settings)
			require.Len(t, b.Logged("settings cannot be used; the defaults are in force"), 1)
			b.freeLock()
			request := b.set("predictive", "false")
			b.grantLock()
			b.freeLock()
			require.Nil(t, b.expectResult(request))
			require.JSONEq(t, `{"predictive":false}`, b.disk.Content(paths.SettingsPath))
		})
	}
}
