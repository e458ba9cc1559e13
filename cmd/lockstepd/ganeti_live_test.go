package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	corenoded "lockstep/core/noded"
	"lockstep/core/paths"
	"lockstep/edge/noded"
	"lockstep/edge/noded/nodedtest"
)

// editConfig changes the configuration before the daemon starts.
func (g *ganetiCluster) editConfig(change func(c *model.Config, e *model.Edit)) {
	g.t.Helper()
	content, err := os.ReadFile(g.path("lib", paths.ConfigPath))
	require.NoError(g.t, err)
	c, err := model.Decode(content)
	require.NoError(g.t, err)
	e := c.Edit()
	change(c, e)
	changed, _ := e.Commit(c.MTime + 1)
	require.NoError(g.t, os.WriteFile(g.path("lib", paths.ConfigPath), changed.JSON(), 0o640))
}

func opt[T any](v T) model.Opt[T] { return model.Opt[T]{Value: v, Set: true} }

// addInstance adds an instance that is to run.
func addInstance(e *model.Edit, name, node string) {
	i := model.Instance{Name: opt(name), PrimaryNode: opt(node), OS: opt("noop"), Hypervisor: opt("fake"), AdminState: opt("up"),
		AdminStateSource: opt("admin"), DisksActive: opt(true)}
	i.UUID, i.Serial = "uuid-of-"+name, 1
	model.Instances.Put(e, i.UUID, i)
}

// queried is the answer of a Query.
type queried struct{ Data [][][2]any }

// perNode are the instances of each node of a large cluster.
const perNode = 3334

// newLargeCluster has 10,002 instances, which run.
func newLargeCluster(t *testing.T) *ganetiCluster {
	g := newGanetiCluster(t)
	g.editConfig(func(_ *model.Config, e *model.Edit) {
		for i, node := range []string{"n", "n1", "n2"} {
			says := map[string]any{}
			for k := range perNode {
				name := fmt.Sprintf("instance%d-%d.example.com", i, k)
				addInstance(e, name, node)
				says[name] = map[string]any{"memory": 64, "vcpus": 1, "state": 0, "time": 0.5}
			}
			result, err := json.Marshal(says)
			require.NoError(t, err)
			g.nodes[i].Say(corenoded.AllInstancesInfo, string(result))
		}
	})
	g.start(selfAccounts()...)
	return g
}

// A list of ten thousand instances takes half a second beyond the calls of the nodes. The limit of the test leaves room for other work of the
// machine.
func TestALargeListOfInstances(t *testing.T) {
	g := newLargeCluster(t)
	c := g.dial()
	g.awaitCurrent(c)
	const limit = 5 * time.Second
	best := time.Hour
	for range 5 {
		var a queried
		began := time.Now()
		c.call("Query", &a, "instance", []string{"name", "hypervisor", "os", "pnode", "status", "oper_ram"}, nil)
		best = min(best, time.Since(began))
		require.Len(t, a.Data, 3*perNode)
		for _, row := range a.Data {
			require.Equal(t, [2]any{0.0, "running"}, row[4])
		}
	}
	t.Logf("%d instances with the calls of the nodes: %v", 3*perNode, best)
	require.Less(t, best, limit)
}

// What ganeti-watcher asks for fifty node groups at once makes one call of each procedure a node.
func TestTheWatchersOfFiftyGroups(t *testing.T) {
	const groups = 50
	g := newGanetiCluster(t)
	var all []*nodedtest.Daemon
	g.editConfig(func(c *model.Config, e *model.Edit) {
		first, _ := c.Nodes.Get("n")
		group, _ := c.Groups.Get(first.Value.Group)
		for i := range groups {
			v := group.Value
			v.Name, v.UUID = fmt.Sprint("group", i), fmt.Sprint("group-uuid-", i)
			model.Groups.Put(e, v.UUID, v)
			ip := first.Value.PrimaryIP
			ip = ip[:strings.LastIndex(ip, ".")+1] + fmt.Sprint(100+i)
			d := nodedtest.Start(t, fmt.Sprintf("watched%d.example.com", i), fmt.Sprintf("%s:%d", ip, noded.Port()), g.server)
			d.Admit(g.client)
			d.Say(corenoded.NodeInfo, `["boot", [], []]`)
			d.Say(corenoded.AllInstancesInfo, fmt.Sprintf(`{"web%d.example.com": {"memory": 1, "vcpus": 1, "state": 0, "time": 0}}`, i))
			all = append(all, d)
			n := first.Value
			n.Name, n.UUID, n.PrimaryIP, n.SecondaryIP, n.Group, n.MasterCandidate = d.Name, fmt.Sprint("watched", i), ip, ip, v.UUID, false
			model.Nodes.Put(e, n.UUID, n)
			addInstance(e, fmt.Sprintf("web%d.example.com", i), n.UUID)
		}
	})
	g.start(selfAccounts()...)
	var watchers sync.WaitGroup
	began := time.Now()
	for i := range groups {
		c := g.dial()
		watchers.Go(func() {
			var instances, nodes queried
			group := fmt.Sprint("group-uuid-", i)
			c.call("Query", &instances, "instance", []string{"name", "status", "admin_state", "admin_state_source", "disks_active", "snodes",
				"pnode.group.uuid", "snodes.group.uuid", "disk_template"}, []any{"==", "pnode.group.uuid", group})
			c.call("Query", &nodes, "node", []string{"name", "bootid", "offline"}, []any{"==", "group.uuid", group})
			if len(instances.Data) != 1 || instances.Data[0][1][1] != "running" || len(nodes.Data) != 1 || nodes.Data[0][1][1] != "boot" {
				t.Errorf("group %d: %v %v", i, instances, nodes)
			}
		})
	}
	watchers.Wait()
	t.Logf("%d groups: %v", groups, time.Since(began))
	for _, d := range all {
		count := map[corenoded.Procedure]int{}
		for _, call := range d.Calls() {
			count[call.Procedure]++
		}
		require.Equal(t, 1, count[corenoded.NodeInfo], d.Name)
		require.Equal(t, 1, count[corenoded.AllInstancesInfo], d.Name)
	}
}

// While a node says nothing, the others' values are there, and a client that has the patience of Ganeti's gets its answer.
func TestAClientOfASilentNode(t *testing.T) {
	t.Parallel()
	g := newGanetiCluster(t)
	for _, d := range g.nodes[:2] {
		d.Say(corenoded.NodeInfo, `["boot", [], []]`)
	}
	g.nodes[2].Inject(nodedtest.CloseBefore)
	g.start(selfAccounts()...)
	var a queried
	g.dial().call("Query", &a, "node", []string{"name", "bootid"}, nil)
	require.Equal(t, [][][2]any{{{0.0, "node0.example.com"}, {0.0, "boot"}}, {{0.0, "node1.example.com"}, {0.0, "boot"}}, {{0.0, "node2.example.com"}, {2.0, nil}}}, a.Data)
	require.Eventually(t, func() bool {
		return strings.Contains(g.logged(), "node does not answer a query; its values are missing")
	},
		30*time.Second, 10*time.Millisecond)
}
