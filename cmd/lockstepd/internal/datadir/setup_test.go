package datadir

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/core/paths"
)

// Only root can give files to other users, and to groups that it is no member of.
func TestCheckAccounts(t *testing.T) {
	rules, err := ownership.Ganeti(ownership.Accounts{Daemon: "104", ConfdGroup: "111", DaemonsGroup: "112"}).Resolve(strconv.Atoi, strconv.Atoi)
	require.NoError(t, err)
	require.NoError(t, checkAccounts(rules, 0, nil))
	require.NoError(t, checkAccounts(rules, 104, []int{105, 111, 112}))
	require.ErrorContains(t, checkAccounts(rules, 1000, []int{111, 112}), "runs as user 1000, and its files must belong to user 104")
	require.ErrorContains(t, checkAccounts(rules, 104, []int{112}), "no member of group 111")
	require.NoError(t, checkAccounts(ownership.Rules{}, 1000, nil))
}

// A data directory belongs to Ganeti or to lockstep, and no daemon of the other one starts on it.
func TestSetUpsAreNotMixed(t *testing.T) {
	dir := t.TempDir()
	group := strconv.Itoa(os.Getegid())
	self, err := settings.Parse([]string{"--ganeti", "--ganeti-user", strconv.Itoa(os.Geteuid()), "--ganeti-confd-group", group, "--ganeti-daemons-group", group,
		"--data-dir", dir}, io.Discard)
	require.NoError(t, err)
	own := settings.Config{DataDir: dir}
	require.NoError(t, CheckSetUp(own))
	require.NoError(t, CheckSetUp(settings.Config{DataDir: filepath.Join(dir, "absent")}))
	require.ErrorContains(t, CheckSetUp(self), "server.pem: no such file or directory; every master candidate of Ganeti has this file")

	for _, name := range []string{paths.GanetiCertificatePath, paths.ConfigPath} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o640))
	}
	require.NoError(t, CheckSetUp(self))
	require.ErrorContains(t, CheckSetUp(own), "is the data directory of a Ganeti node, because it has server.pem: start lockstepd with --ganeti")

	require.NoError(t, os.Remove(filepath.Join(dir, paths.ConfigPath)))
	require.ErrorContains(t, CheckSetUp(self), "config.data: no such file")

	for _, left := range []string{RaftDir, MemberMark} {
		path := filepath.Join(dir, left)
		require.NoError(t, os.Mkdir(path, 0o700))
		err := CheckSetUp(self)
		require.ErrorContains(t, err, dir+" belongs to a cluster of lockstep, because it has "+left)
		require.ErrorContains(t, err, "move "+path+" aside")
		require.NoError(t, os.Remove(path))
	}
}
