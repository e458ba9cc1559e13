package socket

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
)

// activatedEnv makes the test binary the program that systemd has started: it opens the socket at
// the path, answers one connection and ends.
const activatedEnv = "LOCKSTEP_TEST_ACTIVATED"

func TestMain(m *testing.M) {
	if path, set := os.LookupEnv(activatedEnv); set {
		if err := answerOnce(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path, set := os.LookupEnv(connectEnv); set {
		if err := connectAndWait(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func answerOnce(path string) error {
	if err := os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid())); err != nil { // as systemd does between fork and exec
		return err
	}
	a, err := Activate(map[string]string{path: "name"})
	if err != nil {
		return err
	}
	if os.Getenv("LISTEN_FDS") != "" {
		return fmt.Errorf("LISTEN_FDS is left for child processes")
	}
	l, err := a.Listen(path, "name", ownership.Attributes{Mode: 0o640, UID: -1, GID: -1})
	if err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	_, err = c.Write([]byte("hello"))
	_ = c.Close()
	_ = l.Close()
	return err
}

// systemd is the socket of the service manager, which receives messages and descriptors.
func systemd(t *testing.T) (path string, receive func() (state string, descriptors int)) {
	path = filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return path, func() (string, int) {
		state, rights := make([]byte, 1024), make([]byte, 1024)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
		n, rightsLength, _, _, err := c.ReadMsgUnix(state, rights)
		require.NoError(t, err)
		return string(state[:n]), rightsLength
	}
}

func activated(t *testing.T, path string, socket *net.UnixListener, variables ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), append(variables, activatedEnv+"="+path)...)
	command.Stderr = os.Stderr
	if socket != nil {
		file, err := socket.File()
		require.NoError(t, err)
		defer file.Close()
		command.ExtraFiles = []*os.File{file} // descriptor 3, the first of systemd
		command.Env = append(command.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=name")
	}
	require.NoError(t, command.Start())
	return command
}

func greeting(t *testing.T, c net.Conn) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
	text := make([]byte, 5)
	_, err := c.Read(text)
	require.NoError(t, err)
	return string(text)
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A client that connects while no daemon runs is served by the daemon that systemd starts.
func TestAClientThatWaitsForTheDaemonIsServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	kept, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer kept.Close()
	notify, receive := systemd(t)
	for range 2 { // a restart
		client := dial(t, path)
		daemon := activated(t, path, kept, "NOTIFY_SOCKET="+notify)
		require.Equal(t, "hello", greeting(t, client))
		state, descriptors := receive()
		require.Equal(t, "FDSTORE=1\nFDNAME=name", state)
		require.Positive(t, descriptors)
		require.NoError(t, daemon.Wait())
		info, err := os.Lstat(path)
		require.NoError(t, err, "the socket stays for the next daemon")
		require.Equal(t, os.FileMode(0o640), info.Mode().Perm())
	}
}

// The directory of the sockets was set to another one: systemd keeps no socket that has no daemon.
func TestASocketThatIsNotWantedIsForgotten(t *testing.T) {
	dir := t.TempDir()
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "old"), Net: "unix"})
	require.NoError(t, err)
	defer old.Close()
	notify, receive := systemd(t)
	path := filepath.Join(dir, "new")
	daemon := activated(t, path, old, "NOTIFY_SOCKET="+notify)
	state, _ := receive()
	require.Equal(t, "FDSTOREREMOVE=1\nFDNAME=name", state)
	state, _ = receive()
	require.Equal(t, "FDSTORE=1\nFDNAME=name", state)
	require.Equal(t, "hello", greeting(t, dial(t, path)))
	require.NoError(t, daemon.Wait())
}

// Another daemon has removed the file of the passed socket: no client could reach it.
func TestAPassedSocketWithoutItsFileIsNotUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	kept, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer kept.Close()
	require.NoError(t, os.Remove(path))
	notify, receive := systemd(t)
	daemon := activated(t, path, kept, "NOTIFY_SOCKET="+notify)
	receive()
	receive()
	require.Equal(t, "hello", greeting(t, dial(t, path)))
	require.NoError(t, daemon.Wait())
}

// Without systemd the socket goes with the daemon.
func TestWithoutSystemdTheSocketIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	a, err := Activate(map[string]string{path: "name"})
	require.NoError(t, err)
	l, err := a.Listen(path, "name", ownership.Attributes{Mode: 0o600, UID: -1, GID: -1})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
	require.NoError(t, a.Close())
}
