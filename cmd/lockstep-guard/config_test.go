package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/places"
)

// The guard finds its directories as lockstepd does.
func TestTheDirectoriesOfTheGuard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("# of the daemon\nrun-dir: /run/one\nlog-level: debug\njob-cgroup: /groups/jobs\nmax-starts: 3\n"), 0o600))
	for name, c := range map[string]struct {
		args []string
		want config
	}{
		"the file":                    {[]string{"--config", file}, config{RunDir: "/run/one", JobCgroup: "/groups/jobs"}},
		"a flag wins":                 {[]string{"--config", file, "--run-dir", "/run/two"}, config{RunDir: "/run/two", JobCgroup: "/groups/jobs"}},
		"flags alone":                 {[]string{"--run-dir", "/run/two", "--job-cgroup", "/g"}, config{RunDir: "/run/two", JobCgroup: "/g"}},
		"a file of a unit is missing": {[]string{"--config", places.SystemConfig, "--run-dir", "/r", "--job-cgroup", "/g"}, config{RunDir: "/r", JobCgroup: "/g"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(c.args, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := parse([]string{"--run-dir", "/r"}, nil)
	require.ErrorContains(t, err, "job-cgroup")
	_, err = parse([]string{"--config", file + ".none"}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = parse([]string{"more"}, nil)
	require.ErrorContains(t, err, `unexpected argument "more"`)
	var help bytes.Buffer
	_, err = parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	require.Contains(t, help.String(), "-job-cgroup directory")
}

func TestTheDefaultRunDirectory(t *testing.T) {
	lookup := func(name string) (string, bool) { return map[string]string{"HOME": "/home/a"}[name], name == "HOME" }
	user, root := places.Environment{UID: 4242, Lookup: lookup}, places.Environment{Lookup: lookup}
	for _, c := range []struct {
		environment places.Environment
		config      config
		want        string
	}{
		{root, config{}, "/var/run/lockstep"},
		{user, config{}, "/home/a/.local/state/lockstep/run"},
		{user, config{DataDir: "/srv/queue"}, "/var/run/lockstep"}, // as lockstepd
		{user, config{RunDir: "/srv/run"}, "/srv/run"},
	} {
		c.config.JobCgroup = "/g"
		require.NoError(t, c.config.complete(c.environment))
		require.Equal(t, c.want, c.config.RunDir)
	}
}
