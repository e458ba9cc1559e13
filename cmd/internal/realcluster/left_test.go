//go:build linux

package realcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/machine"
)

// outside are patterns of the files of this machine that Ganeti's packages and daemons write.
var outside = []string{"/etc/ganeti", "/etc/ganeti/*", "/var/lib/ganeti", "/var/lib/ganeti/*", "/run/ganeti", "/run/ganeti/*", "/var/log/ganeti", "/var/log/ganeti/*",
	"/srv/ganeti", "/srv/ganeti/*", "/etc/cron.d/ganeti*", "/etc/init.d/ganeti*", "/usr/sbin/ganeti*", "/usr/sbin/gnt*", "/run/lock/ganeti*", "/usr/local/bin/lockstep*", "/etc/hosts"}

// leavesNothing checks at the end of the test, when the machines are gone, that this machine is as it was. It also tells how
// much time of the processors the cluster has cost. Call it before the machines are made; the function that it returns takes them.
func leavesNothing(t testing.TB) (made func(*machine.Machine)) {
	before := inventory()
	namespaces := map[string]bool{}
	t.Cleanup(func() {
		assert.Equal(t, before, inventory(), "files of this machine")
		links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
		for _, link := range links {
			namespace, err := os.Readlink(link)
			assert.False(t, err == nil && namespaces[namespace], "a process of the cluster is left: %s", link)
		}
		var used syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) == nil {
			t.Logf("processor time of the cluster: %.0f s, and %.0f s of the system", seconds(used.Utime), seconds(used.Stime))
		}
	})
	return func(m *machine.Machine) {
		namespace, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(m.PID()), "ns/pid"))
		assert.NoError(t, err)
		namespaces[namespace] = true
	}
}

func seconds(v syscall.Timeval) float64 { return time.Duration(v.Nano()).Seconds() }

// inventory has mode, size and time of the files outside, by name.
func inventory() map[string]string {
	found := map[string]string{}
	for _, pattern := range outside {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if info, err := os.Lstat(file); err == nil {
				found[file] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return found
}

// TestRefusal: the layer is not made on a machine that belongs to a Ganeti cluster. The test makes that machine from namespaces.
func TestRefusal(t *testing.T) {
	needLayer(t)
	m, err := machine.Start(machine.Spec{Hostname: master, Address: "192.0.2.11/24", Hosts: hosts, Layer: t.TempDir()})
	require.NoError(t, err)
	defer m.Stop()
	require.NoError(t, os.MkdirAll(m.Path("var/lib/ganeti"), 0o755))
	require.NoError(t, os.WriteFile(m.Path("var/lib/ganeti/config.data"), nil, 0o600))
	script, err := os.Open("../../../.ci/ganeti-layer")
	require.NoError(t, err)
	defer script.Close()
	command := m.Command(nil, "bash", "-s", "/tmp/layer")
	command.Stdin = script
	out, err := command.CombinedOutput()
	require.EqualError(t, err, "exit status 1", "%s", out)
	require.Contains(t, string(out), "this machine has a Ganeti cluster of its own")
	require.NoDirExists(t, m.Path("tmp/layer"))
}
