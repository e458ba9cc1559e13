package end

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pair is two ends of a connection.
func pair(t *testing.T) (ends [2]*os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		t.Cleanup(func() { _ = f.Close() })
		ends[i] = f
	}
	return ends
}

// Descriptors of a sender that breaks the rules are closed: the other end of what it has passed sees that nobody has it.
func TestTooManyDescriptors(t *testing.T) {
	conn, one, two := pair(t), pair(t), pair(t)
	rights := unix.UnixRights(int(one[0].Fd()), int(two[0].Fd()))
	require.NoError(t, unix.Sendmsg(int(conn[0].Fd()), []byte("x"), rights, nil, 0))
	n, passed, err := Receive(conn[1], make([]byte, 10))
	require.Equal(t, 1, n)
	require.Nil(t, passed)
	require.EqualError(t, err, "read a control message: 2 descriptors came at once")
	for _, p := range [][2]*os.File{one, two} {
		require.NoError(t, p[0].Close())
		require.NoError(t, unix.SetNonblock(int(p[1].Fd()), true))
		_, err := unix.Read(int(p[1].Fd()), make([]byte, 1))
		require.NoError(t, err, "a descriptor is open")
	}
}
