package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/command"
)

// A command says its progress in the pipe that its environment names, and does not wait if nobody reads.
func TestProgressIsSaidInThePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7.progress")
	say := func(args ...string) (exit int, stderr string) {
		var out, err bytes.Buffer
		streams := cli.Streams{Out: &out, Err: &err, LookupEnv: func(name string) (string, bool) {
			if name == "LOCKSTEP_PROGRESS" {
				return path, true
			}
			return "", false
		}}
		exit = command.Run(context.Background(), append([]string{"progress"}, args...), streams)
		require.Empty(t, out.String())
		return exit, err.String()
	}
	exit, text := say("40")
	require.Equal(t, 1, exit)
	require.Contains(t, text, "the command of this job has ended")
	require.NoFileExists(t, path)

	require.NoError(t, syscall.Mkfifo(path, 0o600))
	exit, text = say("40")
	require.Equal(t, 1, exit, "nobody reads it any more")
	require.Contains(t, text, "the command of this job has ended")

	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer pipe.Close()
	for _, args := range [][]string{{"40", "copying disk 2"}, {"12.34%", "of", "all"}, {"copying\ndisk"}, {"-", "2 disks"}, {"-"}} {
		exit, text = say(args...)
		require.Zero(t, exit, text)
	}
	const want = "40 copying disk 2\n12.3 of all\n- copying disk\n- 2 disks\n-\n"
	said := make([]byte, 1000)
	n, err := pipe.Read(said)
	require.NoError(t, err)
	require.Equal(t, want, string(said[:n]))

	size, err := unix.FcntlInt(pipe.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
	require.NoError(t, err)
	for range size/90 + 1 { // more than the pipe takes
		exit, text = say("40", strings.Repeat("x", 90))
		require.Zero(t, exit, text)
	}

	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	path = plain
	exit, text = say("40")
	require.Equal(t, 1, exit)
	require.Contains(t, text, "is no pipe")
	info, err := os.Stat(plain)
	require.NoError(t, err)
	require.Zero(t, info.Size())
}
