package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/config/model"
	corenoded "lockstep/core/noded"
	"lockstep/core/paths"
	"lockstep/edge/noded"
	"lockstep/edge/noded/nodedtest"
)

// ganetiCluster is a daemon in Ganeti mode, and node daemons: the master's own first, then a candidate, then a regular node.
type ganetiCluster struct {
	*daemon
	nodes          []*nodedtest.Daemon
	server, client *nodedtest.Identity // of the node daemons, and of the master
}

func newGanetiCluster(t testing.TB) *ganetiCluster {
	g := &ganetiCluster{daemon: newDaemon(t)}
	ganetiData(t, g.path("lib"))
	server := nodedtest.NewIdentity(t, "ganeti.example.com", nil)
	client := nodedtest.NewIdentity(t, "node0.example.com", server)
	g.server, g.client = server, client
	content, err := os.ReadFile(g.path("lib", paths.ConfigPath))
	require.NoError(t, err)
	first, err := model.Decode(content)
	require.NoError(t, err)
	e := first.Edit()
	// The port is the same for all node daemons, so tests that run at once need other addresses.
	for i, address := range loopback(t, 3) {
		ip, _, err := net.SplitHostPort(address)
		require.NoError(t, err)
		d := nodedtest.Start(t, fmt.Sprintf("node%d.example.com", i), fmt.Sprintf("%s:%d", ip, noded.Port()), server)
		d.Admit(client)
		g.nodes = append(g.nodes, d)
		o, found := first.Nodes.Get("n")
		require.True(t, found)
		n := o.Value
		n.Name, n.PrimaryIP, n.SecondaryIP, n.MasterCandidate = d.Name, ip, ip, i < 2
		if i > 0 {
			n.UUID = fmt.Sprint("n", i)
		}
		model.Nodes.Put(e, n.UUID, n)
	}
	c := first.Cluster.Value
	c.CandidateCerts = model.Dict[string]{{Key: "n", Value: client.Digest()}}
	e.SetCluster(c)
	changed, _ := e.Commit(first.MTime + 1)
	require.NoError(t, os.WriteFile(g.path("lib", paths.ConfigPath), changed.JSON(), 0o640))
	server.Write(t, g.path("lib"), "server.pem.new")
	require.NoError(t, os.Rename(g.path("lib", "server.pem.new"), g.path("lib", paths.GanetiCertificatePath)))
	require.NoError(t, os.MkdirAll(filepath.Dir(g.path("lib", paths.GanetiClientCertificatePath)), 0o700))
	client.Write(t, g.path("lib"), paths.GanetiClientCertificatePath)
	return g
}

// state returns what the daemon says about the nodes, by name.
func (g *ganetiCluster) state(c *client) map[string]answer.DistributionNode {
	g.t.Helper()
	var d answer.Distribution
	c.call("LockstepDistribution", &d)
	all := map[string]answer.DistributionNode{}
	for _, n := range d.Nodes {
		all[strings.TrimSuffix(n.Name, ".example.com")] = n
	}
	return all
}

// awaitState asks until the state is as wanted. Each question is answered by the daemon, so the loop is no busy one.
func (g *ganetiCluster) awaitState(c *client, what string, is func(map[string]answer.DistributionNode) bool) map[string]answer.DistributionNode {
	g.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		state := g.state(c)
		if is(state) {
			return state
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("%s: %+v", what, state)
		}
	}
}

func (g *ganetiCluster) awaitCurrent(c *client) map[string]answer.DistributionNode {
	g.t.Helper()
	return g.awaitState(c, "not all nodes are current", func(s map[string]answer.DistributionNode) bool {
		for _, n := range s {
			for _, f := range []*answer.DistributedFile{n.Config, n.Ssconf} {
				if f != nil && (f.Behind > 0 || f.Failures > 0) {
					return false
				}
			}
		}
		return len(s) == 3
	})
}

// setTags changes the cluster's tags, which are in the ssconf files, too.
func (g *ganetiCluster) setTags(tag string) {
	g.updateCluster(func(cluster map[string]any) { cluster["tags"] = []string{tag} })
}

// Changes arrive at the candidates, and the ssconf files at all nodes. What fails is repeated, and is not shown as current meanwhile.
func TestGanetiDistribution(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	g.start(selfAccounts()...)
	c := g.dial()
	state := g.awaitCurrent(c)
	require.Equal(t, []string{"master", "candidate", "regular"}, []string{state["node0"].Role, state["node1"].Role, state["node2"].Role})
	require.Nil(t, state["node0"].Config, "config.data of the master is its own")
	require.Nil(t, state["node2"].Config)

	g.setTags("first")
	for _, n := range g.nodes {
		n.AwaitFile(nodedtest.SsconfPath("cluster_tags"), "first\n")
	}
	g.awaitCurrent(c)
	require.Contains(t, g.nodes[1].File(nodedtest.ConfigPath), `"first"`)
	require.Empty(t, g.nodes[2].File(nodedtest.ConfigPath))
	require.NoFileExists(t, g.path("lib", paths.SsconfPrefix+"cluster_tags"), "node daemons write these files")

	// A slow node holds up no other one, nor an answer that need not wait.
	release := g.nodes[2].Hold()
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 7})
	g.nodes[1].AwaitFile(nodedtest.SsconfPath("cluster_tags"), "first\n")
	release()
	g.awaitCurrent(c)

	for _, fault := range []struct {
		name         string
		begin, mends func()
	}{
		{"refusing", func() { g.nodes[2].Inject(nodedtest.Refuse) }, func() { g.nodes[2].Inject(nodedtest.None) }},
		{"dying in the middle", func() { g.nodes[2].Inject(nodedtest.Half) }, func() { g.nodes[2].Inject(nodedtest.None) }},
		{"dead", g.nodes[2].Stop, g.nodes[2].Restart},
	} {
		fault.begin()
		g.setTags(fault.name)
		failed := g.awaitState(c, fault.name+" is not shown", func(s map[string]answer.DistributionNode) bool { return s["node2"].Ssconf.Failures > 0 })["node2"].Ssconf
		require.NotEmpty(t, failed.Error, fault.name)
		require.False(t, failed.Retry.IsZero(), fault.name)
		require.True(t, failed.Behind > 0, fault.name)
		fault.mends()
		g.nodes[2].AwaitFile(nodedtest.SsconfPath("cluster_tags"), fault.name+"\n")
		g.awaitCurrent(c)
	}
	require.Zero(t, g.stop())
}

// flushConfig waits for the nodes, and gives up a dead one.
func TestGanetiFlush(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	g.start(selfAccounts()...)
	c := g.dial()
	g.awaitCurrent(c)
	uploads := func() (n int) {
		for _, call := range g.nodes[1].Calls() {
			if call.Procedure == corenoded.UploadFile {
				n++
			}
		}
		return n
	}
	before := uploads()
	g.wconfd().call("flushConfig", nil)
	require.Greater(t, uploads(), before, "a flush sends also what the node has")

	release := g.nodes[1].Hold()
	answered := make(chan struct{})
	w := g.wconfd()
	go func() {
		defer close(answered)
		_ = w.Call(t.Context(), "flushConfig", nil, nil)
	}()
	g.nodes[1].Await(len(g.nodes[1].Calls()) + 1)
	select {
	case <-answered:
		t.Fatal("flushConfig has not waited for the candidate")
	default:
	}
	release()
	<-answered

	g.nodes[1].Stop()
	began := time.Now()
	g.wconfd().call("flushConfig", nil)
	require.Less(t, time.Since(began), 20*time.Second)
	require.Positive(t, g.state(c)["node1"].Config.Failures)
}
