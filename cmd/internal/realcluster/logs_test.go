//go:build linux

package realcluster

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// accepted are the records of level ERROR and above, and the tracebacks, that logs of a day may have.
var accepted = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`^commands\.log: .* ERROR Error during command processing`), "the day has commands that must fail"},
	{regexp.MustCompile(`^jobs\.log: .*Caught exception in (GROUP_REMOVE\(default\)|INSTANCE_CREATE\(db\.gnt\.example\)|TEST_DELAY\(1\))`), "the day has jobs that must fail"},
	{regexp.MustCompile(`(?s)^node-daemon\.log: .*Error while handling request from .*shutdown while in init`), "gnt-cluster verify connects to the node daemon without a handshake"},
	{regexp.MustCompile(`(?s)^watcher\.log: .*Can't acquire lock on state file .* File already locked`), "watchers run at the same time on purpose"},
	{regexp.MustCompile(`(?s)^(jobs|watcher)\.log: .*Instances in node group 'default' changed since locks were acquired`), "a watcher's job looks at disks while the operator adds and removes instances"},
}

var (
	// A record begins with a time. Ganeti's programs and lockstep write it differently.
	recordStart = regexp.MustCompile(`^(time="?)?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d`)
	bad         = regexp.MustCompile(`\b(ERROR|CRITICAL|FATAL|ALERT|EMERGENCY)\b|level=(error|fatal|panic)|Traceback \(most recent|^panic:|goroutine \d+ \[`)
)

// checkLogs fails the test for each bad record in the logs of the nodes that no row of the list accepts.
func (c *cluster) checkLogs(t *testing.T) {
	used, records := map[string]int{}, 0
	for _, node := range c.nodes {
		files, err := filepath.Glob(node.Path("var/log/ganeti/*.log"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			for _, record := range logRecords(t, file) {
				records++
				if !bad.MatchString(record) {
					continue
				}
				if reason := acceptedReason(filepath.Base(file) + ": " + record); reason != "" {
					used[reason]++
					continue
				}
				t.Errorf("%s: %s", filepath.Base(file), record)
			}
		}
	}
	t.Logf("%d records in the logs; accepted: %v", records, used)
}

func acceptedReason(record string) string {
	for _, a := range accepted {
		if a.pattern.MatchString(record) {
			return a.reason
		}
	}
	return ""
}

// logRecords returns the records of a log file. Lines that begin with no time belong to the record before them.
func logRecords(t *testing.T, file string) (records []string) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var record []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if recordStart.MatchString(lines.Text()) && len(record) > 0 {
			records, record = append(records, strings.Join(record, "\n")), nil
		}
		record = append(record, lines.Text())
	}
	require.NoError(t, lines.Err())
	return append(records, strings.Join(record, "\n"))
}
