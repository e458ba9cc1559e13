package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/access"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// account is an account with its groups, whose rights the test takes.
type account struct {
	access.Submitter
	groups []uint32
}

// run calls f with the rights of the account, on a thread of its own.
func (a account) run(f func() error) error {
	done := make(chan error)
	var begin func()
	begin = func() {
		runtime.LockOSThread() // for good: the thread, which alone has another user, ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The first thread does not end, and stands for the process. While it is locked, another goroutine has another thread.
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				begin()
			}()
			<-ended
			runtime.UnlockOSThread()
			return
		}
		err := a.become()
		if err == nil {
			err = f()
		}
		done <- err
	}
	go begin()
	return <-done
}

// become changes the user of the calling thread.
func (a account) become() error {
	id := uintptr(a.UID)
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, uintptr(len(a.groups)), uintptr(unsafe.Pointer(unsafe.SliceData(a.groups)))}, //nolint:gosec // the kernel reads it
		{unix.SYS_SETRESGID, id, id, id},
		{unix.SYS_SETRESUID, id, id, id},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return errno
		}
	}
	runtime.KeepAlive(a.groups)
	return nil
}

// connect opens a connection to a socket as the account: the kernel tells the daemon who has opened it.
func (a account) connect(path string) (c net.Conn, err error) {
	err = a.run(func() error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(fd), path)
		defer file.Close()
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return err
		}
		c, err = net.FileConn(file)
		return err
	})
	return c, err
}

// command is a command that runs as the account.
func (a account) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.UID), Groups: a.groups}}
	return cmd
}

// dialAs is dial as another account.
func (d *daemon) dialAs(a account) *client {
	d.t.Helper()
	c, err := a.connect(d.path("run", "socket", "ganeti-query"))
	require.NoError(d.t, err)
	l := luxiclient.NewClient(c.(luxiclient.Conn), luxiclient.Options{AnswerTimeout: patience})
	d.t.Cleanup(func() { _ = l.Close() })
	return &client{d.t, l}
}

// frame sends a frame, and returns the error in the answer.
func (a account) frame(path, frame string) error {
	c, err := a.connect(path)
	if err != nil {
		return err
	}
	defer c.Close()
	return sendFrame(c, frame)
}

func sendFrame(c net.Conn, frame string) error {
	if err := wire.WriteFrame(c, []byte(frame)); err != nil {
		return err
	}
	answer, err := wire.NewReader(c, 1<<20).ReadFrame()
	if err != nil {
		return err
	}
	_, err = wire.DecodeResponse(answer)
	return err
}

// socketCall makes the program of the test send the frame of the variable FRAME, and print the error in the answer.
const socketCall = "call"

func callSocket(path string) {
	c, err := net.Dial("unix", path)
	if err == nil {
		err = sendFrame(c, os.Getenv("FRAME"))
	}
	fmt.Println(err)
	os.Exit(0)
}

// A grant is in force on connections that are open, and survives the daemon.
func TestAGrantOnAnOpenConnection(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	root := d.startAgain("--socket-group", "lockstep")
	id := root.submit(command("sleep", "1000"))
	root.awaitStatus(id, "running")
	c := d.dialAs(asAlice)
	var who struct{ User, Role string }
	c.call("LockstepWhoAmI", &who)
	require.Equal(t, struct{ User, Role string }{"alice", "submit"}, who)
	var changed bool
	root.call("LockstepGrant", &changed, "operate", "alice")
	require.True(t, changed)
	done, text := c.ask("CancelJob", id, true)
	require.True(t, done, text)
	d.startAgain("--socket-group", "lockstep")
	d.dialAs(asAlice).call("LockstepWhoAmI", &who)
	require.Equal(t, "operate", who.Role)
	require.Error(t, c.Call(context.Background(), "LockstepWhoAmI", []any{}, nil), "the daemon was killed")
}
