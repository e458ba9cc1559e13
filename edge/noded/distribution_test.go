package noded_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/distributor"
	"lockstep/actors/kit"
	"lockstep/core/config/model"
	"lockstep/core/distribution"
	corenoded "lockstep/core/noded"
	"lockstep/edge/noded"
	"lockstep/edge/noded/nodedtest"
)

// cluster is a distributor with the real client, and fake node daemons of a master node1, a candidate node2 and a node3.
type cluster struct {
	testing.TB
	env         *kit.Env
	distributor *actor.PID
	results     chan any // of the distributor, to this test
	self        *actor.PID
	daemons     [4]*nodedtest.Daemon // by number of the node
	config      *model.Config
	request     uint64
}

func newCluster(t *testing.T) *cluster {
	b := newBench(t) // for the identities, the files and the port
	c := &cluster{TB: t, env: kit.New(kit.Options{}), results: make(chan any, 100)}
	for i := 1; i <= 3; i++ {
		address := net.JoinHostPort(fmt.Sprint("127.0.1.", i), strconv.Itoa(b.config.Port))
		c.daemons[i] = nodedtest.Start(t, fmt.Sprint("node", i), address, b.server)
		c.daemons[i].Admit(b.master)
	}
	c.config = c.initial(b.master.Digest())
	daemons := noded.NewDaemons(noded.NewClient(b.config))
	t.Cleanup(daemons.Close)
	c.distributor = c.spawn("distributor", distributor.Props(distributor.Config{Env: c.env, Daemons: daemons, Software: "3.0.2"}))
	c.self = c.spawn("test", c.env.Props("test", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *distributor.AwaitResult, *distributor.GetNodesResult:
				c.results <- m
			}
		})
	}))
	return c
}

func (c *cluster) spawn(name string, props *actor.Props) *actor.PID {
	pid, _, err := c.env.SpawnRoot(props, name)
	require.NoError(c, err)
	c.Cleanup(func() { c.env.System().Root.Stop(pid) })
	return pid
}

func (c *cluster) initial(digest string) *model.Config {
	raw, err := os.ReadFile("../../core/config/testdata/config.data.json")
	require.NoError(c, err)
	config, err := model.Decode(raw)
	require.NoError(c, err)
	e := config.Edit()
	for uuid := range config.Nodes.All() {
		model.Nodes.Delete(e, uuid)
	}
	for i := 1; i <= 3; i++ {
		n := model.Node{Name: fmt.Sprint("node", i), PrimaryIP: c.daemons[i].Node().Address, Group: "g", MasterCandidate: i < 3}
		n.UUID = fmt.Sprint("uuid-", i)
		model.Nodes.Put(e, n.UUID, n)
	}
	cluster := config.Cluster.Value
	cluster.MasterNode = "uuid-1"
	cluster.CandidateCerts = model.Dict[string]{{Key: "uuid-1", Value: digest}}
	e.SetCluster(cluster)
	config, _ = e.Commit(1)
	return config
}

// change makes a configuration with another tag, edited by more, and tells the distributor.
func (c *cluster) change(more func(*model.Edit)) {
	e := c.config.Edit()
	cluster := c.config.Cluster.Value
	cluster.Tags = []string{fmt.Sprint("serial-", c.config.Serial)}
	e.SetCluster(cluster)
	if more != nil {
		more(e)
	}
	c.config, _ = e.Commit(c.config.MTime + 1)
	c.env.System().Root.Send(c.distributor, &distributor.Distribute{Config: c.config})
}

func (c *cluster) ask(m any) any {
	c.Helper()
	c.env.System().Root.RequestWithCustomSender(c.distributor, m, c.self)
	return c.result()
}

func (c *cluster) result() any {
	c.Helper()
	select {
	case result := <-c.results:
		return result
	case <-time.After(20 * time.Second):
		require.FailNow(c, "the distributor does not answer")
		return nil
	}
}

// await waits until the distributor releases an answer.
func (c *cluster) await() {
	c.Helper()
	c.request++
	require.Equal(c, &distributor.AwaitResult{Request: c.request}, c.ask(&distributor.Await{Request: c.request}))
}

// requireNewest waits until nodes have the newest configuration.
func (c *cluster) requireNewest(nodes ...int) {
	c.Helper()
	tag := c.config.Cluster.Value.Tags[0] + "\n"
	for _, i := range nodes {
		c.daemons[i].AwaitFile(nodedtest.SsconfPath("cluster_tags"), tag)
		if i == 2 {
			c.daemons[i].AwaitFile(nodedtest.ConfigPath, string(c.config.JSON()))
		}
	}
}

