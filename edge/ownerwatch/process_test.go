package ownerwatch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
	"lockstep/persistence"
)

// Owners of locks are other processes: the test binary starts itself with the
// directory for its livelocks in this variable, and their names as arguments.
const dirVariable = "OSLIVE_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		beOwner(dir, os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beOwner creates livelocks and prints their paths. It prints a line when it is woken, releases
// its livelocks on command, and ends with its input.
func beOwner(dir string, names []string) {
	hangUps := make(chan os.Signal, 16)
	signal.Notify(hangUps, syscall.SIGHUP)
	var held []*persistence.Livelock
	for _, name := range names {
		livelock, err := persistence.CreateLivelock(dir, name, ownership.Rules{})
		if err != nil {
			fmt.Println(err)
			return
		}
		held = append(held, livelock)
		fmt.Println(livelock.Path())
	}
	go func() {
		for range hangUps {
			fmt.Println("woken")
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		for _, livelock := range held {
			if err := livelock.Release(); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println("released")
	}
}

// ownerProcess is a process that runs beOwner.
type ownerProcess struct {
	t         testing.TB
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	lines     *bufio.Reader
	livelocks []string
}

func startOwnerProcess(t testing.TB, dir string, names ...string) *ownerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0], names...)
	cmd.Env = append(os.Environ(), dirVariable+"="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	o := &ownerProcess{t: t, cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}
	t.Cleanup(o.kill)
	for range names {
		o.livelocks = append(o.livelocks, o.line())
	}
	return o
}

func (o *ownerProcess) pid() int { return o.cmd.Process.Pid }

func (o *ownerProcess) line() string {
	o.t.Helper()
	line, err := o.lines.ReadString('\n')
	require.NoError(o.t, err)
	return strings.TrimSuffix(line, "\n")
}

// release makes the process release its livelocks and continue.
func (o *ownerProcess) release() {
	o.t.Helper()
	_, err := o.stdin.Write([]byte("release\n"))
	require.NoError(o.t, err)
	require.Equal(o.t, "released", o.line())
}

// kill kills the process and reaps it, so its pid may be reused.
func (o *ownerProcess) kill() {
	_ = o.cmd.Process.Kill()
	_, _ = o.cmd.Process.Wait()
}

// readRest ends the process in order and returns the rest of its output.
func (o *ownerProcess) readRest() string {
	o.t.Helper()
	require.NoError(o.t, o.stdin.Close())
	output, err := io.ReadAll(o.lines)
	require.NoError(o.t, err)
	return string(output)
}
