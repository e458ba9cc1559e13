package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
	"lockstep/messages"
)

// Alice is an account that only the daemon's mount namespace has, in the group of the socket.
const (
	aliceUID    = 51_000
	socketGroup = 51_077
)

// startWithAlice starts a daemon that knows the account alice, and a socket for her group.
func (d *daemon) startWithAlice(more ...string) {
	d.t.Helper()
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); os.Geteuid() != 0 || err != nil {
		d.t.Skipf("NOT RUN: it needs root, who can be anybody, and a mount namespace: %v: %s", err, out)
	}
	require.NoError(d.t, os.Chmod(d.root, 0o755))
	accounts, err := os.ReadFile("/etc/passwd")
	require.NoError(d.t, err)
	accounts = fmt.Appendf(accounts, "alice:x:%d:%d::/nonexistent:/bin/sh\n", aliceUID, aliceUID)
	require.NoError(d.t, os.WriteFile(d.path("passwd"), accounts, 0o644)) //nolint:gosec // as /etc/passwd
	script := `mount --bind "$0" /etc/passwd && exec "$@"`
	args := append([]string{"--mount", "sh", "-c", script, d.path("passwd"), filepath.Join(programs, "lockstepd")},
		d.args(append([]string{"--socket-group", strconv.Itoa(socketGroup)}, more...)...)...)
	d.awaitReady(d.launchProgram("unshare", args...))
}

// dialAs opens a connection as another account: the kernel tells the daemon who has opened it.
func (d *daemon) dialAs(uid int, groups ...uint32) *client {
	d.t.Helper()
	type opened struct {
		c   *luxiclient.Client
		err error
	}
	done := make(chan opened)
	var connect func()
	connect = func() {
		runtime.LockOSThread() // for good: the thread, which alone has another user, ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The first thread does not end, and stands for the process. While it is locked, another goroutine has another thread.
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				connect()
			}()
			<-ended
			runtime.UnlockOSThread()
			return
		}
		c, err := connectAs(uid, groups, d.path("run", "socket", "ganeti-query"))
		done <- opened{c, err}
	}
	go connect()
	o := <-done
	require.NoError(d.t, o.err)
	d.t.Cleanup(func() { _ = o.c.Close() })
	return &client{d.t, o.c}
}

// connectAs changes the user of the calling thread, and connects.
func connectAs(uid int, groups []uint32, path string) (*luxiclient.Client, error) {
	id := uintptr(uid)
	for _, call := range [][4]uintptr{
		{unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0]))}, //nolint:gosec // the kernel reads it
		{unix.SYS_SETRESGID, id, id, id},
		{unix.SYS_SETRESUID, id, id, id},
	} {
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
			return nil, errno
		}
	}
	runtime.KeepAlive(groups)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, err
	}
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return luxiclient.NewClient(c.(luxiclient.Conn), luxiclient.Options{AnswerTimeout: patience}), nil
}

// notPermitted requires that a call is refused with this text.
func (c *client) notPermitted(text, method string, args ...any) {
	c.t.Helper()
	err := c.Call(context.Background(), method, args, nil)
	var failed *wire.Error
	require.ErrorAs(c.t, err, &failed, method)
	require.Equal(c.t, messages.ClassPrereq, failed.Class)
	require.Contains(c.t, err.Error(), text)
}

// The name of a lock file, which each command has in its environment and each reader of the queue sees, permits nothing, and a member of
// the socket's group opens no session for another user. What the policy refuses has no effect.
func TestDoorsTrustTheDaemonsProcessesOnly(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.startWithAlice()
	root := d.dial()
	id := root.submit(command("sleep", "1000"))
	root.awaitStatus(id, "running")
	data, err := os.ReadFile(d.path("lib", "queue", fmt.Sprintf("job-%d", id)))
	require.NoError(t, err)
	var job struct{ Livelock string }
	require.NoError(t, json.Unmarshal(data, &job))
	require.NotEmpty(t, job.Livelock)
	name := filepath.Base(job.Livelock)

	alice := d.dialAs(aliceUID, socketGroup)
	var who struct{ User, Role string }
	alice.call("LockstepWhoAmI", &who)
	require.Equal(t, struct{ User, Role string }{"alice", "submit"}, who)
	for _, livelock := range []string{name, job.Livelock} {
		alice.notPermitted("only the process of a job may report on a job, not alice", "LockstepReportJob", id, livelock, nil)
		root.notPermitted("only the process of a job may report on a job, not root", "LockstepReportJob", id, livelock, nil)
		alice.notPermitted("only the process of a job may begin an opcode, not alice", "LockstepBeginOpcode", id, livelock, 0)
	}
	for _, call := range [][]any{{"LockstepOpenSession", "open", "hash", "uid=0(root)", "", ""}, {"LockstepRedeemLink", "redeem", "hash", "hash"},
		{"LockstepCheckSession", "check", "hash"}, {"LockstepEndSession", "end", "hash"}} {
		what := map[any]string{"open": "open a session", "redeem": "redeem a login link", "check": "check a session", "end": "end a session"}[call[1]]
		alice.notPermitted("only the console of a node may "+what+", not alice", call[0].(string), call[2:]...)
	}
	alice.notPermitted("to change settings needs the role admin, alice has submit", "LockstepSetSettings", map[string]any{})
	alice.notPermitted("to drain the queue needs the role operate, alice has submit", "SetDrainFlag", true)
	alice.notPermitted(fmt.Sprintf("job %d is root's; to kill it needs the role operate, alice has submit", id), "CancelJob", id, true)
	alice.notPermitted("to grant roles needs the role admin, alice has submit", "LockstepGrant", "admin", "alice")

	var changed bool
	root.call("LockstepGrant", &changed, "operate", "alice")
	require.True(t, changed)
	var answer []any
	alice.call("CancelJob", &answer, id, true)
	require.Equal(t, true, answer[0], "the grant is in force on the open connection: %v", answer)
	d.kill()
	d.startWithAlice()
	d.dialAs(aliceUID, socketGroup).call("LockstepWhoAmI", &who)
	require.Equal(t, "operate", who.Role, "a grant survives the daemon")
}
