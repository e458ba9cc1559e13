package socket

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
)

// underUmask calls do. The tests of this package run one after the other, so the umask of the process is this test's.
func underUmask(umask int, do func()) {
	old := syscall.Umask(umask)
	defer syscall.Umask(old)
	do()
}

// A socket has its user, group and mode under any umask.
func TestOwnerOfASocket(t *testing.T) {
	accounts := [][2]int{{-1, -1}}
	if os.Geteuid() == 0 {
		accounts = append(accounts, [2]int{4711, 4712}, [2]int{-1, 4712})
	} else {
		t.Log("NOT RUN: sockets of another user need root")
	}
	for _, umask := range []int{0, 0o77} {
		for _, account := range accounts {
			for _, class := range []ownership.Class{ownership.LuxiSocket, ownership.WconfSocket, ownership.AdminSocket} {
				want := ownership.Attributes{Mode: ownership.Rules{}.Of(class).Mode, UID: account[0], GID: account[1]}
				path := filepath.Join(t.TempDir(), "s")
				underUmask(umask, func() {
					l, err := ListenUnix(path, want)
					require.NoError(t, err)
					defer l.Close()
					info, err := os.Lstat(path)
					require.NoError(t, err)
					stat := info.Sys().(*syscall.Stat_t)
					if want.UID < 0 {
						want.UID = os.Geteuid()
					}
					if want.GID < 0 {
						want.GID = os.Getegid()
					}
					require.Equal(t, want, ownership.Attributes{Mode: stat.Mode & 0o7777, UID: int(stat.Uid), GID: int(stat.Gid)})
				})
			}
		}
	}
}

// Between bind and the change of its owner, a socket admits the user of the daemon only.
func TestANewSocketAdmitsItsUserOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	underUmask(0, func() {
		config := net.ListenConfig{Control: restrict}
		l, err := config.Listen(context.Background(), "unix", path)
		require.NoError(t, err)
		defer l.Close()
		info, err := os.Lstat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm())
	})
}
