package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	walkCalls = flag.Int("walk.calls", 10, "how often TestNobodyStandsInAnothersWay makes each of the user's calls without and with an attack")
	walkDoors = flag.Int("walk.doors", 10, "how many doors of a listener TestNobodyStandsInAnothersWay attacks at once")
)

// The two attackers: another user, who is in the group of the queue's socket, and another process of the same user.
const (
	stranger = iota
	sameUser
)

const (
	strangerUID = 65534
	// walkGrowthMax is how much more memory than before all attacks the daemon may take, in bytes.
	walkGrowthMax = 128 << 20
	// walkDelayMax is how much longer than without an attack a call may take, if that is more than twice as long.
	walkDelayMax = 20 * time.Millisecond
	// walkTolerance is how many times longer, and how much more memory, it may be by default: the machine is busy with other tests, and
	// the runtime keeps some of the memory that it has collected. With WALK there is none.
	walkTolerance, walkGrowthTolerance = 10, 5
)

// connectionsOf is how many connections an attack opens. The slow writers are more than the remote API admits.
var connectionsOf = map[string]int{slowReader: 64, slowWriter: 1100, flood: 24, largest: 4}

// walk is a walk through all doors.
type walk struct {
	*remote
	address, mond, nodes, confd string // of the listeners
	cookie, rule                string
	logged                      []int64 // jobs with a log of a megabyte
	kept                        int64   // a job with keptBytes of kept output
	attackers                   [2]*attacker
	tolerance                   [2]int  // of delays, and of memory
	atFirst                     int     // the daemon's memory before all attacks
	mine                        []int64 // jobs that the user has submitted and not yet removed
}

// attacker is a program that performs attacks.
type attacker struct {
	orders  io.WriteCloser
	reports *bufio.Scanner
}

// A user submits and lists while one other client comes to each door: it reads or writes slowly, floods, or asks for as much as
// one request may. The user's median call at most doubles, or takes 20 ms more, and the daemon takes at most 128 MB more.
//
// By default ten doors of a listener are attacked at once; a flood reaches 24 of them, and the largest requests reach four. WALK=1 attacks each door alone, with 200 calls, and
// WALK_LISTENER=LUXI only those of a listener, WALK_DOOR=Query only those with it in their names, WALK_ATTACK=flood only with one attack.
func TestNobodyStandsInAnothersWay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: it needs root, who can be another user")
	}
	w := newWalk(t)
	atOnce, samples := *walkDoors, *walkCalls
	w.tolerance, w.atFirst = [2]int{walkTolerance, walkGrowthTolerance}, w.memory()
	if text := os.Getenv("WALK"); text != "" {
		atOnce, _ = strconv.Atoi(text)
		samples, w.tolerance = 200, [2]int{1, 1}
	}
	all := w.doors()
	w.requireAllListeners(all)
	all = slices.DeleteFunc(all, func(d door) bool { return !strings.Contains(d.name, os.Getenv("WALK_DOOR")) })
	var rows []string
	for _, kind := range attacks {
		if !strings.Contains(kind, os.Getenv("WALK_ATTACK")) {
			continue
		}
		for _, doors := range groupsOf(all, atOnce) {
			if strings.HasPrefix(doors[0].listener, os.Getenv("WALK_LISTENER")) {
				rows = append(rows, w.attack(kind, doors, samples))
				t.Log(rows[len(rows)-1]) // a walk by each door takes hours
			}
		}
	}
	t.Logf("\n| Listener | Doors | Attack | Median before | Median during | Memory |\n|---|---|---|---|---|---|\n%s", strings.Join(rows, "\n"))
}

// groupsOf splits doors into groups of n with one listener.
func groupsOf(doors []door, n int) (groups [][]door) {
	for len(doors) > 0 {
		end := 1
		for end < min(n, len(doors)) && doors[end].listener == doors[0].listener {
			end++
		}
		groups, doors = append(groups, doors[:end]), doors[end:]
	}
	return groups
}

// keptBytes is the size of kept output, which no socket's buffer holds.
const keptBytes = 20_000_000

func newWalk(t *testing.T) *walk {
	w := &walk{}
	nodes := newClusterAt(t, loopback(t, 1), func(_ int, m *member) {
		host, _, err := net.SplitHostPort(m.address)
		require.NoError(t, err)
		w.nodes, w.address, w.mond, w.confd = m.address, host+":5080", host+":1815", host+":1814"
		m.flags = []string{"--rapi-address", w.address, "--mond-address", w.mond, "--confd-address", w.confd, "--socket-group", "0", "--max-connections", "1000"}
	})
	d := nodes.nodes[0].daemon
	require.NoError(t, os.Chmod(d.root, 0o755))
	require.NoError(t, os.MkdirAll(d.path("lib", "rapi"), 0o750))
	require.NoError(t, os.WriteFile(d.path("lib", "rapi", "users"), []byte("peer secret write\nmallory secret read\n"), 0o600))
	w.remote = &remote{d, "http://" + w.address, &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}}

	c := d.dial()
	for range 20 {
		w.logged = append(w.logged, c.submit(command("sh", "-c", "head -c 700000 /dev/zero | tr '\\0' x | fold -w 1000")))
	}
	w.kept = c.submit(command("head", "-c", strconv.Itoa(keptBytes), "/dev/zero").with("keep_output", true))
	for _, id := range append(w.logged, w.kept) {
		require.Equal(t, "success", c.await(id).Status)
	}
	c.call("ReplaceFilter", &w.rule, nil, 0, []any{[]any{"jobid", []any{">", "id", "watermark"}}}, "PAUSE", []any{})
	jobs := make([][]op, 2000)
	for i := range jobs {
		jobs[i] = []op{{"OP_ID": "OP_TEST_DELAY", "duration": 1, "comment": strings.Repeat("a", 10_000)}}
	}
	c.call("SubmitManyJobs", nil, jobs)

	jar := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := jar.PostForm(w.url+"/ui/login", url.Values{"name": {"mallory"}, "password": {"secret"}})
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 303, response.StatusCode, string(body))
	require.Len(t, response.Cookies(), 1)
	w.cookie = response.Cookies()[0].Name + "=" + response.Cookies()[0].Value

	w.attackers[stranger] = w.startAttacker(&syscall.Credential{Uid: strangerUID, Gid: 0})
	w.attackers[sameUser] = w.startAttacker(nil)
	return w
}

