//go:build linux

package realcluster

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// setting is what runs the jobs in a part of the measurement.
type setting struct {
	name     string
	lockstep bool
	options  string // /etc/ganeti/lockstep.yaml
}

var settings = []setting{
	{name: "ganeti-luxid"},
	{"lockstepd, executed", true, "fork-server: false\n"},
	{"lockstepd, forked", true, "fork-server-repairs: \"\"\n"},
	{"lockstepd, forked, repairs", true, "fork-server-repairs: certificates,lock-wait\n"},
	{"lockstepd, forked, repairs, configuration", true, ""},
}

// The opcodes of the measurement.
const (
	withoutLock = `{"OP_ID": "OP_TEST_DELAY", "duration": 0.001, "on_master": false, "on_nodes": []}`
	withLock    = `{"OP_ID": "OP_TEST_DELAY", "duration": 0.001, "on_master": true, "on_nodes": []}`
	longDelay   = `{"OP_ID": "OP_TEST_DELAY", "duration": 60, "on_master": false, "on_nodes": []}`
	addInstance = `{"OP_ID": "OP_INSTANCE_CREATE", "instance_name": "m%d.gnt.example", "mode": "create", "disk_template": "diskless", "disks": [],
 "nics": [], "pnode": "node1.gnt.example", "os_type": "shell+default", "no_install": true, "start": false, "name_check": false, "ip_check": false,
 "hypervisor": "fake", "wait_for_sync": true, "hvparams": {}, "beparams": {}, "osparams": {}, "file_driver": "loop"}`
	removeInstance = `{"OP_ID": "OP_INSTANCE_REMOVE", "instance_name": "m%d.gnt.example", "ignore_failures": false, "shutdown_timeout": 0}`
)

// meter counts the processor time of this process, of all that it starts, and so of the cluster.
type meter struct {
	path string
	unit time.Duration
}

// newMeter puts this process into a control group.
func newMeter(t *testing.T) meter {
	for _, m := range []struct {
		root, file string
		unit       time.Duration
	}{{"/sys/fs/cgroup/cpuacct", "cpuacct.usage", time.Nanosecond}, {"/sys/fs/cgroup", "cpu.stat", time.Microsecond}} {
		dir := filepath.Join(m.root, fmt.Sprintf("lockstep-measure-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			_ = os.WriteFile(filepath.Join(m.root, "cgroup.procs"), []byte("0"), 0)
			_ = os.Remove(dir)
		})
		path := filepath.Join(dir, m.file)
		if _, err := os.Stat(path); err == nil && os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0) == nil {
			return meter{path, m.unit}
		}
	}
	t.Skip("NOT RUN: no control group counts processor time here")
	return meter{}
}

func (m meter) read(t *testing.T) time.Duration {
	text, err := os.ReadFile(m.path)
	require.NoError(t, err)
	n, err := strconv.ParseInt(strings.Fields(strings.TrimPrefix(string(text), "usage_usec "))[0], 10, 64)
	require.NoError(t, err)
	return time.Duration(n) * m.unit
}

// use makes a setting run the cluster's jobs.
func (c *cluster) use(s setting, now *setting) {
	if s.lockstep {
		require.NoError(c.t, os.WriteFile(c.nodes[0].Path("etc/ganeti/lockstep.yaml"), []byte(s.options), 0o644))
	}
	switch {
	case s.lockstep && now.lockstep:
		c.on(0, "set -e; for d in ganeti-luxid ganeti-wconfd; do /usr/lib/ganeti/daemon-util stop $d; done; for d in ganeti-wconfd ganeti-luxid; do /usr/lib/ganeti/daemon-util start $d; done")
	case s.lockstep:
		c.on(0, "lockstep ganeti swap")
	case now.lockstep:
		c.on(0, "lockstep ganeti back")
	}
	*now = s
	c.on(0, "until gnt-cluster version >/dev/null 2>&1; do sleep 0.2; done")
	c.client("each", 2, withoutLock) // the fork server is ready
	time.Sleep(2 * time.Second)      // and has read the configuration
	c.client("each", 2, withoutLock)
}

// client runs testdata/measure/client.py and returns the numbers that it prints.
func (c *cluster) client(mode string, count int, opcode string) (numbers []float64) {
	out := c.on(0, fmt.Sprintf("python3 /srv/measure/client.py %s %d '%s'", mode, count, opcode))
	for _, word := range strings.Fields(out) {
		n, err := strconv.ParseFloat(word, 64)
		require.NoError(c.t, err, out)
		numbers = append(numbers, n)
	}
	return numbers
}

func median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}

// jobProcess recognises the command line of a job's process, and of the fork server.
var jobProcess = regexp.MustCompile(`jqueue/exec\.py`)

