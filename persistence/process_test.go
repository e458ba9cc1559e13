package persistence

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// The tests of locks need other processes: the test binary starts itself with a role in
// this variable. A role writes lines to its standard output, and continues when it reads a
// line or the end of its standard input.
const roleVariable = "PERSISTENCE_TEST_ROLE"

// own are the rules of lockstep's own mode.
var own ownership.Rules

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		playRole(role, os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func playRole(role string, args []string) {
	switch role {
	case "queue-lock":
		lock, err := LockQueue(args[0], own)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("locked")
		awaitLine()
		fmt.Println("released", lock.Release())
	case "run-lock":
		_, err := LockRun(args[0])
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("locked")
		awaitLine()
	case "livelock":
		lock, err := CreateLivelock(args[0], args[1], own)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(lock.Path())
		awaitLine()
	case "livelock-and-child":
		lock, err := CreateLivelock(args[0], args[1], own)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(lock.Path())
		child := roleCommand("child")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		_ = child.Run()
	case "child":
		fmt.Println("child started")
		awaitLine()
		fmt.Println("child still here")
	case "classic-lock": // as Ganeti's daemons and job processes lock
		fmt.Println(classicLock(args[0], unix.F_WRLCK))
		awaitLine()
	case "classic-probe": // as they probe
		fmt.Println(classicLock(args[0], unix.F_RDLCK))
	case "owned-files":
		fmt.Println(playOwned(args))
	case "foreign-group":
		if err := playForeignGroup(args[0]); err != nil {
			fmt.Println(err)
		}
	case "small-file-limit":
		fmt.Println(replaceBeyondLimit(args[0]))
	case "small-append-limit":
		files, err := limitedFiles(args[0])
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(files.Append("journal", "queue/journal", make([]byte, 10000)))
		fmt.Println(files.Append("journal", "queue/journal", make([]byte, 10000)))
	default:
		fmt.Println("unknown role", role)
	}
}

func awaitLine() {
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func classicLock(path string, lockType int16) string {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT, 0o640)
	if err != nil {
		return err.Error()
	}
	lock := wholeFileLock(lockType)
	err = unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &lock)
	if isLockConflict(err) {
		return "conflict"
	}
	if err != nil {
		return err.Error()
	}
	return "locked"
}

// replaceBeyondLimit writes more than the process may: the write stops half way,
// as on a full disk, for root too.
func replaceBeyondLimit(root string) error {
	files, err := limitedFiles(root)
	if err != nil {
		return err
	}
	return files.Replace("save-job", "queue/job-1", make([]byte, 10000))
}

// limitedFiles cannot grow beyond 4096 bytes.
func limitedFiles(root string) (*OSFiles, error) {
	signal.Ignore(unix.SIGXFSZ)
	files, err := OpenFiles(root, own)
	if err != nil {
		return nil, err
	}
	limit := unix.Rlimit{Cur: 4096, Max: 4096}
	return files, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
}

// process is a running role.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func roleCommand(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// The race detector would make every role wait a second before it exits.
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// startRole starts a process with a role. It ends with the test at the latest, because its
// input ends.
func startRole(t *testing.T, role string, args ...string) *process {
	t.Helper()
	cmd := roleCommand(role, args...)
	stdin, err := cmd.StdinPipe()
	noError(t, err)
	stdout, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	return &process{t: t, cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}
}

func (p *process) pid() int {
	return p.cmd.Process.Pid
}

// line waits for the next line that the role writes.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("process says nothing: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *process) resume() {
	p.t.Helper()
	_, err := p.stdin.Write([]byte("\n"))
	noError(p.t, err)
}

// kill kills the process and returns when the kernel has freed all its resources.
func (p *process) kill() {
	p.t.Helper()
	noError(p.t, p.cmd.Process.Kill())
	_, err := p.cmd.Process.Wait()
	noError(p.t, err)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