func (w *walk) startAttacker(as *syscall.Credential) *attacker {
	program := w.path("attacker")
	if _, err := os.Stat(program); err != nil { // the test's own program is in a directory that another user cannot read
		out, err := exec.Command("cp", os.Args[0], program).CombinedOutput()
		require.NoError(w.t, err, "%s", out)
	}
	cmd := exec.Command(program)
	cmd.Dir = w.root
	cmd.Env = append(os.Environ(), childEnv+"="+attackStep)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	require.NoError(w.t, err)
	reports, err := cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &attacker{orders, bufio.NewScanner(reports)}
}

func (a *attacker) order(t testing.TB, order any) string {
	line, err := json.Marshal(order)
	require.NoError(t, err)
	_, err = a.orders.Write(append(line, '\n'))
	require.NoError(t, err)
	require.True(t, a.reports.Scan(), "the attacker has ended")
	return a.reports.Text()
}

// attack measures the user's calls without and with an attack, and returns a row of the table. A measurement that another
// program on this machine may have spoiled is made again, twice at most: an attack that works does so each time.
func (w *walk) attack(kind string, doors []door, samples int) (row string) {
	w.t.Helper()
	for try := 1; ; try++ {
		before := w.measure(samples)
		a, order := w.attackers[doors[0].as], attack{Kind: kind, Connections: connectionsOf[kind]}
		for _, d := range doors {
			order.Targets = append(order.Targets, d.request(kind))
		}
		require.Equal(w.t, "up", a.order(w.t, order))
		during := w.measure(samples)
		growth := w.memory() - w.atFirst
		a.order(w.t, "end")
		w.tidy()
		names := doors[0].name
		if len(doors) > 1 {
			names += fmt.Sprintf(" and %d more", len(doors)-1)
		}
		slower := worst(before, during, w.tolerance[0])
		row = fmt.Sprintf("| %s | %s | %s | %s | %s | %+d MB |", doors[0].listener, names, kind, before, during, growth>>20)
		if growth <= w.tolerance[1]*walkGrowthMax && slower <= 0 {
			return row
		}
		if try == 3 {
			w.t.Errorf("an attack works: %s", row)
			return row
		}
		w.t.Logf("again: %s", row)
	}
}

// medians are those of the user's calls: submission, page and list of jobs over the socket, submission and page over the remote API.
type medians [5]time.Duration

func (m medians) String() string {
	var texts []string
	for _, d := range m {
		texts = append(texts, fmt.Sprintf("%.1f", d.Seconds()*1000))
	}
	return strings.Join(texts, " ") + " ms"
}

// worst is by how much the worst median is beyond what is allowed; not above 0: none is.
func worst(before, during medians, tolerance int) time.Duration {
	over := time.Duration(-1 << 62)
	for i := range before {
		over = max(over, during[i]-time.Duration(tolerance)*max(2*before[i], before[i]+walkDelayMax))
	}
	return over
}

// measure makes the user's calls, each over a connection of its own as the command line does.
func (w *walk) measure(samples int) (m medians) {
	w.t.Helper()
	var taken [len(medians{})][]time.Duration
	timed := func(i int, call func()) {
		start := time.Now()
		call()
		taken[i] = append(taken[i], time.Since(start))
	}
	for range samples {
		timed(0, func() {
			c := w.dial()
			w.mine = append(w.mine, c.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 1}))
			_ = c.Close()
		})
		timed(1, func() {
			c := w.dial()
			c.call("LockstepPageJobs", nil, map[string]any{"limit": 20})
			_ = c.Close()
		})
		timed(2, func() {
			c := w.dial()
			c.call("LockstepListJobs", nil, map[string]any{"limit": 20})
			_ = c.Close()
		})
		timed(3, func() {
			var jobs struct{ IDs []int64 }
			require.Equal(w.t, http.StatusCreated, w.do(http.MethodPost, "/3/jobs", `{"ops":[{"OP_ID":"OP_TEST_DELAY","duration":1}]}`, &jobs))
			w.mine = append(w.mine, jobs.IDs...)
		})
		timed(4, func() { require.Equal(w.t, http.StatusOK, w.do(http.MethodGet, "/3/jobs?limit=20", "", nil)) })
	}
	for i := range m {
		slices.Sort(taken[i])
		m[i] = taken[i][len(taken[i])/2]
	}
	return m
}

// tidy removes the user's jobs, so that the queue stays as long as it is. Several connections at a time share the syncs.
func (w *walk) tidy() {
	var removing sync.WaitGroup
	for some := range slices.Chunk(w.mine, 5) {
		removing.Go(func() {
			c := w.dial()
			defer c.Close()
			for _, id := range some {
				c.call("CancelJob", nil, id)
				c.call("ArchiveJob", nil, id)
			}
		})
	}
	removing.Wait()
	w.mine = nil
}

// memory is the daemon's resident memory, in bytes.
func (w *walk) memory() int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
	require.NoError(w.t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(w.t, err)
	return kilobytes << 10
}
