package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/progress"
)

// What a command and its children say in the pipe arrives, and nobody waits: neither who says a lot, nor who says half a line. The pipe
// ends with the command.
func TestACommandSaysItsProgress(t *testing.T) {
	b := newKeeping(t, 1<<20)
	b.progressPath = filepath.Join(t.TempDir(), "7.progress")
	require.NoError(t, os.WriteFile(b.progressPath, []byte("left by a killed process"), 0o600))
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
	require.NoFileExists(t, b.progressPath)
}

// Without its pipe a command runs.
func TestACommandWithoutTheProgressPipe(t *testing.T) {
	b := newKeeping(t, 1<<20)
	b.progressPath = filepath.Join(t.TempDir(), "missing", "7.progress")
	require.False(t, b.command(0, "true").Failed)
	require.Contains(t, b.log.String(), "the command cannot say its progress: mkfifo ")
}

// A writer that stays when the pipe is closed is told so, and does not wait.
func TestTheProgressPipeEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	p, err := openProgressPipe(path, func(progress.Line) {})
	require.NoError(t, err)
	writer, err := unix.Open(path, unix.O_WRONLY, 0)
	require.NoError(t, err)
	p.close()
	_, err = unix.Write(writer, []byte("1\n"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, unix.Close(writer))
	require.NoFileExists(t, path)
}
