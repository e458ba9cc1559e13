package ownership_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
	"lockstep/core/paths"
)

var debian = ownership.Accounts{Daemon: "gnt-masterd", ConfdGroup: "gnt-confd", DaemonsGroup: "gnt-daemons"}

// The classes of all files of the data directory that the daemon writes.
func TestClassOf(t *testing.T) {
	for name, want := range map[string]ownership.Class{
		paths.ConfigPath: ownership.Configuration,
		"tempres.data":   ownership.Private, paths.LocksPath: ownership.Private, paths.LocksJournalPath: ownership.Private,
		"config.journal": ownership.Private, "config.journal.1": ownership.Private, "config.history": ownership.Private, "config.extra": ownership.Private, paths.SessionsPath: ownership.Private, paths.AccessPath: ownership.Private,
		paths.AuditPath(1): ownership.Private,
		"ssconf_node_list": ownership.Ssconf, "hmac.key": ownership.Key, "hmac.key.other": ownership.Key,
		paths.SettingsPath: ownership.Queue, paths.SerialPath: ownership.Queue, paths.VersionPath: ownership.Queue, paths.DrainPath: ownership.Queue,
		paths.LockPath: ownership.Queue, paths.JobPath(7): ownership.Queue, paths.RecordPath(7): ownership.Queue, paths.ArchivePath(7): ownership.Queue,
		paths.QuarantineDir + "/config.1": ownership.Queue,
	} {
		require.Equal(t, want, ownership.ClassOf(name), name)
	}
}

// Own mode: what others read keeps its mode, and every file belongs to its process.
func TestOwnMode(t *testing.T) {
	resolved, err := ownership.Own().Resolve(nil, nil)
	require.NoError(t, err)
	for name, mode := range map[string]uint32{
		paths.ConfigPath: 0o640, paths.LocksPath: 0o600, paths.LocksJournalPath: 0o600, "tempres.data": 0o600, "config.history": 0o600,
		paths.JobPath(1): 0o640, paths.SerialPath: 0o640, paths.SettingsPath: 0o640, "ssconf_cluster_name": 0o444,
	} {
		want := ownership.Attributes{Mode: mode, UID: -1, GID: -1}
		require.Equal(t, want, ownership.Rules{}.DataFile(name), name)
		require.Equal(t, want, resolved.DataFile(name), name)
	}
	require.Empty(t, ownership.Rules{}.UIDs())
	require.Empty(t, ownership.Rules{}.GIDs())
}

// In Ganeti mode, files belong to the user and groups that the other daemons of Ganeti expect.
func TestGanetiMode(t *testing.T) {
	rules, err := ownership.Ganeti(debian).Resolve(
		func(name string) (int, error) { return map[string]int{"gnt-masterd": 104}[name], nil },
		func(name string) (int, error) { return map[string]int{"gnt-confd": 111, "gnt-daemons": 112}[name], nil })
	require.NoError(t, err)
	require.Equal(t, ownership.Attributes{Mode: 0o640, UID: 104, GID: 111}, rules.DataFile(paths.ConfigPath))
	require.Equal(t, ownership.Attributes{Mode: 0o600, UID: 104, GID: 111}, rules.DataFile("tempres.data"))
	require.Equal(t, ownership.Attributes{Mode: 0o640, UID: 104, GID: 112}, rules.DataFile(paths.JobPath(3)))
	require.Equal(t, ownership.Attributes{Mode: 0o640, UID: 104, GID: 112}, rules.DataFile(paths.SerialPath))
	require.Equal(t, ownership.Attributes{Mode: 0o660, UID: 104, GID: 112}, rules.Of(ownership.LuxiSocket))
	require.Equal(t, ownership.Attributes{Mode: 0o600, UID: 104, GID: 112}, rules.Of(ownership.WconfSocket))
	require.Equal(t, ownership.Attributes{Mode: 0o600, UID: 104, GID: -1}, rules.Of(ownership.PIDFile))
	require.Equal(t, ownership.Attributes{Mode: 0o775, UID: 104, GID: 112}, rules.Of(ownership.RunDir))
	require.Contains(t, rules.UIDs(), 104)
	require.Subset(t, rules.GIDs(), []int{111, 112})
	require.NotContains(t, rules.GIDs(), -1)
}

func TestMissingAccount(t *testing.T) {
	missing := errors.New("there is no gnt-confd")
	known := func(string) (int, error) { return 1, nil }
	_, err := ownership.Ganeti(debian).Resolve(known, func(name string) (int, error) {
		if name == "gnt-confd" {
			return 0, missing
		}
		return 2, nil
	})
	require.ErrorIs(t, err, missing)
	_, err = ownership.Ganeti(debian).Resolve(func(string) (int, error) { return 0, missing }, known)
	require.ErrorIs(t, err, missing)
}
