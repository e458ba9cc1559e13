//go:build linux

package realcluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// packagesVariable names the environment variable with the directory of the packages: lockstep.deb and lockstep-ganeti.deb, and in old/ an
// earlier version of both.
const packagesVariable = "LOCKSTEP_PACKAGES"

// TestPackage installs, upgrades and removes the packages on the master of a cluster.
func TestPackage(t *testing.T) {
	from := os.Getenv(packagesVariable)
	if from == "" {
		t.Skipf("NOT RUN: %s is not set; make packages-ganeti sets it", packagesVariable)
	}
	c := newCluster(t)
	c.copyTree(from, 0, "/packages")
	c.on(0, `test ! -d /run/systemd/system && dpkg -i /packages/old/lockstep.deb`)

	dpkg := func(args string) string { return c.on(0, "set -e\nexport DEBIAN_FRONTEND=noninteractive\n"+args) }
	says := func(out, text string) { t.Helper(); require.Contains(t, out, text) }
	const (
		swapped = `test "$(readlink /usr/sbin/ganeti-wconfd) $(readlink /usr/sbin/ganeti-luxid)" = "/usr/sbin/lockstepd /usr/sbin/lockstepd"` + "\n"
		// A daemon of each kind runs, and it is lockstep's.
		runs   = `for d in wconfd luxid; do test "$(readlink /proc/$(cat /run/ganeti/ganeti-$d.pid)/exe)" = /usr/sbin/lockstepd; done` + "\n"
		works  = `gnt-cluster verify-disks >/dev/null && gnt-node list >/dev/null` + "\n"
		stock  = `! readlink /usr/sbin/ganeti-luxid | grep lockstepd; ! dpkg-divert --list '/usr/sbin/ganeti-*' | grep .; ! dpkg --verify ganeti ganeti-3.0 | grep usr/sbin` + "\n"
		ganeti = `for d in wconfd luxid; do case $(readlink /proc/$(cat /run/ganeti/ganeti-$d.pid)/exe) in */lib/ganeti/*) ;; *) exit 1;; esac; done` + "\n"
	)
	says(dpkg("dpkg -i /packages/old/lockstep-ganeti.deb"), "start lockstep")
	dpkg(swapped + runs + works)
	says(dpkg("lockstep ganeti check"), "lockstep is in the place of Ganeti's daemons")

	says(dpkg("dpkg -i /packages/lockstep.deb /packages/lockstep-ganeti.deb"), "were not restarted")
	dpkg(swapped + works)

	// An upgrade of Ganeti. Its package stops the daemons; invoke-rc.d starts none on a machine without runlevels.
	dpkg("dpkg -i /packages/ganeti/*.deb\n/etc/init.d/ganeti start")
	dpkg(swapped + runs + works + `test "$(dpkg-divert --truename /usr/sbin/ganeti-luxid)" = /usr/sbin/ganeti-luxid.ganeti`)

	out, status := c.run(0, "dpkg -r --force-depends lockstep")
	require.NotZero(t, status, "lockstep is removed although its program runs as Ganeti's daemons")
	says(out, "is in the place of ganeti-wconfd")

	dpkg("lockstep --socket /run/ganeti/socket/ganeti-query run --detach -- sleep 300 >/tmp/job")
	out, status = c.run(0, "dpkg -r lockstep-ganeti")
	require.NotZero(t, status, "the package is removed while a job of lockstep runs")
	says(out, "have opcodes of lockstep and are not final")
	dpkg(swapped + runs)
	dpkg("lockstep --socket /run/ganeti/socket/ganeti-query cancel --kill $(cat /tmp/job)\n" +
		"lockstep --socket /run/ganeti/socket/ganeti-query wait $(cat /tmp/job) || true")

	says(dpkg("dpkg -r lockstep-ganeti"), "start Ganeti's daemons")
	dpkg(stock + ganeti + works)
	dpkg("dpkg -P lockstep\n! ls /usr/sbin/lockstepd 2>/dev/null")
	entries, err := filepath.Glob(c.nodes[0].Path("usr/sbin/*.ganeti"))
	require.NoError(t, err)
	require.Empty(t, entries)
	c.checkLogs(t)
}
