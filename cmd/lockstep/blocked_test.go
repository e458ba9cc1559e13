package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// blockedRun is a `lockstep run` whose standard output nobody reads, and whose command waits for it.
func blockedRun(t *testing.T, socket string, redirect func(c *exec.Cmd, unread *os.File), args ...string) *exec.Cmd {
	t.Helper()
	reader, unread, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reader.Close()) })
	c := exec.Command(program(t, "lockstep"), append(append([]string{"run"}, args...), "--", "head", "-c", "3000000", "/dev/zero")...)
	c.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
	redirect(c, unread)
	require.NoError(t, c.Start())
	require.NoError(t, unread.Close())
	late := time.AfterFunc(realPatience, func() { _ = c.Process.Kill() })
	t.Cleanup(func() { late.Stop() })
	return c
}

// A signal ends a run whose output is not read. The job continues.
func TestASignalEndsARunWhoseOutputNobodyReads(t *testing.T) {
	socket := realDaemon(t)
	for number, c := range []struct {
		signal syscall.Signal
		both   bool // standard error goes to the same pipe
	}{{syscall.SIGTERM, false}, {syscall.SIGINT, false}, {syscall.SIGTERM, true}} {
		job := string(rune('1' + number))
		said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		require.NoError(t, err)
		run := blockedRun(t, socket, func(run *exec.Cmd, unread *os.File) {
			run.Stdout, run.Stderr = unread, said
			if c.both {
				run.Stderr = unread
			}
		})
		for !bytes.Contains(runProgram(t, socket, "why", job).out, []byte("reader")) {
			require.Nil(t, run.ProcessState)
		}
		require.NoError(t, run.Process.Signal(c.signal))
		require.Error(t, run.Wait())
		require.Equal(t, 128+int(c.signal), run.ProcessState.ExitCode())
		text, err := os.ReadFile(said.Name())
		require.NoError(t, err)
		require.NoError(t, said.Close())
		if !c.both {
			require.Equal(t, "lockstep: job "+job+` continues; "lockstep watch `+job+`" follows it, "lockstep cancel `+job+"\" cancels it\n", string(text))
		}
		require.Zero(t, runProgram(t, socket, "wait", job).code)
	}
}

// unread is a pipe that nobody reads until the test ends.
type unread struct{ ended chan struct{} }

func (u *unread) Write(p []byte) (int, error) {
	<-u.ended
	return len(p), nil
}

// On a terminal whose user has sent the output elsewhere, Ctrl-C asks as always while the output is not read.
func TestCtrlCAsksWhileOutputIsNotRead(t *testing.T) {
	for input, want := range map[string]string{
		"type d":    "exit 130",
		"interrupt": "exit 130",
		"type c\n> CancelJob [12,true]\n< [true,\"it ends\"]\nsee it ends\nterminate": "exit 143",
	} {
		out := &unread{ended: make(chan struct{})}
		late := time.AfterFunc(2*patience, func() { close(out.ended) })
		s := stageFor(t, `run -- true
> LockstepSubmitJobs ...
< [12]
> WaitForJobChange ...
< [["running",["running"]],[[1,[1,0],"stdout","text"]]]
> WaitForJobChange ...
interrupt
see (d)etach, (c)ancel, (Enter) keep following?
`+input, "intty", "errtty")
		s.streams.Out, s.streams.After = out, time.After
		seen := s.perform()
		if late.Stop() {
			close(out.ended)
		}
		require.Contains(t, seen, want)
		require.Contains(t, seen, "job 12 continues")
		require.NotContains(t, strings.ToLower(seen), "script:")
	}
}
