package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/progress"
)

// What a command and its children write to the pipe arrives. A writer of many lines or of half a line does not wait. The pipe
// ends with the command.
func TestACommandSaysItsProgress(t *testing.T) {
	b := newKeeping(t, 1<<20)
	b.progressPath = filepath.Join(t.TempDir(), "7.progress", "pipe")
	for _, left := range []string{b.progressPath, filepath.Dir(b.progressPath) + "~/pipe"} {
		require.NoError(t, os.Mkdir(filepath.Dir(left), 0o700))
		require.NoError(t, os.WriteFile(left, []byte("left by a killed process"), 0o600))
	}
	said := make(chan progress.Line, 1000)
	b.progressed = func(l progress.Line) { said <- l }
	outcome := b.command(0, `stat -c %F,%a $LOCKSTEP_PROGRESS
		echo "40 copying disk 2" > $LOCKSTEP_PROGRESS
		(exec 3>> $LOCKSTEP_PROGRESS; printf '50%%' >&3; printf ' half\r' >&3)
		sh -c 'sh -c "head -c 3000000 /dev/zero > $LOCKSTEP_PROGRESS"'
		echo > $LOCKSTEP_PROGRESS
		echo "100 end" > $LOCKSTEP_PROGRESS; exit 3`)
	require.True(t, outcome.Failed)
	require.Equal(t, "fifo,600\n", b.written[0].String())
	require.Empty(t, b.log.String())
	close(said)
	var lines []progress.Line
	for l := range said {
		if l.Text != "" || l.Percent >= 0 {
			lines = append(lines, l)
		}
	}
	require.Subset(t, []progress.Line{{Percent: 40, Text: "copying disk 2"}, {Percent: 50, Text: "half"}, {Percent: 100, Text: "end"}}, lines)
	left, err := os.ReadDir(filepath.Dir(filepath.Dir(b.progressPath)))
	require.NoError(t, err)
	require.Empty(t, left)
}

// Without its pipe a command runs.
func TestACommandWithoutTheProgressPipe(t *testing.T) {
	b := newKeeping(t, 1<<20)
	b.progressPath = filepath.Join(t.TempDir(), "missing", "7.progress", "pipe")
	require.False(t, b.command(0, "true").Failed)
	require.Contains(t, b.log.String(), "the command cannot say its progress: mkdir ")
}

// A writer that stays when the pipe is closed is told so, and does not wait.
func TestTheProgressPipeEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7.progress", "pipe")
	p, err := openProgressPipe(path, nil, func(progress.Line) {})
	require.NoError(t, err)
	writer, err := unix.Open(path, unix.O_WRONLY, 0)
	require.NoError(t, err)
	p.close()
	_, err = unix.Write(writer, []byte("1\n"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, unix.Close(writer))
	require.NoFileExists(t, path)
	require.ErrorIs(t, os.WriteFile(path, []byte("1\n"), 0o600), fs.ErrNotExist, "a later writer makes no file")
}

// The end of a command does not wait for a process that it has left behind with the pipe open, for reading or for writing. A command that
// takes the pipe away harms its own progress only.
func TestTheEndDoesNotWaitForThePipe(t *testing.T) {
	b := newKeeping(t, 1<<20)
	b.progressPath = filepath.Join(t.TempDir(), "7.progress", "pipe")
	pids := filepath.Join(t.TempDir(), "pids")
	outcome := b.command(0, `exec >/dev/null 2>&1
		sleep 300 3>>$LOCKSTEP_PROGRESS & echo $! >>`+pids+`
		sleep 300 3<$LOCKSTEP_PROGRESS & echo $! >>`+pids+`
		printf '40 no end of a line' >$LOCKSTEP_PROGRESS`)
	t.Cleanup(func() {
		left, err := os.ReadFile(pids)
		require.NoError(t, err)
		for _, pid := range strings.Fields(string(left)) {
			n, err := strconv.Atoi(pid)
			require.NoError(t, err)
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	})
	require.False(t, outcome.Failed)
	require.NoFileExists(t, b.progressPath)

	require.False(t, b.command(0, `rm $LOCKSTEP_PROGRESS; mkdir $LOCKSTEP_PROGRESS; touch $LOCKSTEP_PROGRESS/full`).Failed)
	require.NoDirExists(t, filepath.Dir(b.progressPath))
	require.False(t, b.command(1, `test -p $LOCKSTEP_PROGRESS`).Failed)
}

// A flood of lines does not stop a command, and the latest line is told at its end.
func TestAFloodOfProgress(t *testing.T) {
	b := newKeeping(t, 1<<20)
	b.progressPath = filepath.Join(t.TempDir(), "7.progress", "pipe")
	last := make(chan progress.Line, 1)
	told := 0
	b.progressed = func(l progress.Line) {
		told++
		select {
		case <-last:
		default:
		}
		last <- l
	}
	require.False(t, b.command(0, `{ yes "40 flood" | head -n 300000; echo 41 last; head -c 1000000 /dev/zero; } > $LOCKSTEP_PROGRESS`).Failed)
	require.Less(t, told, 300_000)
	t.Log(told, "lines were told")
	l := <-last
	require.Contains(t, []progress.Line{{Percent: 40, Text: "flood"}, {Percent: 41, Text: "last"}}, l)
}
