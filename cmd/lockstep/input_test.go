package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// run reports that it does not pass its standard input on, if there is some.
func TestRunSaysThatItsInputIsNotPassedOn(t *testing.T) {
	const told = "lockstep: the command does not get this standard input; --stdin passes it on\n"
	socket := realDaemon(t)
	run := func(input *os.File, flags ...string) (stderr string) {
		c := exec.Command(program(t, "lockstep"), append(append([]string{"run"}, flags...), "--", "true")...)
		c.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
		c.Stdin = input
		said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		require.NoError(t, err)
		defer said.Close()
		c.Stderr = said
		require.NoError(t, c.Run())
		text, err := os.ReadFile(said.Name())
		require.NoError(t, err)
		return string(text)
	}
	pipe, filler, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	require.NotContains(t, run(pipe), told)
	_, err = filler.WriteString("x\n")
	require.NoError(t, err)
	require.NoError(t, filler.Close())
	require.Contains(t, run(pipe), told)
	require.NotContains(t, run(pipe, "--quiet"), told)
	file := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(file, []byte("x\n"), 0o600))
	open, err := os.Open(file)
	require.NoError(t, err)
	defer open.Close()
	require.Contains(t, run(open), told)
	require.NotContains(t, run(open, "--stdin"), told)
	require.NotContains(t, run(open), told, "all of it was read")
}
