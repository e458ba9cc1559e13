package places

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func environment(uid int, variables map[string]string) Environment {
	return Environment{UID: uid, Lookup: func(name string) (string, bool) { value, set := variables[name]; return value, set }}
}

func TestTheDirectoriesOfAUser(t *testing.T) {
	mine := t.TempDir()
	me := os.Geteuid()
	for name, c := range map[string]struct {
		uid       int
		variables map[string]string
		want      Dirs
	}{
		"home only": {me, map[string]string{"HOME": "/home/a"},
			Dirs{"/home/a/.local/state/lockstep/lib", "/home/a/.local/state/lockstep/run", "/home/a/.local/state/lockstep/log", "/home/a/.local/state/lockstep/run/socket"}},
		"all": {me, map[string]string{"HOME": "/home/a", "XDG_STATE_HOME": "/state", "XDG_RUNTIME_DIR": mine},
			Dirs{"/state/lockstep/lib", "/state/lockstep/run", "/state/lockstep/log", filepath.Join(mine, "lockstep")}},
		"relative paths count as unset": {me, map[string]string{"HOME": "/h", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "."},
			Dirs{"/h/.local/state/lockstep/lib", "/h/.local/state/lockstep/run", "/h/.local/state/lockstep/log", "/h/.local/state/lockstep/run/socket"}},
		"a runtime directory of another user, as after sudo": {me + 1, map[string]string{"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": mine},
			Dirs{"/s/lockstep/lib", "/s/lockstep/run", "/s/lockstep/log", "/s/lockstep/run/socket"}},
		"a runtime directory that is gone": {me, map[string]string{"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": mine + "/none"},
			Dirs{"/s/lockstep/lib", "/s/lockstep/run", "/s/lockstep/log", "/s/lockstep/run/socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := environment(c.uid, c.variables).User()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := environment(me, nil).User()
	require.ErrorIs(t, err, ErrNoHome)
}

func TestTheConfigurationFileOfAUser(t *testing.T) {
	path, err := environment(1, map[string]string{"HOME": "/h"}).UserConfig()
	require.NoError(t, err)
	require.Equal(t, "/h/.config/lockstep/lockstepd.yaml", path)
	path, err = environment(1, map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/c"}).UserConfig()
	require.NoError(t, err)
	require.Equal(t, "/c/lockstep/lockstepd.yaml", path)
}

func TestRootHasTheDirectoriesOfTheSystem(t *testing.T) {
	require.False(t, environment(0, nil).UserMode())
	require.True(t, environment(4242, nil).UserMode())
}
