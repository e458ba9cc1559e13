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

// acceptance says which records of level ERROR and above, or with tracebacks, logs may have, and why.
type acceptance struct {
	pattern *regexp.Regexp
	reason  string
}

// ofGaneti are accepted only of Ganeti's own daemons.
var ofGaneti = []acceptance{
	{regexp.MustCompile(`^wconf-daemon\.log: .*ERROR (Error in the RPC HTTP reply|Can't distribute Ssconf)`), "gnt-cluster renew-crypto changes the configuration while node daemons are stopped; the distribution is repeated"},
	{regexp.MustCompile(`(?s)^node-daemon\.log: .*Error while shutting down connection: \(32, 'EPIPE'\)`), "a client of Ganeti has the answer of a node daemon and ends before it has closed its connection"},
}

// ofRefusals are accepted only for the time in which daemons of Ganeti are started beside those of lockstep.
var ofRefusals = []acceptance{
	{regexp.MustCompile(`^(luxi|wconf)-daemon\.log: .*ERROR .*\.pid: writing PID file; already locked\?`), "a daemon of Ganeti is refused beside that of lockstep"},
}

// ofKills are accepted only for the time in which daemons are killed.
var ofKills = []acceptance{
	{regexp.MustCompile(`(?s)^node-daemon\.log: .*Error while handling request from .*(EPIPE|Connection reset|ECONNRESET)`), "ganeti-wconfd is killed in the middle of a call to a node daemon"},
	{regexp.MustCompile(`^watcher\.log: .*ERROR Network error: .*, retrying \(retry attempt number \d+\)`), "a watcher's connection ends with its daemon, and it connects to the next one"},
	{regexp.MustCompile(`^watcher\.log: .*ERROR Can't start daemon 'ganeti-(luxid|wconfd)'.*(matching only on non-root pidfile|writing PID file; already locked)`), "another watcher has started the daemon meanwhile"},
	{regexp.MustCompile(`(?s)^watcher\.log: .*ERROR Can't start the master daemon.*GetLuxiClient`), "the end of such a watcher"},
	{regexp.MustCompile(`(?s)^watcher\.log: .*ERROR Connect timed out\n.*_InitTransport`), "a watcher that has lost its connection meets no daemon until another watcher has started it"},
	{regexp.MustCompile(`(?s)^jobs\.log: .*_SetupJob.*BrokenPipeError`), "the daemon is killed before it has confirmed the start of a job's process, which ends without an effect; the next daemon starts the job"},
}

// accepted are the records of level ERROR and above, and the tracebacks, that logs of a day may have.
var accepted = []acceptance{
	{regexp.MustCompile(`^commands\.log: .* ERROR Error during command processing`), "the day has commands that must fail"},
	{regexp.MustCompile(`^commands\.log: .* DEBUG Command 'gnt-cluster verify' failed`), "gnt-cluster upgrade writes down the output of gnt-cluster verify, whose findings are compared with those before the day"},
	{regexp.MustCompile(`^jobs\.log: .*Caught exception in (GROUP_REMOVE\(default\)|INSTANCE_CREATE\(db\.gnt\.example\)|TEST_DELAY\(1(\.0)?\))`), "the day has jobs that must fail"},
	{regexp.MustCompile(`(?s)^node-daemon\.log: .*Error while handling request from .*shutdown while in init`), "gnt-cluster verify connects to the node daemon without a handshake"},
	{regexp.MustCompile(`(?s)^watcher\.log: .*Can't acquire lock on state file .* File already locked`), "watchers run at the same time on purpose"},
	{regexp.MustCompile(`^watcher\.log: .*ERROR Can't read '.*\.instance-status', does not exist \(yet\)`), "the first watcher of a cluster finds no states of instances"},
	{regexp.MustCompile(`^(jobs|commands)\.log: .*ERROR Network error: .*, retrying \(retry attempt number \d+\)`), "a job process or a client that outlives a daemon connects to the next one"},
	{regexp.MustCompile(`(?s)^(jobs|watcher)\.log: .*Instances in node group 'default' changed since locks were acquired`), "a watcher's job looks at disks while the operator adds and removes instances"},
	{regexp.MustCompile(`(?s)^jobs\.log: .*Caught exception in GROUP_VERIFY_DISKS.*in DeclareLocks.*'NoneType' object has no attribute 'uuid'`), "the same, between its list of instances and their locks: Ganeti takes no absence into account there"},
	{regexp.MustCompile(`^watcher\.log: .*ERROR Can't start daemon 'ganeti-kvmd'.*Path /var/lib/ganeti/queue/job-\d+ should exist, but does not`), "a watcher starts ganeti-kvmd, whose start sets the permissions of all files of the queue, while a job is archived"},
	{regexp.MustCompile(`^watcher\.log: .*ERROR Queue drained`), "a watcher submits its job while the operator has drained the queue"},
	{regexp.MustCompile(`(?s)^watcher\.log: .*ERROR Node group '[-0-9a-f]{36}' is not known by ssconf`), "a watcher asks for the groups while the operator adds or removes one: the answer and ssconf are of different moments, with Ganeti's daemons too"},
	{regexp.MustCompile(`^watcher\.log: .*ERROR 'NoneType' object has no attribute 'uuid'`), "the end of such a job"},
}

var (
	// A record begins with a time. Ganeti's programs and lockstep write it differently.
	recordStart = regexp.MustCompile(`^(time="?)?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d`)
	bad         = regexp.MustCompile(`\b(ERROR|CRITICAL|FATAL|ALERT|EMERGENCY)\b|level=(error|fatal|panic)|Traceback \(most recent|^panic:|goroutine \d+ \[`)
)

// checkLogs fails the test for each bad record that the logs of the nodes have got since the last call and that no row of a list
// accepts.
func (c *cluster) checkLogs(t *testing.T, more ...acceptance) {
	used, count := map[string]int{}, 0
	for _, node := range c.nodes {
		files, err := filepath.Glob(node.Path("var/log/ganeti/*.log"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			records := logRecords(t, file)
			fresh := records[min(c.checked[file], len(records)):]
			c.checked[file] = len(records)
			count += len(fresh)
			for _, record := range fresh {
				if !bad.MatchString(record) {
					continue
				}
				record = filepath.Base(file) + ": " + record
				if reason := acceptedReason(record, accepted); reason != "" {
					used[reason]++
					continue
				}
				if reason := acceptedReason(record, more); reason != "" {
					used[reason]++
					t.Logf("accepted: %s", record)
					continue
				}
				t.Error(record)
			}
		}
	}
	t.Logf("%d records in the logs; accepted: %v", count, used)
}

func acceptedReason(record string, list []acceptance) string {
	for _, a := range list {
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
