package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/edge/luxiclient"
	"lockstep/messages"
)

// Alice is an account of the machine that the daemon sees, in the group of its socket, which has no name.
const (
	aliceUID   = 51_000
	aliceGroup = 51_077
)

// dialAlice opens a connection as alice: the kernel keeps who has opened it.
func (d *daemon) dialAlice() *client {
	d.t.Helper()
	type opened struct {
		c   *luxiclient.Client
		err error
	}
	done := make(chan opened)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		gids := []uint32{aliceGroup}
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, 1, uintptrOf(gids)}, {unix.SYS_SETRESGID, aliceUID, aliceUID, aliceUID}, {unix.SYS_SETRESUID, aliceUID, aliceUID, aliceUID},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				done <- opened{err: errno}
				return
			}
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: d.path("run", "socket", "ganeti-query")})
		}
		if err != nil {
			done <- opened{err: err}
			return
		}
		done <- openedOn(fd)
	}()
	o := <-done
	require.NoError(d.t, o.err)
	d.t.Cleanup(func() { _ = o.c.Close() })
	return &client{d.t, o.c}
}
