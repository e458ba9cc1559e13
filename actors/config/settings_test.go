package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
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
		kittest.Expect[*config.Published](b.others)
		m := kittest.Expect[*config.Published](b.others)
		require.JSONEq(t, `{"predictive":false,"lock_bypass_after":7}`, string(m.Settings))
		require.Equal(t, string(m.Settings), b.disk.Content(paths.SettingsPath))
		require.Equal(t, 30*time.Second, kittest.Expect[*locks.SetBypassLimit](b.locks).Limit)
		require.Equal(t, 7*time.Second, kittest.Expect[*locks.SetBypassLimit](b.locks).Limit)

		f := b.expectSet(b.set("colour", "1"))
		require.Equal(t, messages.ClassPrereq, f.GetClass())
		require.Contains(t, f.GetText(), `there is no setting "colour"`)

		b.Restart(b.cluster)
		require.Equal(t, string(m.Settings), string(kittest.Expect[*config.Published](b.others).Settings))
	})
}

// After a failed write the content of the file is in force, because the next start would read it.
func TestAFailedWriteOfSettings(t *testing.T) {
	for failing, left := range map[string]string{"replace settings": "", "sync": `{"predictive":false}`} {
		onBench(t, func(t *testing.T, b *bench) {
			b.disk.Fail(failing, 1)
			require.Contains(t, b.expectSet(b.set("predictive", "false")).GetText(), "the disk says no")
			told := kittest.Expect[*config.Published](b.others)
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
		kittest.Expect[*config.Published](b.others)
		b.disk.Fail("read settings", 1)
		b.Restart(b.cluster)
		b.Advance(time.Second)
		require.JSONEq(t, `{"predictive":false}`, string(kittest.Expect[*config.Published](b.others).Settings))
		require.Len(t, b.Logged("settings cannot be read; reading them again"), 1)
	})
}

// With invalid content the defaults are in force.
func TestSettingsThatCannotBeUsed(t *testing.T) {
	for _, content := range []string{"{", `{"predictive":3}`} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			b := newBench(t, e, map[string]string{paths.SettingsPath: content})
			b.storage = startStorage(t, e)
			b.start()
			require.Len(t, b.Logged("settings cannot be used; the defaults are in force"), 1)
			require.Nil(t, b.expectSet(b.set("predictive", "false")))
			require.JSONEq(t, `{"predictive":false}`, b.disk.Content(paths.SettingsPath))
		})
	}
}
