package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"lockstep/actors/standby"
	"lockstep/edge/luxiclient"
)

// network is a bridge with a network namespace for each node, connected by a virtual cable.
type network struct {
	t     testing.TB
	name  string // of the bridge, and prefix of the other names
	nodes int
}

// networks counts them: their names on the machine differ.
var networks atomic.Int32

// newNetwork needs root and a kernel with bridges and namespaces. Without these the test is
// skipped.
func newNetwork(t testing.TB, nodes int) *network {
	t.Helper()
	n := &network{t: t, name: fmt.Sprintf("ls%d-%d", os.Getpid()%100000, networks.Add(1)), nodes: nodes}
	t.Cleanup(n.remove)
	steps := [][]string{{"link", "add", n.name, "type", "bridge"}, {"link", "set", n.name, "up"}}
	for i := range nodes {
		space, cable, end := n.space(i), n.cable(i), fmt.Sprintf("%se%d", n.name, i)
		steps = append(steps,
			[]string{"netns", "add", space},
			[]string{"link", "add", cable, "type", "veth", "peer", "name", end},
			[]string{"link", "set", end, "netns", space},
			[]string{"link", "set", cable, "master", n.name, "up"},
			[]string{"-n", space, "address", "add", n.host(i) + "/24", "dev", end},
			[]string{"-n", space, "link", "set", end, "up"},
			[]string{"-n", space, "link", "set", "lo", "up"})
	}
	for _, step := range steps {
		if out, err := exec.Command("ip", step...).CombinedOutput(); err != nil {
			t.Logf("NOT TESTED: a partition of the network, which needs root and network namespaces: ip %v: %v: %s", step, err, out)
			t.Skip("no network namespaces")
		}
	}
	return n
}

func (n *network) remove() {
	for i := range n.nodes {
		_ = exec.Command("ip", "netns", "delete", n.space(i)).Run()
	}
	_ = exec.Command("ip", "link", "delete", n.name).Run()
}

func (n *network) space(i int) string { return fmt.Sprintf("%sn%d", n.name, i) }
func (n *network) cable(i int) string { return fmt.Sprintf("%sc%d", n.name, i) }
func (n *network) host(i int) string  { return fmt.Sprintf("10.213.77.%d", i+1) }

// disconnect takes a node's network link down, plug takes it up.
func (n *network) disconnect(i int) { n.set(i, "down") }
func (n *network) reconnect(i int)  { n.set(i, "up") }

func (n *network) set(i int, state string) {
	n.t.Helper()
	out, err := exec.Command("ip", "link", "set", n.cable(i), state).CombinedOutput()
	require.NoError(n.t, err, string(out))
}

// newSplitCluster makes a cluster whose nodes can be cut off.
func newSplitCluster(t testing.TB, size int) (*cluster, *network) {
	t.Helper()
	n := newNetwork(t, size)
	var addresses []string
	for i := range size {
		addresses = append(addresses, n.host(i)+":7400")
	}
	return newClusterAt(t, addresses, func(i int, m *member) { m.prefix = []string{"ip", "netns", "exec", n.space(i)} }), n
}

// One node loses its network. If it is the master, it ends its work and reports that, and the
// other nodes continue; if it is a candidate, the cluster continues without it. After the
// partition all nodes agree.
func TestClusterPartition(t *testing.T) {
	t.Parallel()
	c, network := newSplitCluster(t, 3)
	u := c.user(0)
	master := c.master()
	running := u.submit(c.workerOp("running"))
	pid := c.awaitWorker("running")
	u.close()
	carried := c.tunnelled(master)
	network.disconnect(indexOf(c, master))
	cut := time.Now()
	answers := make(chan error, len(carried))
	for _, client := range carried {
		go func() {
			answers <- client.Call(context.Background(), "SubmitJob", []any{withNames([][]op{{command("true")}})[0]}, nil)
		}()
	}
	c.refuses(master)
	require.Less(t, time.Since(cut), 5*time.Second)
	t.Logf("the command of the running job was gone %s after that", c.awaitDeath(pid))
	master.up = false // queries must not use it
	u = c.user(indexOf(c, c.others(master)[0]))
	u.at = indexOf(c, c.master())
	id := u.submit(command("true"))
	t.Logf("a submission was taken by the others %s after the cut", time.Since(cut))
	u.awaitStatus(running, "error")
	u.awaitStatus(id, "success")
	for range carried {
		assert.NotErrorIs(t, <-answers, luxiclient.ErrNoAnswer, "a client that was carried to the lost master hangs")
	}
	network.reconnect(indexOf(c, master))
	master.up = true
	c.awaitUp(master)
	c.awaitEqual()
	require.NotContains(t, c.read("ended-running"), "ended")

	master = c.master()
	u.close()
	u.at = indexOf(c, master)
	before := u.latencies(50)
	candidate := c.others(master)[0]
	network.disconnect(indexOf(c, candidate))
	during := u.latencies(200)
	t.Logf("submissions before %s, with a candidate cut off %s", before, during)
	require.Less(t, during.median, 10*before.median)
	require.Less(t, during.most, max(10*before.most, 500*time.Millisecond))
	require.True(t, master.serves())
	network.reconnect(indexOf(c, candidate))
	c.awaitUp(candidate)
	c.awaitEqual()
	require.True(t, master.serves(), "the master has changed because of a candidate that came back")
}

// tunnelled are clients whose requests the other nodes forward to the master.
func (c *cluster) tunnelled(master *member) (clients []*luxiclient.Client) {
	c.t.Helper()
	for _, m := range c.others(master) {
		client, err := luxiclient.Dial(context.Background(), m.socket(), luxiclient.Options{AnswerTimeout: answerMax})
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = client.Close() })
		require.NoError(c.t, client.Call(context.Background(), standby.ForwardMethod, nil, nil))
		require.NoError(c.t, client.Call(context.Background(), "QueryConfigValues", []any{[]string{"drain_flag"}}, nil))
		clients = append(clients, client)
	}
	return clients
}

// latency is the latency of a number of submissions.
type latency struct{ median, most time.Duration }

func (l latency) String() string { return fmt.Sprintf("median %s, max %s", l.median, l.most) }

// latencies submits jobs one after the other and returns the latency of the submissions.
func (u *user) latencies(submissions int) latency {
	u.c.t.Helper()
	all := make([]time.Duration, submissions)
	for i := range all {
		began := time.Now()
		u.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 1e-9})
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return latency{all[len(all)/2], all[len(all)-1]}
}
