package socket

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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

// directory is a directory service, which may be down.
type directory struct {
	down    atomic.Bool
	waiting sync.WaitGroup // for the questions about groups
}

func (d *directory) UserName(int) (string, bool) { return "ada", !d.down.Load() }

func (d *directory) GroupName(gid int) (string, bool) {
	d.waiting.Done()
	d.waiting.Wait() // the others are asked meanwhile
	return "g" + strconv.Itoa(gid), !d.down.Load()
}

// The names of a directory service are asked for together, after the files of the node, and used for a minute. What it does not tell is asked
// again.
func TestNamesOfADirectoryService(t *testing.T) {
	d := &directory{}
	names := &accountNames{others: d}
	p := peer{known: true, uid: 71_000, gids: []int{71_001, 0, 71_002}}
	d.down.Store(true)
	for range 2 {
		d.waiting.Add(2)
		p.identity(names)
		d.waiting.Wait()
	}
	d.down.Store(false)
	d.waiting.Add(2)
	for range 2 {
		i := p.identity(names)
		require.Equal(t, "ada", i.Name)
		require.Equal(t, []string{"g71001", "root", "g71002"}, i.Groups)
	}
}
