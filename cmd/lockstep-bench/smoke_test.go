package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// build builds the programs into a directory.
func build(t *testing.T) (dir string) {
	t.Helper()
	longtest.Skip(t)
	// The paths of sockets are limited, so the directory must have a short path.
	dir, err := os.MkdirTemp("", "lb")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "lockstep/cmd/lockstepd", "lockstep/cmd/lockstep-job", "lockstep/cmd/lockstep", "lockstep/cmd/lockstep-bench").CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

func TestTheWholeProgram(t *testing.T) {
	dir := build(t)
	program, work, figures := filepath.Join(dir, "lockstep-bench"), filepath.Join(dir, "w"), filepath.Join(dir, "figures")
	out, err := exec.Command(program, "--dir", work, "--quick", "--rounds", "1", "--only", "submit|Job|Wake", "--out", figures).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, part := range []string{"file system:", "submission, one client", "SubmitManyJobs of 200", "one no-op, submission to success", "bare loop, 64 workers"} {
		require.Contains(t, string(out), part)
	}
	require.NotContains(t, string(out), "lock updates")
	written, err := os.ReadFile(figures)
	require.NoError(t, err)
	for _, line := range []string{"BenchmarkSubmit/clients=1\t", "BenchmarkBareLoop/workers=20\t", "BenchmarkJobs/slots=64\t"} {
		require.Equal(t, 1, strings.Count(string(written), line), line)
	}
	out, err = exec.Command(program, "--dir", work, "--quick", "--rounds", "1", "--cluster", "--only", "cluster of 3").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, part := range []string{"3 nodes: no-ops end to end, 20 run slots; one node", "raft that writes files", "3 nodes: raft alone, commits for 64 clients"} {
		require.Contains(t, string(out), part)
	}
	require.NotContains(t, string(out), "5 nodes")
	left, err := os.ReadDir(work)
	require.NoError(t, err)
	require.Empty(t, left, "the throw-away directory is gone")

	_, err = exec.Command(program, "--dir", work, "--only", "nothing-like-it").Output()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit))
	require.Equal(t, exitUsage, exit.ExitCode())
	require.Contains(t, string(exit.Stderr), "matches no measurement")
}
