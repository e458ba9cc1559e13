//go:build linux

package realcluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// install copies lockstep's programs to the nodes.
func (c *cluster) install(t *testing.T) {
	bin, err := filepath.Abs("../../../bin")
	require.NoError(t, err)
	for node := range c.nodes {
		for _, program := range []string{"lockstep", "lockstepd", "lockstep-job"} {
			data, err := os.ReadFile(filepath.Join(bin, program))
			require.NoError(t, err, "make build makes the programs")
			require.NoError(t, os.WriteFile(c.nodes[node].Path("usr/local/bin", program), data, 0o755))
		}
	}
}

const swapByHand = `
set -e
gnt-cluster watcher pause 1h
while pgrep -x ganeti-watcher >/dev/null; do sleep 0.1; done
/usr/lib/ganeti/daemon-util stop ganeti-luxid
/usr/lib/ganeti/daemon-util stop ganeti-wconfd
for d in luxid wconfd; do
  mv /usr/sbin/ganeti-$d /usr/sbin/ganeti-$d.ganeti
  ln -s /usr/local/bin/lockstepd /usr/sbin/ganeti-$d
done
/usr/lib/ganeti/daemon-util start ganeti-wconfd
/usr/lib/ganeti/daemon-util start ganeti-luxid
gnt-cluster watcher continue
`

const backByHand = `
set -e
gnt-cluster watcher pause 1h
while pgrep -x ganeti-watcher >/dev/null; do sleep 0.1; done
/usr/lib/ganeti/daemon-util stop ganeti-luxid
/usr/lib/ganeti/daemon-util stop ganeti-wconfd
for d in luxid wconfd; do
  mv /usr/sbin/ganeti-$d.ganeti /usr/sbin/ganeti-$d
done
/usr/lib/ganeti/daemon-util start ganeti-wconfd
/usr/lib/ganeti/daemon-util start ganeti-luxid
gnt-cluster watcher continue
`

// TestSwap runs the operator's day with lockstep in the place of Ganeti's daemons, on the cluster that they have run before and
// run afterwards.
func TestSwap(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	stopMonitor := c.watch(t)
	defer stopMonitor()
	c.playAll(t, "testdata/before")
	before := c.findings(t)
	stopWatcher, tolerant := c.runWatcher(t)
	defer stopWatcher()
	t.Log(c.on(0, swapByHand))
	c.playAll(t, "testdata/day")
	tolerant.Store(true)
	c.playAll(t, "testdata/kills")
	tolerant.Store(false)
	t.Log(c.on(0, backByHand))
	c.playAll(t, "testdata/after")
	stopWatcher()
	stopMonitor()
	for _, f := range c.findings(t) {
		assert.Contains(t, before, f, "gnt-cluster verify has a new finding")
	}
	c.checkLogs(t)
}

// playAll runs the scripts of a directory in the order of their names.
func (c *cluster) playAll(t *testing.T, dir string) {
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txt"), func(t *testing.T) { c.play(t, script) })
	}
}

var finding = regexp.MustCompile(`^.*\b(ERROR|WARNING):.*$`)

// findings returns the findings of gnt-cluster verify, one a line.
func (c *cluster) findings(t *testing.T) (found []string) {
	out, _ := c.run(0, "gnt-cluster verify --error-codes")
	require.Contains(t, out, "Hooks Results", "the verification does not end")
	for line := range strings.Lines(out) {
		if finding.MatchString(strings.TrimSpace(line)) {
			found = append(found, strings.TrimSpace(line[strings.Index(line, "- "):]))
		}
	}
	return found
}
