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
	parts    string // of the measurement; "": all
	grown    bool   // also with synthetic instances
}

const (
	reference = "ganeti-luxid"
	candidate = "lockstepd"
)

// settings are measured in turns. Those without one repair show what it is worth.
var settings = []setting{
	{name: reference, grown: true},
	{name: "lockstepd, executed", lockstep: true, options: "fork-server: false\n"},
	{name: candidate, lockstep: true, grown: true},
	{name: "without repairs", lockstep: true, options: "fork-server-repairs: \"\"\n", parts: "jobs latency instances"},
	{name: "without certificates", lockstep: true, options: "fork-server-repairs: lock-wait,configuration\n", parts: "jobs latency"},
	{name: "without lock-wait", lockstep: true, options: "fork-server-repairs: certificates,configuration\n", parts: "jobs latency"},
	{name: "without configuration", lockstep: true, options: "fork-server-repairs: certificates,lock-wait\n", parts: "jobs latency", grown: true},
}

// isForked reports whether the jobs' processes are forked.
func (s setting) isForked() bool {
	return s.lockstep && !strings.HasPrefix(s.options, "fork-server: false")
}

// The opcodes of the measurement.
const (
	withoutLock = `{"OP_ID": "OP_TEST_DELAY", "duration": 0.001, "on_master": false, "on_nodes": []}`
	withLock    = `{"OP_ID": "OP_TEST_DELAY", "duration": 0.001, "on_master": true, "on_nodes": []}`
	longDelay   = `{"OP_ID": "OP_TEST_DELAY", "duration": 150, "on_master": false, "on_nodes": []}`
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
	for range 2 {
		if s.isForked() {
			c.awaitForkServer()
		}
		c.client("each", 2, withoutLock)
	}
}

// awaitForkServer waits until the fork server waits for a request: it sleeps, without a connection to read the configuration. It has
// loaded the program and the configuration then.
func (c *cluster) awaitForkServer() {
	require.Eventually(c.t, func() bool {
		for _, path := range glob(c.nodes[0].Path("proc/[0-9]*/cmdline")) {
			line, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(line), "/server.py\x00") {
				continue
			}
			stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
			descriptors := glob(filepath.Join(filepath.Dir(path), "fd", "*"))
			const own = 4 // standard streams, and the socket of the daemon
			return err == nil && strings.Contains(string(stat), ") S ") && len(descriptors) == own
		}
		return false
	}, scriptMax, 50*time.Millisecond)
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

// TestMeasure measures the settings in turns, if MEASURE has the number of rounds. SIZES has the numbers of synthetic instances. PARTS
// has the parts that are measured, of jobs, latency, memory, instances; SETTINGS and WORK are regular expressions for the settings and
// the kinds of jobs. It prints a table and a line for each target, and writes both to the file that JSON names.
func TestMeasure(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("MEASURE"))
	if rounds == 0 {
		t.Skip("NOT RUN: MEASURE is not set")
	}
	parts := strings.Fields(cmp.Or(os.Getenv("PARTS"), "jobs latency memory instances"))
	meter := newMeter(t)
	c := newCluster(t)
	c.install(t)
	c.copyTree("testdata/measure", 0, "/srv/measure")
	result := &measurement{}
	now := settings[0]
	for _, size := range strings.Fields(cmp.Or(os.Getenv("SIZES"), "0 1000 5000")) {
		count, err := strconv.Atoi(size)
		require.NoError(t, err)
		if count > 0 {
			c.grow(count, &now)
		}
		for range rounds {
			for _, s := range settings {
				if !regexp.MustCompile(os.Getenv("SETTINGS")).MatchString(s.name) || count > 0 && !s.grown {
					continue
				}
				c.use(s, &now)
				m := turn{c: c, t: t, setting: s, instances: count, parts: parts, meter: meter, result: result}
				m.measure()
			}
		}
		t.Logf("%d synthetic instances:\n%s", count, result.table(count))
	}
	for _, line := range result.judge() {
		t.Log(line)
	}
	if file := os.Getenv("JSON"); file != "" {
		require.NoError(t, os.WriteFile(file, result.json(), 0o644))
	}
}