// Every node has the newest configuration in the end, whatever the node daemons do meanwhile.
func TestDistribution(t *testing.T) {
	c := newCluster(t)
	c.change(nil)
	c.await()
	c.requireNewest(1, 2, 3)
	require.Empty(t, c.daemons[1].File(nodedtest.ConfigPath), "the master has its own file")
	require.Empty(t, c.daemons[3].File(nodedtest.ConfigPath))
	require.Equal(t, "node1\n", c.daemons[2].File(nodedtest.SsconfPath("master_node")))

	// A node daemon restarts during a change. The answer waits for it.
	c.daemons[2].Stop()
	c.change(nil)
	c.request++
	c.env.System().Root.RequestWithCustomSender(c.distributor, &distributor.Await{Request: c.request}, c.self)
	for c.state(2).ConfigFile.Failures == 0 {
	}
	c.daemons[2].Restart()
	require.Equal(t, &distributor.AwaitResult{Request: c.request}, c.result())
	c.requireNewest(1, 2, 3)

	// A node daemon refuses. The answer does not wait for it.
	c.daemons[3].Inject(nodedtest.Refuse)
	c.change(nil)
	c.await()
	c.requireNewest(1, 2)
	state := c.state(3)
	require.NotZero(t, state.Ssconf.Behind)
	require.EqualError(t, state.Ssconf.Err, "write_ssconf_files of node node3: the node daemon answers: injected refusal")
	c.daemons[3].Inject(nodedtest.None)
	c.requireNewest(3)

	// Node daemons die in the middle of calls, and answer nonsense.
	for i, f := range []nodedtest.Fault{nodedtest.Half, nodedtest.CloseAfter, nodedtest.CloseBefore, nodedtest.Nonsense, nodedtest.BadStatus, nodedtest.TooMuch} {
		of := c.daemons[1+i%3]
		of.Inject(f)
		before := len(of.Calls())
		c.change(nil)
		of.Await(before + 1)
		c.change(nil)
		of.Inject(nodedtest.None)
		c.requireNewest(1, 2, 3)
	}

	// A node that is marked offline gets no call. When it comes back it gets everything.
	c.change(setOffline(2, true))
	c.await()
	calls := len(c.daemons[2].Calls())
	c.change(nil)
	c.await()
	require.Len(t, c.daemons[2].Calls(), calls)
	require.Equal(t, distribution.Offline, c.state(2).Role)
	c.change(setOffline(2, false))
	c.await()
	c.requireNewest(1, 2, 3)
	for i := 1; i <= 3; i++ {
		require.Zero(t, c.state(i).Ssconf.Behind)
		require.LessOrEqual(t, c.daemons[i].MostAtOnce(), 2, "a call for each kind")
	}
}

func setOffline(i int, offline bool) func(*model.Edit) {
	return func(e *model.Edit) {
		uuid := fmt.Sprint("uuid-", i)
		n, _ := e.Config().Nodes.Get(uuid)
		v := n.Value
		v.Offline = offline
		model.Nodes.Put(e, uuid, v)
	}
}

func (c *cluster) state(i int) distribution.NodeState {
	return c.ask(&distributor.GetNodes{}).(*distributor.GetNodesResult).Nodes[i-1]
}

// While a node daemon is slow, later changes become one call, and others do not wait for it.
func TestASlowNodeDaemon(t *testing.T) {
	c := newCluster(t)
	c.change(nil)
	c.await()
	before := len(c.daemons[2].Calls())
	release := c.daemons[2].Hold()
	defer release()
	for range 20 {
		c.change(nil)
	}
	c.requireNewest(1, 3)
	c.daemons[2].Await(before + 2)
	release()
	c.requireNewest(2)
	uploads := 0
	for _, call := range c.daemons[2].Calls()[before:] {
		if call.Procedure == corenoded.UploadFile {
			uploads++
		}
	}
	require.LessOrEqual(t, uploads, 3)
}

// Close lets node daemons finish the calls that they have begun, and ends those that wait for their turn.
func TestCloseAwaitsCallsInProgress(t *testing.T) {
	b, daemons, results := heldSends(t)
	closed := make(chan struct{})
	go func() { daemons.Close(); close(closed) }()
	waiting := <-results // those that are in progress are held
	require.ErrorIs(t, waiting.Err, context.Canceled)
	b.release()
	<-closed
	var finished int
	for range b.sends - 1 {
		if r := <-results; r.Err == nil {
			finished++
		}
	}
	require.Equal(t, b.begun, finished)
}

// Close ends calls that node daemons do not finish.
func TestCloseEndsHeldCalls(t *testing.T) {
	b, daemons, results := heldSends(t)
	daemons.SetCloseGrace(time.Millisecond)
	daemons.Close()
	for range b.sends {
		require.Error(t, (<-results).Err)
	}
}

// held are calls that a node daemon has begun and does not answer, and others that wait for them.
type held struct {
	sends   int
	begun   int
	release func()
}

func heldSends(t *testing.T) (held, *noded.Daemons, <-chan distribution.Result) {
	b := newBench(t)
	release := b.daemon.Hold()
	t.Cleanup(release)
	daemons := noded.NewDaemons(b.client)
	tracker := distribution.New("3.0.2", "")
	config := (&cluster{TB: t, daemons: [4]*nodedtest.Daemon{nil, b.daemon, b.daemon, b.daemon}}).initial("")
	tracker.Distribute(config)
	d := tracker.Next(time.Now())
	results := make(chan distribution.Result, len(d.Sends))
	begun := map[corenoded.Procedure]bool{} // all nodes are at one address
	for _, s := range d.Sends {
		begun[s.Content.Kind.Procedure()] = true
		daemons.Send(s, func(r distribution.Result) { results <- r })
	}
	b.daemon.Await(len(begun))
	require.Less(t, len(begun), len(d.Sends))
	return held{sends: len(d.Sends), begun: len(begun), release: release}, daemons, results
}
