//go:build linux

package realcluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
		if forkServerOff() {
			require.NoError(t, os.WriteFile(c.nodes[node].Path("etc/ganeti/lockstep.yaml"), []byte("fork-server: false\n"), 0o644))
		}
	}
}

// forkServerOff reports whether Ganeti's job processes are executed.
func forkServerOff() bool { return os.Getenv("FORKSERVER") == "off" }

// playFork plays the scripts about the fork server.
func (c *cluster) playFork(t *testing.T) {
	c.copyTree("testdata/fork", 0, "/srv/fork")
	c.copyTree("../../../edge/forkserver", 0, "/srv/forkserver")
	c.playAll(t, "testdata/fork")
}

// TestSwap runs the operator's day with lockstep in the place of Ganeti's daemons, on the cluster that they have run before and
// run afterwards.
func TestSwap(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	stopMonitor := c.watch(t)
	defer stopMonitor()
	c.playAll(t, "testdata/before")
	before := c.findings(t)
	watcher := c.runWatcher(t)
	defer watcher.stop()

	acrossSwap := c.startAcross(t)
	c.exchange(t, "swap")
	c.endAcross(t, acrossSwap)
	c.playAll(t, "testdata/day")
	c.checkLogs(t)
	require.JSONEq(t, "[]", c.on(0, "lockstep config history --unlocked --json"), "Ganeti's programs change nothing without its lock, but what docs/ganeti.md lists")
	c.playAll(t, "testdata/own")
	c.checkLogs(t, ofRefusals...)
	if !forkServerOff() {
		c.playFork(t)
		c.checkLogs(t)
	}

	endKills := watcher.tolerate()
	c.playAll(t, "testdata/kills")
	endKills()
	c.checkLogs(t, ofKills...)

	c.exchange(t, "swap --rapi")
	c.playAll(t, "testdata/rapi")
	c.checkLogs(t)

	acrossBack := c.startAcross(t)
	c.exchange(t, "back")
	c.endAcross(t, acrossBack)
	c.playAll(t, "testdata/after")
	watcher.stop()
	stopMonitor()
	for _, f := range c.findings(t) {
		assert.Contains(t, before, f, "gnt-cluster verify has a new finding")
	}
	c.checkLogs(t, ofGaneti...) // its daemons are back
}

// exchange runs lockstep ganeti swap or back on the master. The other node is no master candidate.
func (c *cluster) exchange(t *testing.T, action string) {
	started := time.Now()
	t.Log(c.on(0, "set -e; lockstep ganeti check; lockstep ganeti "+action+"; lockstep ganeti check"))
	t.Logf("%s: %.1f s", action, time.Since(started).Seconds())
}

// startAcross starts a job whose process is to outlive the daemons that have started it. Its first opcode waits for a byte
// at a socket. It takes no locks, so that watchers do not wait for it. The others change the configuration by the daemons that
// are there then.
func (c *cluster) startAcross(t *testing.T) (id string) {
	id = strings.TrimSpace(c.on(0, `
set -e
cat >/tmp/across.json <<'JSON'
[{"OP_ID": "OP_TEST_DELAY", "duration": 300, "on_master": false, "on_nodes": [], "interruptible": true},
 {"OP_ID": "OP_TAGS_SET", "kind": "nodegroup", "name": "default", "tags": ["across"]},
 {"OP_ID": "OP_TAGS_DEL", "kind": "nodegroup", "name": "default", "tags": ["across"]}]
JSON
gnt-debug submit-job /tmp/across.json >/tmp/across 2>&1 &
until id=$(gnt-job list --no-headers -o id,status,summary | awk '/running/ && /TAGS_SET/ {print $1}') && test -n "$id"; do sleep 0.1; done
until grep -q '"delay-test"' /var/lib/ganeti/queue/job-$id; do sleep 0.1; done
echo $id`))
	require.Regexp(t, `^\d+$`, id)
	return id
}

// endAcross checks that the process of the job still runs, has its first opcode end, and waits for the end of the job. All its
// opcodes must succeed.
func (c *cluster) endAcross(t *testing.T, id string) {
	require.Equal(t, "running success ['success', 'success', 'success']\n", c.on(0, `
set -e
pgrep -f "jqueue/exec.py `+id+`$" >/dev/null
printf '%s ' "$(gnt-job list --no-headers -o status `+id+`)"
python3 - <<'PYTHON'
import json, socket
job = json.load(open("/var/lib/ganeti/queue/job-`+id+`"))
path, = [entry[3][0] for entry in job["ops"][0]["log"] if entry[2] == "delay-test"]
s = socket.socket(socket.AF_UNIX)
s.connect(path)
s.send(b".")
PYTHON
gnt-job wait `+id+` >/dev/null
gnt-job list --no-headers --separator=' ' -o status,opstatus `+id))
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