// grow adds synthetic instances to the configuration, while Ganeti's daemons are stopped.
func (c *cluster) grow(count int, now *setting) {
	if now.lockstep {
		c.on(0, "lockstep ganeti back")
		*now = settings[0]
	}
	c.on(0, fmt.Sprintf(`set -e
for d in ganeti-luxid ganeti-wconfd; do /usr/lib/ganeti/daemon-util stop $d; done
python3 /srv/measure/grow.py %d
for d in ganeti-wconfd ganeti-luxid; do /usr/lib/ganeti/daemon-util start $d; done`, count))
}

// turn is the measurement of one setting in one round.
type turn struct {
	c         *cluster
	t         *testing.T
	setting   setting
	instances int
	parts     []string
	meter     meter
	result    *measurement
}

func (m turn) note(measure string, value float64) {
	m.t.Logf("%s, %d instances: %s: %.4g", m.setting.name, m.instances, measure, value)
	m.result.note(figure{m.setting.name, m.instances, measure}, value)
}

func (m turn) has(part string) bool {
	return slices.Contains(m.parts, part) && (m.setting.parts == "" || strings.Contains(m.setting.parts, part))
}

// many measures jobs that are submitted at once.
func (m turn) many(count int, opcode string) (seconds, processor float64) {
	before := m.meter.read(m.t)
	seconds = m.c.client("many", count, opcode)[0]
	return seconds, float64((m.meter.read(m.t) - before).Microseconds()) / 1000 / float64(count)
}

// jobs is the number of jobs that are submitted at once.
func (m turn) jobs() int {
	const executed, forked = 40, 200
	switch {
	case m.setting.isForked() && m.instances == 0:
		return forked
	case m.instances == 0 || m.setting.isForked():
		return executed
	default:
		return executed / 4 // each reads the configuration for some seconds
	}
}

// singles is the number of jobs that are submitted one after the other.
func (m turn) singles() int {
	if m.instances > 0 {
		return 5
	}
	return 9
}

func (m turn) measure() {
	load, err := os.ReadFile("/proc/loadavg")
	require.NoError(m.t, err)
	runnable, err := strconv.ParseFloat(strings.Fields(string(load))[0], 64)
	require.NoError(m.t, err)
	m.note("load of the machine before", runnable)
	for _, work := range []struct{ name, opcode string }{{"without lock", withoutLock}, {"with lock", withLock}} {
		if !regexp.MustCompile(os.Getenv("WORK")).MatchString(work.name) || m.instances > 0 && work.opcode == withLock {
			continue
		}
		if m.has("jobs") {
			seconds, processor := m.many(m.jobs(), work.opcode)
			m.note(work.name+", jobs/s", float64(m.jobs())/seconds)
			m.note(work.name+", processor ms a job", processor)
		}
		if m.has("latency") {
			m.note(work.name+", latency ms", 1000*median(m.c.client("each", m.singles(), work.opcode)))
		}
	}
	if m.has("memory") && m.instances == 0 {
		m.memory()
	}
	if m.has("instances") && m.instances == 0 {
		noded := m.c.nodeDaemon()
		seconds, processor := m.many(20, addInstance)
		m.note("20 instances, s", seconds)
		m.note("20 instances, processor ms a job", processor)
		m.note("20 instances, node daemon ms a job", (m.c.nodeDaemon()-noded)/20)
		m.many(20, removeInstance)
	}
}

// memory measures 20 running jobs, and ends them.
func (m turn) memory() {
	ids := m.c.client("submit", 20, longDelay)
	m.c.on(0, "until test $(gnt-job list --no-headers -o status --running | grep -c running) -ge 20; do sleep 0.2; done")
	m.note("memory of 20 jobs, MB", m.c.memory())
	for _, id := range ids {
		m.c.run(0, fmt.Sprintf("pkill -KILL -f 'jqueue/exec.py %.0f$'", id))
	}
	m.c.on(0, "until test -z \"$(gnt-job list --no-headers -o id --running)\"; do sleep 0.2; done")
}
