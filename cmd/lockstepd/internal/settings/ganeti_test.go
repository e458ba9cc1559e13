package settings

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
	"lockstep/core/paths"
)

// selfAccounts are the flags of Ganeti mode for the user and groups of this process.
func selfAccounts() []string {
	group := strconv.Itoa(os.Getegid())
	return []string{"--ganeti", "--ganeti-user", strconv.Itoa(os.Geteuid()), "--ganeti-confd-group", group, "--ganeti-daemons-group", group}
}

func TestGanetiDefaults(t *testing.T) {
	c, err := Parse(selfAccounts(), io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"/var/lib/ganeti", "/run/ganeti", "/var/log/ganeti"}, []string{c.DataDir, c.RunDir, c.LogDir})
	require.Equal(t, "/var/lib/ganeti/opcodes.d", c.OpcodesDir)
	require.Empty(t, c.Rapi.Address, "the port is that of ganeti-rapi")
	require.Equal(t, ownership.Attributes{Mode: 0o640, UID: os.Geteuid(), GID: os.Getegid()}, c.Owners.DataFile(paths.ConfigPath))

	// Settings win, on the command line and in the file.
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("run-dir: /srv/run\nrapi-address: 127.0.0.1:5081\n"), 0o600))
	c, err = Parse(append(selfAccounts(), "--config", file, "--data-dir", "/srv/data"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"/srv/data", "/srv/run", "/var/log/ganeti"}, []string{c.DataDir, c.RunDir, c.LogDir})
	require.Equal(t, "127.0.0.1:5081", c.Rapi.Address)

	c, err = Parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/var/lib/lockstep", c.DataDir)
	require.Equal(t, ownership.Rules{}, c.Owners)
}

func TestBadGanetiSettings(t *testing.T) {
	for _, args := range [][]string{{"--node-listen", ":1"}, {"--node-name", "n"}, {"--cluster-name", "c"}, {"--leave-jobs"}, {"--socket-group", "root"}} {
		_, err := Parse(append(selfAccounts(), args...), io.Discard)
		require.ErrorContains(t, err, args[0][2:]+": it cannot be set with ganeti")
	}
	_, err := Parse([]string{"--ganeti-user", "root"}, io.Discard)
	require.ErrorContains(t, err, "ganeti-user: it has no meaning without ganeti")
	_, err = Parse(append(selfAccounts(), "--ganeti-user", "no-such-user"), io.Discard)
	require.ErrorContains(t, err, `there is no user "no-such-user"`)
	for _, name := range []string{"--ganeti-confd-group", "--ganeti-daemons-group"} {
		_, err = Parse(append(selfAccounts(), name, "no-such-group"), io.Discard)
		require.ErrorContains(t, err, `there is no group "no-such-group"`)
	}
}
