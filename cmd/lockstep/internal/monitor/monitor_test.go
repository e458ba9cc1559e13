package monitor_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/cli"
	command "lockstep/cmd/lockstep/internal/monitor"
	"lockstep/core/monitor"
	"lockstep/messages"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// node is a MonD with reports of each kind.
func node(t *testing.T) *httptest.Server {
	q := monitor.NewQueue()
	q.Listed([]*messages.JobInfo{{Id: 1}})
	cluster := monitor.NewCluster()
	cluster.Changed(monitor.View{Role: monitor.Leader, Term: 3, Leader: "n1", Applied: 9, Members: []monitor.Member{{Name: "n1", Voter: true}}})
	locks := monitor.NewLocks()
	locks.Changed(noon, nil, true)
	queue, lockReport, replication := q.Report(noon, monitor.Leader, monitor.QueueState{Drained: true}), locks.Report(noon, monitor.Leader), cluster.Report(noon)
	processes, daemon := monitor.NewProcessReport(nil, nil), (&monitor.Daemon{Version: "1.0", Started: noon.Add(-time.Hour)}).Report(noon, monitor.Usage{Memory: 30 << 20})
	data := map[string]monitor.Data{monitor.QueueName: queue.Data(), monitor.LocksName: lockReport.Data(), monitor.Replication: replication.Data(),
		monitor.Processes: processes.Data(), monitor.Lockstepd: daemon.Data(), monitor.ConfigName: monitor.NewConfigReport(nil, "torn", nil).Data(),
		monitor.CPULoad: {Full: map[string]any{"cpu_number": 2, "cpu_total": 0.5}}, monitor.DiskStats: {Full: []int{1, 2}}, monitor.XenCPULoad: {Full: map[string]string{"error": "bad\x1b[2J"}}}
	s := &monitor.Snapshot{}
	for _, c := range monitor.Collectors() {
		if d, known := data[c.Name]; known {
			s.Reports = append(s.Reports, monitor.NewReport(c, noon.Add(-3*time.Second), d))
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, given := r.BasicAuth()
		if given && (user != "reader" || password != "secret") {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(s.AppendAll(nil, given))
	}))
	t.Cleanup(server.Close)
	return server
}

func address(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// run runs the command and returns its output, the errors and the exit code.
func run(t *testing.T, jsonOutput bool, args ...string) (out, errors string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	globals := &cli.Globals{JSON: jsonOutput, Color: "never", Streams: cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Now: func() time.Time { return noon },
		LookupEnv: func(string) (string, bool) { return "", false }}}
	c := command.NewCommand(globals)
	c.SilenceErrors, c.SilenceUsage = true, true
	root := &cobra.Command{Use: "lockstep"}
	root.AddCommand(c)
	root.SetArgs(append([]string{"monitor"}, args...))
	root.SetOut(io.Discard)
	err := root.ExecuteContext(t.Context())
	if exit, is := err.(*cli.ExitError); is { //nolint:errorlint // it is not wrapped
		return stdout.String(), stderr.String(), exit.Code
	}
	if err != nil {
		return stdout.String(), err.Error(), 2
	}
	return stdout.String(), stderr.String(), 0
}

func TestTable(t *testing.T) {
	out, errors, code := run(t, false, "--node", address(node(t)))
	require.Equal(t, 1, code, "config is wrong")
	require.Empty(t, errors)
	require.Equal(t, []string{
		`Collector         Status     Age   Summary`,
		`cpu-avg-load      -          3.0s  0.50 of 2 processors`,
		`xen-cpu-avg-load  -          3.0s  bad\x1b[2J`,
		`diskstats         -          3.0s  2 entries`,
		`queue             repairing  3.0s  the queue is drained and takes no jobs; 1 queued, 0 waiting, 0 running`,
		`locks             ok         3.0s  0 exclusive, 0 shared, 0 owners wait`,
		`replication       ok         3.0s  leader, term 3, 1 nodes, applied 9 of 9`,
		`processes         ok         3.0s  0 job processes`,
		`lockstepd         ok         3.0s  version 1.0, up 1h00m, 30 MiB`,
		`config            wrong      3.0s  the configuration cannot be read`,
	}, strings.Split(strings.TrimRight(strings.ReplaceAll(out, " \n", "\n"), "\n"), "\n"))
}

func TestSelectionAndSeveralNodes(t *testing.T) {
	s := node(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	out, errors, code := run(t, false, "--node", address(s), "--node", l.Addr().String(), "locks")
	require.Equal(t, 1, code)
	require.Contains(t, out, "locks")
	require.NotContains(t, out, "queue")
	require.Contains(t, errors, l.Addr().String()+": ")
	_, errors, code = run(t, false, "--node", address(s), "drbd")
	require.Equal(t, 1, code)
	require.Contains(t, errors, `there is no active collector "drbd"`)
	_, _, code = run(t, false, "--node", address(s), "queue", "locks")
	require.Zero(t, code)
}

func TestJSON(t *testing.T) {
	out, _, code := run(t, true, "--node", address(node(t)), "queue")
	require.Zero(t, code)
	var found []struct {
		Node, Error string
		Reports     []struct {
			Name string
			Data struct{ Jobs map[string]int64 }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	require.Equal(t, "queue", found[0].Reports[0].Name)
	require.Equal(t, int64(1), found[0].Reports[0].Data.Jobs["queued"])
}

func TestLogin(t *testing.T) {
	s := node(t)
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	out, _, code := run(t, false, "--node", address(s), "--user", "reader", "--password-file", file, "replication")
	require.Zero(t, code)
	require.Contains(t, out, "leader n1")
	_, errors, code := run(t, false, "--node", address(s), "--user", "stranger", "--password-file", file, "replication")
	require.Equal(t, 1, code)
	require.Contains(t, errors, "401 Unauthorized")
	_, errors, _ = run(t, false, "--password-file", file)
	require.Contains(t, errors, "--password-file needs --user")
	_, errors, _ = run(t, false, "--user", "reader")
	require.Contains(t, errors, "--user needs --password-file")
	_, errors, _ = run(t, false, "--certificate", file)
	require.Contains(t, errors, "has no certificate")
}

func TestAnswersOfOtherServers(t *testing.T) {
	for _, body := range []string{"<html>", `{"a": 1}`, `[5]`} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		_, errors, code := run(t, false, "--node", address(s))
		require.Equal(t, 1, code)
		require.Contains(t, errors, "the answer is not one of MonD")
		s.Close()
	}
}

// A password is not sent in clear to another machine.
func TestThePasswordIsNotSentInClear(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	for _, node := range []string{"192.0.2.1", "192.0.2.1:1815", "n1.invalid", "[2001:db8::1]:1815", "localhost.invalid"} {
		_, errors, code := run(t, false, "--node", "127.0.0.1:1", "--node", node, "--user", "reader", "--password-file", file)
		require.Equal(t, 2, code)
		require.Contains(t, errors, "the password would be sent in clear to "+node)
	}
	for _, node := range []string{"127.0.0.1:1", "localhost:1", "[::1]:1"} {
		_, errors, _ := run(t, false, "--node", node, "--user", "reader", "--password-file", file)
		require.NotContains(t, errors, "in clear")
	}
}

// Texts of a node move no cursor.
func TestNamesOfCollectorsAreNeutralised(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"name":"q\u001b[2J","kind":0,"data":{}}]`))
	}))
	t.Cleanup(server.Close)
	out, errors, _ := run(t, false, "--node", address(server), "--node", "n\x1b[2J")
	require.NotContains(t, out+errors, "\x1b")
	require.Contains(t, out, `q\x1b[2J`)
}