// memory is the memory of all job processes and of the fork server in megabytes; shared pages count once.
func (c *cluster) memory() (megabytes float64) {
	for _, path := range glob(c.nodes[0].Path("proc/[0-9]*/cmdline")) {
		line, err := os.ReadFile(path)
		if err != nil || !jobProcess.Match(line) {
			continue
		}
		rollup, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "smaps_rollup"))
		if _, rest, found := strings.Cut(string(rollup), "\nPss:"); found {
			kilobytes, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			megabytes += kilobytes / 1024
		}
	}
	return megabytes
}

// nodeDaemon is the processor time that the node daemon and its children have used, in milliseconds.
func (c *cluster) nodeDaemon() (used float64) {
	for _, path := range glob(c.nodes[0].Path("proc/[0-9]*/cmdline")) {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), "ganeti-noded") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[1] != "1" {
			continue // a child that lives is counted at its end
		}
		for _, field := range fields[11:15] {
			ticks, _ := strconv.ParseFloat(field, 64)
			used += 10 * ticks
		}
	}
	return used
}

func glob(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		panic(err)
	}
	return found
}

// TestMeasure measures the settings in turns, if MEASURE has the number of rounds. INSTANCES is the number of synthetic instances.
// PARTS has the parts that are measured, of jobs, latency, memory, instances; SETTINGS and WORK are regular expressions for the
// settings and the kinds of jobs.
func TestMeasure(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("MEASURE"))
	if rounds == 0 {
		t.Skip("NOT RUN: MEASURE is not set")
	}
	parts := cmp.Or(os.Getenv("PARTS"), "jobs latency memory instances")
	meter := newMeter(t)
	c := newCluster(t)
	c.install(t)
	c.copyTree("testdata/measure", 0, "/srv/measure")
	if os.Getenv("INSTANCES") != "" {
		c.on(0, "set -e; for d in ganeti-luxid ganeti-wconfd; do /usr/lib/ganeti/daemon-util stop $d; done; python3 /srv/measure/grow.py "+os.Getenv("INSTANCES")+
			"; for d in ganeti-wconfd ganeti-luxid; do /usr/lib/ganeti/daemon-util start $d; done")
	}
	figures := map[string][]float64{} // by setting and measure
	var names []string
	note := func(s setting, what string, value float64) {
		key := s.name + ": " + what
		if figures[key] == nil {
			names = append(names, key)
		}
		figures[key] = append(figures[key], value)
		t.Logf("%s: %.4g", key, value)
	}
	now := settings[0]
	for range rounds {
		for _, s := range settings {
			if want := os.Getenv("SETTINGS"); want != "" && !regexp.MustCompile(want).MatchString(s.name) {
				continue
			}
			c.use(s, &now)
			c.measure(t, s, parts, meter, note)
		}
	}
	for _, name := range names {
		t.Logf("MEDIAN %s: %.4g (%.4g to %.4g)", name, median(figures[name]), slices.Min(figures[name]), slices.Max(figures[name]))
	}
}

// many measures jobs that are submitted at once.
func (c *cluster) many(t *testing.T, meter meter, count int, opcode string) (seconds, processor float64) {
	before := meter.read(t)
	seconds = c.client("many", count, opcode)[0]
	return seconds, float64((meter.read(t) - before).Microseconds()) / 1000 / float64(count)
}

func (c *cluster) measure(t *testing.T, s setting, parts string, meter meter, note func(setting, string, float64)) {
	count := 40
	if strings.Contains(s.name, "forked") {
		count = 200
	}
	for _, work := range []struct{ name, opcode string }{{"without lock", withoutLock}, {"with lock", withLock}} {
		if !regexp.MustCompile(os.Getenv("WORK")).MatchString(work.name) {
			continue
		}
		if strings.Contains(parts, "jobs") {
			seconds, processor := c.many(t, meter, count, work.opcode)
			note(s, work.name+", jobs/s", float64(count)/seconds)
			note(s, work.name+", processor ms a job", processor)
		}
		if strings.Contains(parts, "latency") {
			note(s, work.name+", latency ms", 1000*median(c.client("each", 9, work.opcode)))
		}
	}
	if strings.Contains(parts, "memory") {
		ids := c.client("submit", 20, longDelay)
		c.on(0, "until test $(gnt-job list --no-headers -o status --running | grep -c running) -ge 20; do sleep 0.2; done")
		note(s, "memory of 20 jobs, MB", c.memory())
		for _, id := range ids {
			c.run(0, fmt.Sprintf("pkill -KILL -f 'jqueue/exec.py %.0f$'", id))
		}
		c.on(0, "until test -z \"$(gnt-job list --no-headers -o id --running)\"; do sleep 0.2; done")
	}
	if strings.Contains(parts, "instances") {
		noded := c.nodeDaemon()
		seconds, processor := c.many(t, meter, 20, addInstance)
		note(s, "20 instances, s", seconds)
		note(s, "20 instances, processor ms a job", processor)
		note(s, "20 instances, node daemon ms a job", (c.nodeDaemon()-noded)/20)
		c.many(t, meter, 20, removeInstance)
	}
}
