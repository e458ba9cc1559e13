package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree makes files of a group that has no kernel behind it.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

func contentOf(t *testing.T, names ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(names...))
	require.NoError(t, err)
	return string(content)
}

// Controllers are those of the group around that of jobs. They are on for limited commands, and what is on is not switched on again.
func TestControllersForLimitedCommands(t *testing.T) {
	unit := filepath.Join(t.TempDir(), "lockstep-jobs.service")
	jobs := filepath.Join(unit, "jobs")
	_, _, err := Controllers(jobs)
	require.ErrorIs(t, err, fs.ErrNotExist)
	tree(t, unit, map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "cpu\n"})
	tree(t, jobs+".limited", map[string]string{"cgroup.subtree_control": ""})
	const job = "job_000007_1_2_3"
	tree(t, filepath.Join(jobs+".limited", job+".2"), map[string]string{"cgroup.procs": "", "memory.max": "max", "io.bfq.weight": "100"})
	where, controllers, err := Controllers(jobs)
	require.NoError(t, err)
	require.Equal(t, unit, where)
	require.Equal(t, []string{"cpu", "memory", "pids"}, controllers)

	g, err := MakeLimited(jobs, job, 2, []string{"cpu"})
	require.NoError(t, err)
	defer g.Close()
	require.Equal(t, "cpu\n", contentOf(t, unit, "cgroup.subtree_control"))
	require.Equal(t, "+cpu", contentOf(t, jobs+".limited", "cgroup.subtree_control"))
	require.Equal(t, []string{g.Path}, Of(jobs, job), "a daemon finds it")

	require.NoError(t, g.Set([][2]string{{"memory.max", "2000000000"}}))
	require.NoError(t, g.Set([][2]string{{"io.weight", "default 50"}, {"io.bfq.weight", "50"}}))
	require.ErrorIs(t, g.Set([][2]string{{"pids.max", "5"}}), fs.ErrNotExist)
	require.Equal(t, "2000000000", contentOf(t, g.Path, "memory.max"))
	require.Equal(t, "50", contentOf(t, g.Path, "io.bfq.weight"))

	require.False(t, g.RanOutOfMemory())
	tree(t, g.Path, map[string]string{"memory.events": "max 12\noom 1\noom_kill 0\n"})
	require.False(t, g.RanOutOfMemory())
	tree(t, g.Path, map[string]string{"memory.events": "max 12\noom 1\noom_kill 3\noom_group_kill 1\n"})
	require.True(t, g.RanOutOfMemory())
}
