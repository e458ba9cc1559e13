//go:build linux

package realcluster

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLive asks the daemons of a cluster all that stock programs ask, with Ganeti's daemons and, after the swap, with lockstep's in their
// place: with the other node up, down and marked offline. The answers are the same once times and what nodes measure are masked.
func TestLive(t *testing.T) {
	c := newCluster(t)
	c.install(t)
	c.play(t, "testdata/live/setup.txt")
	c.write(t, "/tmp/luxi.py", "testdata/live/luxi.py")
	c.write(t, "/tmp/rapi.py", "testdata/live/rapi.py")

	want := c.takeStates(t)
	wantRapi, wantTime, busy := c.takeRapi(""), c.timeNodeList(), isBusy(t)
	c.exchange(t, "swap")
	got := c.takeStates(t)
	require.Greater(t, len(want), 200)
	for _, question := range want.questions() {
		assert.Equal(t, want[question], got[question], question)
	}
	gotTime := c.timeNodeList()
	t.Logf("gnt-node list: %v with Ganeti's daemons, %v with lockstep: factor %.2f", wantTime, gotTime, gotTime.Seconds()/wantTime.Seconds())
	if busy || isBusy(t) {
		t.Log("NOT RUN: the machine is busy, so that the two times are not compared")
	} else {
		assert.LessOrEqual(t, gotTime.Seconds(), 1.1*wantTime.Seconds())
	}

	c.exchange(t, "swap --rapi")
	gotRapi := c.takeRapi("")
	for _, question := range wantRapi.questions() {
		assert.Equal(t, wantRapi[question], gotRapi[question], "remote API: %s", question)
	}
	changed := c.takeRapi("--change")
	for _, question := range changed.questions() {
		if _, read := wantRapi[question]; !read {
			assert.Equal(t, fmt.Sprint(!strings.HasPrefix(question, "unknown")), changed[question], question)
		}
	}
	c.exchange(t, "back")
}

// daemonUtil starts and stops Ganeti's daemons.
const daemonUtil = "/usr/lib/ganeti/daemon-util"

// write copies a file of this package to the master.
func (c *cluster) write(t *testing.T, to, from string) {
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(c.nodes[0].Path(to), data, 0o644))
}

// liveAnswers are masked answers by question.
type liveAnswers map[string]string

func (a liveAnswers) questions() (all []string) {
	for question := range a {
		all = append(all, question)
	}
	slices.Sort(all)
	return all
}

// takeStates asks all questions in all states of the other node.
func (c *cluster) takeStates(t *testing.T) liveAnswers {
	all := liveAnswers{}
	c.take(t, all, "up")
	c.on(1, daemonUtil+" stop ganeti-noded")
	c.take(t, all, "down")
	c.on(1, daemonUtil+" start ganeti-noded")
	c.on(0, "gnt-node modify -f -O yes node2 >/dev/null")
	c.take(t, all, "offline")
	c.on(0, "gnt-node modify -f -O no node2 >/dev/null")
	return all
}

func (c *cluster) take(t *testing.T, into liveAnswers, state string) {
	commands := linesOf(t, "testdata/live/commands.txt")
	if state == "up" {
		commands = append(commands, linesOf(t, "testdata/live/commands-once.txt")...)
	}
	for _, command := range commands {
		out, status := c.run(0, "export PYTHONHASHSEED=0; "+command) // the order of Python's sets
		into[state+": "+command] = fmt.Sprintf("%s(exit status %d)", maskText(command, out), status)
	}
	group := strings.TrimSpace(c.on(0, "gnt-group list --no-headers -o uuid default"))
	queries := strings.ReplaceAll(strings.Join(linesOf(t, "testdata/live/queries.txt"), "\n"), "GROUP", group)
	out := c.on(0, "/usr/bin/python3 /tmp/luxi.py <<'QUERIES'\n"+queries+"\nQUERIES\n")
	for question, answer := range pairsOf(out) {
		into[state+": "+question] = answer
	}
}

// takeRapi reads all objects with Ganeti's client of the remote API.
func (c *cluster) takeRapi(option string) liveAnswers {
	return pairsOf(c.on(0, "/usr/bin/python3 /tmp/rapi.py "+option))
}

// pairsOf returns masked JSON answers by the lines before them.
func pairsOf(out string) liveAnswers {
	all := liveAnswers{}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		var answer any
		if err := json.Unmarshal([]byte(lines[i+1]), &answer); err != nil {
			answer = err.Error() + lines[i+1]
		}
		masked, _ := json.MarshalIndent(maskJSON(answer), "", " ") // it was decoded
		all[lines[i]] = measured.ReplaceAllString(string(masked), "MEASURED")
	}
	return all
}

// measured are times and sizes that nodes measure, in seconds and MiB.
var measured = regexp.MustCompile(`\b1[78]\d{8}(\.\d+)?\b`)

// maskJSON removes the descriptions of fields, whose sentences are lockstep's own, the change times of objects that the states change, and
// what nodes measure in objects.
func maskJSON(value any) any {
	switch v := value.(type) {
	case map[string]any:
		delete(v, "doc")
		for _, key := range []string{"mfree", "dfree", "mnode", "mtime", "serial_no"} {
			if _, has := v[key]; has {
				v[key] = "MASKED"
			}
		}
		for key := range v {
			v[key] = maskJSON(v[key])
		}
	case []any:
		for i := range v {
			v[i] = maskJSON(v[i])
		}
	}
	return value
}

var (
	sizes   = regexp.MustCompile(`\b\d+(\.\d+)?[MGT]\b`)
	dates   = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	serials = regexp.MustCompile(`(?m)^(.*[Ss]erial number:) \d+$`)
	blanks  = regexp.MustCompile(` +`)
	rules   = regexp.MustCompile(`-{3,}`)
	// All nodes are on this machine, whose other programs take memory that no node explains.
	unexplained = regexp.MustCompile(`(?m)^Warning: cluster has inconsistent data:\n( +- node .* is missing .*\n)+\n`)
)

// maskText removes times and measured values, and the width of columns that depends on them.
func maskText(command, out string) string {
	if strings.HasPrefix(command, "gnt-node list") {
		out = sizes.ReplaceAllString(out, "SIZE")
	}
	out = unexplained.ReplaceAllString(out, "")
	out = serials.ReplaceAllString(dates.ReplaceAllString(out, "TIME"), "$1 N")
	return rules.ReplaceAllString(blanks.ReplaceAllString(out, " "), "---")
}

func linesOf(t *testing.T, path string) (lines []string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// timeNodeList is the shortest time of gnt-node list, because other work of the machine only makes it longer.
func (c *cluster) timeNodeList() time.Duration {
	const runs = 20
	best := time.Hour
	for range runs {
		started := time.Now()
		c.on(0, "gnt-node list >/dev/null")
		best = min(best, time.Since(started))
	}
	return best
}

// isBusy reports whether more programs want a processor than this machine has, on the average of the last minute. This test is one of them.
func isBusy(t *testing.T) bool {
	data, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	var load float64
	_, err = fmt.Sscan(string(data), &load)
	require.NoError(t, err)
	return load > float64(runtime.NumCPU())+1
}
