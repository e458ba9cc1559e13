package settings

import (
	"flag"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/places"
)

func TestDefaultsOfAUser(t *testing.T) {
	environment := places.Environment{UID: 4242, Lookup: func(name string) (string, bool) { return map[string]string{"HOME": "/home/a"}[name], name == "HOME" }}
	apply := func(given map[string]bool) Config {
		c := Config{DataDir: "given", RunDir: "given", LogDir: "given"}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		c.Rapi.flags(flags)
		require.NoError(t, c.applyUser(given, environment, flags))
		return c
	}
	c := apply(nil)
	require.Equal(t, []string{"/home/a/.local/state/lockstep/lib", "/home/a/.local/state/lockstep/run", "/home/a/.local/state/lockstep/log", "/home/a/.local/state/lockstep/run/socket"},
		[]string{c.DataDir, c.RunDir, c.LogDir, c.SocketDir})
	require.Empty(t, c.Rapi.Address, "nothing listens")

	c = apply(map[string]bool{"run-dir": true, "log-dir": true, RapiAddressFlag: true})
	require.Equal(t, []string{"/home/a/.local/state/lockstep/lib", "given", "given", ""}, []string{c.DataDir, c.RunDir, c.LogDir, c.SocketDir})
	require.NotEmpty(t, c.Rapi.Address)

	c = apply(map[string]bool{"data-dir": true})
	require.Equal(t, "given", c.RunDir, "a daemon like the system's")
	require.NotEmpty(t, c.Rapi.Address)

	environment.Lookup = func(string) (string, bool) { return "", false }
	require.ErrorContains(t, (&Config{}).applyUser(nil, environment, flag.NewFlagSet("", flag.ContinueOnError)), "set data-dir, or set HOME")
}

func TestTheConfigurationFileOfAUnitMayBeMissing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	_, err := Parse([]string{"--config", filepath.Join(home, "lockstep", "lockstepd.yaml")}, io.Discard)
	require.NoError(t, err)
	_, err = Parse([]string{"--config", filepath.Join(home, "lockstep", "other.yaml")}, io.Discard)
	require.ErrorContains(t, err, "no such file")
}
