package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coreconfd "lockstep/core/confd"
	"lockstep/core/config/model"
	"lockstep/edge/confd"
)

const confdKey = "0123456789012345678901234567890123456789\n"

// newNodeBench is a node with the directories and the key that Ganeti's programs make. It need not be the master.
func newNodeBench(t *testing.T) *faceBench {
	b := newFaceBench(t)
	b.write("var/lib/ganeti/ssconf_master_node", "node2\n")
	b.write("var/lib/ganeti/ssconf_master_candidates_ips", "127.0.0.1\n")
	b.write("var/lib/ganeti/hmac.key", confdKey)
	for _, dir := range []string{"run/ganeti", "var/log/ganeti"} {
		require.NoError(t, os.MkdirAll(b.path(dir), 0o750))
	}
	t.Cleanup(func() {
		b.end(confdName, syscall.SIGKILL)
		b.end(mondName, syscall.SIGKILL)
	})
	return b
}

// freeUDPPort is a port of loopback that nothing uses.
func freeUDPPort(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer conn.Close()
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(t, err)
	return port
}

// ask asks a ConfD. It repeats the question for some time, because a packet that comes too early gets no answer.
func ask(t *testing.T, port string, kind coreconfd.Type, argument string) coreconfd.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a := confd.AskAll(ctx, []byte(confdKey), []string{"127.0.0.1:" + port}, coreconfd.Query{Type: kind, Argument: json.RawMessage(argument)})[0]
	require.NoError(t, a.Err)
	return a.Reply
}

// edit replaces config.data, as an upload of the master does.
func (b *faceBench) edit(change func(*model.Config) *model.Config) {
	b.t.Helper()
	content, err := os.ReadFile(b.path("var/lib/ganeti/config.data"))
	require.NoError(b.t, err)
	c, err := model.Decode(content)
	require.NoError(b.t, err)
	b.write("var/lib/ganeti/config.data.new", string(change(c).JSON()))
	require.NoError(b.t, os.Rename(b.path("var/lib/ganeti/config.data.new"), b.path("var/lib/ganeti/config.data")))
}

// ganeti-confd answers from the node's config.data on any node, and follows it: a new one, a broken one, none. It has Ganeti's name, pid
// file and log.
func TestConfdFace(t *testing.T) {
	b, port := newNodeBench(t), freeUDPPort(t)
	code, output := b.command(confdName, "-b", "127.0.0.1", "-p", port)
	require.Zero(t, code, output)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", b.pid(confdName)))
	require.NoError(t, err)
	require.Equal(t, confdName+"\n", string(comm))
	require.FileExists(t, b.path("var/log/ganeti/conf-daemon.log"))
	code, output = b.command(confdName, "-b", "127.0.0.1", "-p", port)
	require.Equal(t, exitFailed, code)
	require.Contains(t, output, "already locked?")

	require.Equal(t, coreconfd.StatusOK, ask(t, port, coreconfd.ClusterMaster, "null").Status)
	nodes := func() (count int) {
		var addresses []string
		require.NoError(t, json.Unmarshal(ask(t, port, coreconfd.NodePrimaryIPs, "null").Answer, &addresses))
		return len(addresses)
	}
	require.Equal(t, 1, nodes())
	b.edit(func(c *model.Config) *model.Config { // more nodes than Ganeti's can tell all about
		e := c.Edit()
		o, _ := c.Nodes.Get("n")
		for i := range 600 {
			n := o.Value
			n.UUID, n.Name, n.PrimaryIP = fmt.Sprint("n", i), fmt.Sprintf("node%d.example.com", i), fmt.Sprint("192.0.", i/250, ".", i%250)
			model.Nodes.Put(e, n.UUID, n)
		}
		changed, _ := e.Commit(c.MTime + 1)
		return changed
	})
	require.Eventually(t, func() bool { return nodes() == 601 }, patience, time.Millisecond)
	large := ask(t, port, coreconfd.ConfigPath, `"/nodes"`)
	require.Equal(t, coreconfd.StatusError, large.Status)
	require.Contains(t, string(large.Answer), "too large", "Ganeti's says nothing")

	b.write("var/lib/ganeti/config.data", "{broken")
	require.Eventually(t, func() bool {
		log, _ := os.ReadFile(b.path("var/log/ganeti/conf-daemon.log"))
		return strings.Contains(string(log), "the configuration cannot be read")
	}, patience, time.Millisecond)
	require.Equal(t, 601, nodes(), "the last one stays")
	require.NoError(t, os.Remove(b.path("var/lib/ganeti/config.data")))
	require.Eventually(t, func() bool { return ask(t, port, coreconfd.Ping, "null").Status == coreconfd.StatusError }, patience, time.Millisecond)
	b.end(confdName, syscall.SIGTERM)
	require.NoFileExists(t, b.path("run/ganeti/ganeti-confd.pid"))
}

// ganeti-mond serves reports over HTTP on any node, also without a configuration and while no ConfD answers.
func TestMondFace(t *testing.T) {
	address := loopback(t, 1)[0] // first: it is given back when the daemon has ended
	host, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	b := newNodeBench(t)
	require.NoError(t, os.Remove(b.path("var/lib/ganeti/config.data")))
	code, output := b.command(mondName, "-b", host, "-p", port)
	require.Zero(t, code, output)
	require.FileExists(t, b.path("var/log/ganeti/monitoring-daemon.log"))
	get := func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.Equal(t, "[1]", get("/"))
	require.Eventually(t, func() bool { return strings.Contains(get("/1/report/all"), "diskstats") }, patience, time.Millisecond)
	code, output = b.command(mondName, "-b", host, "-p", port)
	require.Equal(t, exitFailed, code)
	require.Contains(t, output, "already locked?")
	b.end(mondName, syscall.SIGTERM)
	require.NoFileExists(t, b.path("run/ganeti/ganeti-mond.pid"))
}

// The options and exit codes of both. A daemon runs as its own user, as Ganeti's do.
func TestConfdAndMondFaceOptions(t *testing.T) {
	b := newNodeBench(t)
	for _, name := range []string{confdName, mondName} {
		for _, c := range []struct {
			args []string
			code int
			text string
		}{
			{[]string{"--version"}, 0, name + " (ganeti) version 3.0.2-3\n"},
			{[]string{"-h"}, 0, "--bind"},
			{[]string{"--no-voting"}, exitUsage, "no-voting"},
			{[]string{"--no-ssl"}, exitUsage, "no-ssl"},
			{[]string{"-p", "0"}, exitUsage, "is not a port"},
			{[]string{"-b", "192.0.2.1"}, exitFailed, "192.0.2.1"},
		} {
			code, output := b.command(name, c.args...)
			require.Equal(t, c.code, code, "%s %v: %s", name, c.args, output)
			require.Contains(t, output, c.text, "%s %v", name, c.args)
			require.Zero(t, b.pid(name))
		}
	}
	b.write("etc/ganeti/lockstep.yaml", "ganeti-confd-user: \"4711\"\nganeti-mond-user: \"4711\"\n"+
		fmt.Sprintf("ganeti-user: \"%d\"\nganeti-confd-group: \"4711\"\nganeti-daemons-group: \"4711\"\n", os.Geteuid()))
	for _, name := range []string{confdName, mondName} {
		code, output := b.command(name)
		require.Equal(t, exitFailed, code)
		require.Contains(t, output, fmt.Sprintf("%s started using wrong user ID (%d), expected 4711", name, os.Geteuid()))
	}
}
