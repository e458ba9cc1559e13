package socket

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/ownership"
)

// connectEnv names a socket to which this program connects, in place of its tests.
const connectEnv = "LOCKSTEP_TEST_CONNECT"

// connectAndWait connects to a socket, and waits until the connection is closed.
func connectAndWait(path string) error {
	c, err := net.Dial("unix", path)
	if err == nil {
		_, _ = c.Read(make([]byte, 1))
	}
	return err
}

// The identity of a client is what the kernel knows of its process: the user, all groups, the program.
func TestTheIdentityOfAClient(t *testing.T) {
	dir, err := os.MkdirTemp("", "identity") // users without rights reach it
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "s")
	l, err := ListenUnix(path, ownership.Attributes{Mode: 0o666, UID: -1, GID: -1})
	require.NoError(t, err)
	defer l.Close()
	identityOf := func(account *syscall.Credential) access.Identity {
		client := exec.Command("/proc/self/exe")
		client.Env = []string{connectEnv + "=" + path}
		client.SysProcAttr = &syscall.SysProcAttr{Credential: account, Pdeathsig: syscall.SIGKILL}
		require.NoError(t, client.Start())
		require.NoError(t, l.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)))
		c, err := l.Accept()
		require.NoError(t, err)
		i := peerOf(c).identity(&accountNames{})
		require.NoError(t, c.Close())
		require.NoError(t, client.Wait())
		return i
	}
	own := identityOf(nil)
	require.Equal(t, os.Geteuid(), own.UID)
	require.Contains(t, own.GIDs, os.Getegid())
	require.Equal(t, "exe", own.Program)
	if os.Geteuid() != 0 {
		t.Log("NOT RUN: clients of other users need root")
		return
	}
	require.Equal(t, "root", own.Name)
	many := make([]uint32, 500) // more than fit at first
	for i := range many {
		many[i] = uint32(70_000 + i)
	}
	for _, groups := range [][]uint32{{}, {0, 70_001}, many} {
		i := identityOf(&syscall.Credential{Uid: 61_234, Gid: 61_235, Groups: groups})
		require.Equal(t, 61_234, i.UID)
		require.Empty(t, i.Name)
		want := []int{61_235}
		for _, gid := range groups {
			want = append(want, int(gid))
		}
		require.ElementsMatch(t, want, i.GIDs)
		require.Equal(t, slices.Contains(groups, 0), slices.Contains(i.Groups, "root"), "%s", strconv.Quote(i.String()))
	}
}

// A connection that is no unix socket has no identity, and no role.
func TestAClientOfAnotherNodeHasNoIdentity(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	i := peerOf(a).identity(&accountNames{})
	require.Equal(t, access.Unknown(), i)
	require.Equal(t, access.None, access.Policy{SocketGID: access.NoUID, Ganeti: true}.Role(i))
}
