//go:build linux

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}

func newMachine(t *testing.T, spec Spec) *Machine {
	m, err := Start(spec)
	if err != nil {
		t.Skipf("NOT RUN: this machine cannot make one: %v", err)
	}
	t.Cleanup(m.Stop)
	return m
}

func output(t *testing.T, m *Machine, name string, args ...string) string {
	out, err := m.Command(nil, name, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// A machine has a name, addresses, files and processes of its own, and none of them is there after it.
func TestMachine(t *testing.T) {
	layer := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(layer, "srv"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(layer, "srv", "from-layer"), []byte("layer\n"), 0o644))
	const hosts = "192.0.2.1 one.example\n192.0.2.2 two.example\n"
	one := newMachine(t, Spec{Hostname: "one.example", Address: "192.0.2.1/24", Hosts: hosts, Layer: layer})
	two := newMachine(t, Spec{Hostname: "two.example", Address: "192.0.2.2/24", Hosts: hosts, Layer: layer})
	require.NoError(t, one.Connect(two))

	require.Equal(t, "one.example", output(t, one, "hostname"))
	require.Equal(t, "layer", output(t, one, "cat", "/srv/from-layer"))
	require.Equal(t, hosts, output(t, two, "cat", "/etc/hosts")+"\n")
	require.Contains(t, output(t, two, "ip", "-brief", "addr"), "192.0.2.2/24")

	output(t, one, "sh", "-c", "echo one >/srv/written")
	require.NoFileExists(t, "/srv/written")
	require.NoFileExists(t, two.Path("srv/written"))
	require.FileExists(t, one.Path("srv/written"))

	sleeper := one.Command(nil, "sleep", "1000")
	require.NoError(t, sleeper.Start())
	one.Stop()
	require.Error(t, sleeper.Wait(), "the process ends with its machine")
	_, err := exec.Command("sh", "-c", "ip link | grep "+Bridge).CombinedOutput()
	require.Error(t, err, "no device of a machine is on this one")
}

// Start says which step failed.
func TestMachineThatCannotStart(t *testing.T) {
	newMachine(t, Spec{Hostname: "m", Address: "192.0.2.1/24", Layer: t.TempDir()})
	_, err := Start(Spec{Hostname: "m", Address: "192.0.2.1/24", Layer: "/no/such/layer"})
	require.ErrorContains(t, err, "copy /no/such/layer")
	_, err = Start(Spec{Hostname: "m", Address: "no address", Layer: t.TempDir()})
	require.ErrorContains(t, err, "addr add no address")
}
