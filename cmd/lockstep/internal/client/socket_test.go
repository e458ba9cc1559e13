package client

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/places"
	"lockstep/edge/luxiclient"
)

func TestSocketPath(t *testing.T) {
	t.Chdir(t.TempDir())
	me := os.Geteuid()
	none := func(string) (string, bool) { return "", false }
	fromEnv := func(name string) (string, bool) { return "/env", name == "LOCKSTEP_SOCKET" }
	expect := func(want, flag string, lookup func(string) (string, bool)) {
		t.Helper()
		if got, _ := (Choice{Socket: flag, Environment: places.Environment{UID: me, Lookup: lookup}}).Find(); got != want {
			t.Errorf("socket %s, want %s", got, want)
		}
	}
	expect("/flag", "/flag", fromEnv)
	expect("/env", "", fromEnv)
	expect(SystemSocket, "", none)

	// A plain file is not a socket.
	if err := os.MkdirAll(filepath.Dir(LocalSocket), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(LocalSocket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(SystemSocket, "", none)
	if err := os.Remove(LocalSocket); err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("unix", LocalSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	expect(LocalSocket, "", none)
	expect("/env", "", fromEnv)
	if passedOver(LocalSocket) {
		t.Error("our own socket was passed over")
	}

	// A socket of another user is ignored, and the error says so.
	if os.Geteuid() != 0 {
		t.Log("the rest needs root")
		return
	}
	if err := os.Chown(LocalSocket, 12345, 12345); err != nil {
		t.Skip(err)
	}
	expect(SystemSocket, "", none)
	text := Explain(&luxiclient.NoDaemonError{Path: SystemSocket, Err: syscall.ENOENT})
	if !strings.Contains(text, LocalSocket+" was ignored") {
		t.Error(text)
	}
}

// The user's daemon has precedence over the system's, if its socket is there; a flag chooses.
func TestTheDaemonOfTheUser(t *testing.T) {
	t.Chdir(t.TempDir())
	state, runtime := t.TempDir(), t.TempDir()
	variables := map[string]string{"XDG_STATE_HOME": state, "XDG_RUNTIME_DIR": runtime}
	uid := os.Geteuid()
	find := func(daemon Whose) (string, Whose) {
		return Choice{Daemon: daemon, Environment: places.Environment{UID: uid, Lookup: func(name string) (string, bool) { value, set := variables[name]; return value, set }}}.Find()
	}
	expect := func(daemon Whose, wantPath string, want Whose) {
		t.Helper()
		path, whose := find(daemon)
		if path != wantPath || whose != want {
			t.Errorf("%s of %q, want %s of %q", path, whose, wantPath, want)
		}
	}
	inRuntime, beside := filepath.Join(runtime, "lockstep", socketName), filepath.Join(state, "lockstep", "run", "socket", socketName)
	expect(Unnamed, SystemSocket, Systems)
	expect(Users, inRuntime, Users)
	if uid == 0 {
		uid = 4242 // a user without root; the directories belong to root, so the runtime directory is not used
		inRuntime = beside
	}
	for _, path := range []string{beside, inRuntime} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err == nil {
			continue
		}
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		expect(Unnamed, path, Users)
		expect(Users, path, Users)
		expect(Systems, SystemSocket, Systems)
	}
}

func TestExplain(t *testing.T) {
	denied := &luxiclient.NoDaemonError{Path: "/s", Err: syscall.EACCES}
	const alone = "you are not allowed to use the daemon's socket /s:\nonly root has access. Run this as root, or start lockstepd with --socket-group GROUP:\nmembers of that group may use the socket."
	tests := []struct {
		err  error
		want string
	}{
		{errors.New("plain"), "plain"},
		{denied, alone},
		{fmt.Errorf("job 1 continues: %w", denied), "job 1 continues: " + alone},
		{fmt.Errorf("said (%w) already", denied), "said (no daemon answers at /s: permission denied) already"},
	}
	for _, test := range tests {
		if got := Explain(test.err); got != test.want {
			t.Errorf("\n got %s\nwant %s", got, test.want)
		}
	}
}

// The queue of the current directory has no daemon: the error names both sockets, and the command
// that starts the daemon.
func TestNoDaemonForTheQueueHere(t *testing.T) {
	t.Chdir(t.TempDir())
	none := &luxiclient.NoDaemonError{Path: SystemSocket, Err: syscall.ENOENT}
	if text := Explain(none); strings.Contains(text, "./var") {
		t.Errorf("there is no queue here, yet: %s", text)
	}
	if err := os.MkdirAll(localQueue, 0o700); err != nil {
		t.Fatal(err)
	}
	text := Explain(none)
	for _, part := range []string{SystemSocket, LocalSocket, `The queue in ./var has no daemon: "make run" starts one.`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
}

// The error names the group to join, but never the group root.
func TestTheGroupToJoin(t *testing.T) {
	if got := (barrier{"root", "lockstep", "ada"}).text(); got !=
		"only root and the members of the group lockstep have access. To join, run as root\n\"usermod --append --groups lockstep ada\", and log in again." {
		t.Error(got)
	}
	if os.Geteuid() != 0 {
		t.Skip("the rest needs root, who can give files away")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	if err := os.WriteFile(path, nil, 0o660); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		gid  int
		mode os.FileMode
		want string
	}{{54321, 0o660, "54321"}, {54321, 0o600, ""}, {0, 0o660, ""}} {
		if err := errors.Join(os.Chown(path, 0, test.gid), os.Chmod(path, test.mode)); err != nil {
			t.Skip(err)
		}
		if got := inFrontOf(path); got.group != test.want || got.owner != "root" {
			t.Errorf("%+v: %+v", test, got)
		}
	}
	// A directory that cannot be searched hides the socket.
	if err := errors.Join(os.Chown(dir, 0, 54322), os.Chmod(dir, 0o750)); err != nil {
		t.Skip(err)
	}
	if got := inFrontOf(filepath.Join(dir, "socket", "ganeti-query")); got.group != "54322" {
		t.Errorf("%+v", got)
	}
}

// On a Ganeti cluster with lockstep in the place of ganeti-luxid that is the daemon, unless another one of lockstep is installed.
func TestTheSocketInThePlaceOfGanetis(t *testing.T) {
	dir := t.TempDir()
	system, program := filepath.Join(dir, "system"), filepath.Join(dir, "ganeti-luxid")
	require.False(t, servesGanetis(system, program), "no Ganeti")
	require.NoError(t, os.Symlink("../lib/ganeti/default/usr/sbin/ganeti-luxid", program))
	require.False(t, servesGanetis(system, program), "Ganeti's own daemon")
	require.NoError(t, os.Remove(program))
	require.NoError(t, os.Symlink("/usr/local/bin/lockstepd", program))
	require.True(t, servesGanetis(system, program))
	require.NoError(t, os.WriteFile(system, nil, 0o600))
	require.False(t, servesGanetis(system, program), "an installed daemon")
}
