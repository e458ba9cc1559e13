package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// startOnTerminal starts a program on a terminal that never answers, and returns the other end of the terminal.
func startOnTerminal(t *testing.T, cmd *exec.Cmd) (master *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, slave.Close())
	return master
}

// onTerminal is what a program writes to a terminal that never answers.
func onTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	master := startOnTerminal(t, cmd)
	written, _ := io.ReadAll(master) // EIO when the last process has closed the terminal
	require.NoError(t, cmd.Wait())
	return string(written)
}

// On a terminal a carriage return rewrites the line of output, and the progress of the command has a line below it. In a pipe the bytes are
// those of the command.
func TestProgressOnATerminal(t *testing.T) {
	socket := realDaemon(t)
	gate := filepath.Join(t.TempDir(), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	cmd := exec.Command(program(t, "lockstep"), "run", "--", "sh", "-c", `printf '10 %%\r20 %%\r\033[31m30 %%\033[0m\n'
		`+program(t, "lockstep")+` progress 40 'copying disk 2'; cat `+gate+`; printf 'end\r\n'`)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
	master := startOnTerminal(t, cmd)
	written := ""
	for more := make([]byte, 1000); !strings.Contains(written, "copying disk 2"); {
		n, err := master.Read(more)
		require.NoError(t, err, "%q", written)
		written += string(more[:n])
	}
	require.Contains(t, written, "10 %\r\x1b[K20 %\r\x1b[K30 %\r\n", "the terminal adds the last carriage return")
	require.Contains(t, written, "\r\x1b[Kjob 1: 40% ||··· ")
	require.NotContains(t, written, "\x1b[31m")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	rest, _ := io.ReadAll(master)
	require.NoError(t, cmd.Wait())
	require.Regexp(t, `\r\x1b\[Kend\r\n`, string(rest))

	followed := runProgram(t, socket, "watch", "1")
	require.Equal(t, "10 %\r20 %\r\x1b[31m30 %\x1b[0m\nend\r\njob 1: success\n", string(followed.out))
	require.Empty(t, string(followed.err))
}

// watch of several jobs has a line below the output for each job whose command says its progress.
func TestTheProgressOfSeveralJobsOnATerminal(t *testing.T) {
	socket := realDaemon(t)
	var gates []string
	for _, text := range []string{"copying", "checking"} {
		gate := filepath.Join(t.TempDir(), text)
		require.NoError(t, syscall.Mkfifo(gate, 0o600))
		gates = append(gates, gate)
		runProgram(t, socket, "run", "-d", "--", "sh", "-c", `echo "40 `+text+`" >$LOCKSTEP_PROGRESS; cat `+gate+`; echo end`)
	}
	cmd := exec.Command(program(t, "lockstep"), "watch", "1", "2")
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
	master := startOnTerminal(t, cmd)
	written := ""
	for more := make([]byte, 1000); !strings.Contains(written, "copying") || !strings.Contains(written, "checking"); {
		n, err := master.Read(more)
		require.NoError(t, err, "%q", written)
		written += string(more[:n])
	}
	require.Regexp(t, `job 1: 40% \|\|··· .*copying\r*\njob 2: 40% \|\|··· .*checking`, written)
	for _, gate := range gates {
		require.NoError(t, os.WriteFile(gate, nil, 0o600))
	}
	rest, _ := io.ReadAll(master)
	require.NoError(t, cmd.Wait())
	require.Regexp(t, `\r\x1b\[K[12]\| end\r\n`, string(rest))
	require.Regexp(t, `job 2: \S*success`, string(rest))
}

// A terminal that does not answer questions, about its colours for example, would delay each command.
func TestCommandsAskTheTerminalNothing(t *testing.T) {
	cmd := exec.Command(program(t, "lockstep"), "version")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=truecolor")
	written := onTerminal(t, cmd)
	require.Contains(t, written, "lockstep ")
	require.NotContains(t, written, "\x1b")
}
