package queuecopy_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kittest"
	"lockstep/actors/queuecopy"
	"lockstep/actors/store"
	"lockstep/core/config/model"
	core "lockstep/core/queuecopy"
	"lockstep/messages"
)

// daemons records the calls. The test ends them.
type daemons struct {
	mu   sync.Mutex
	open []call
}

type call struct {
	core.Call
	done func(core.Result)
}

// Call is part of queuecopy.Daemons.
func (d *daemons) Call(c core.Call, done func(core.Result)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, call{c, done})
}

// bench is a copier between its clients and node daemons. The configuration has a master n1, candidates n2 and n3, a regular node n4
// and an offline candidate n5.
type bench struct {
	testing.TB
	*kittest.Env
	daemons         *daemons
	config, clients *kittest.Probe
	copier          *actor.PID
	number          uint64
}

func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	onBenchOf(t, core.Majority, f)
}

func onBenchOf(t *testing.T, a core.Acknowledge, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e, daemons: &daemons{}, config: e.Probe("config"), clients: e.Probe("clients")}
		b.copier = e.Start("queuecopy", queuecopy.Props(queuecopy.Config{Env: e.Env, Daemons: b.daemons, Self: "n1", ClusterConfig: b.config.PID, Clients: []*actor.PID{b.clients.PID}, Acknowledge: a}))
		b.begin(1)
		f(t, b)
	})
}

// begin expects an incarnation, which gets the configuration and finds all candidates equal.
func (b *bench) begin(incarnation uint64) {
	b.Helper()
	kittest.Expect[*messages.PublishConfig](b.config)
	require.Equal(b, &queuecopy.Started{Incarnation: incarnation}, kittest.Expect[*queuecopy.Started](b.clients))
	require.Empty(b, b.calls(), "nothing is sent before the nodes are known")
	b.config.Ask(b.copier, &clusterconfig.ConfigPublished{Config: nodes(b, "n1")})
	b.Settle()
	b.finish()
	b.Advance(core.Settle)
	b.finish()
}

func nodes(t testing.TB, master string) *model.Config {
	raw, err := os.ReadFile("../../core/config/testdata/config.data.json")
	require.NoError(t, err)
	c, err := model.Decode(raw)
	require.NoError(t, err)
	e := c.Edit()
	for uuid := range c.Nodes.All() {
		model.Nodes.Delete(e, uuid)
	}
	cluster := c.Cluster.Value
	cluster.MasterNode = master
	e.SetCluster(cluster)
	for i := 1; i <= 5; i++ {
		n := model.Node{Name: fmt.Sprint("n", i), PrimaryIP: fmt.Sprint("192.0.2.", i), MasterCandidate: i != 4, Offline: i == 5}
		n.UUID = n.Name
		model.Nodes.Put(e, n.UUID, n)
	}
	c, _ = e.Commit(1)
	return c
}

// calls returns the open calls as "node operation units", sorted.
func (b *bench) calls() (all []string) {
	b.Settle()
	b.daemons.mu.Lock()
	defer b.daemons.mu.Unlock()
	for _, c := range b.daemons.open {
		all = append(all, fmt.Sprint(c.Node.Name, " ", c.Op, " ", c.Units))
	}
	slices.Sort(all)
	return all
}

// end ends the open calls of a node, "" for all nodes.
func (b *bench) end(node string, err error) {
	b.daemons.mu.Lock()
	var ended []call
	b.daemons.open = slices.DeleteFunc(b.daemons.open, func(c call) bool {
		ends := node == "" || c.Node.Name == node
		if ends {
			ended = append(ended, c)
		}
		return ends
	})
	b.daemons.mu.Unlock()
	for _, c := range ended {
		c.done(core.Result{Err: err, Master: "n1", Serial: c.SerialToSend(0), Found: make([]core.Found, len(c.Units))})
	}
	b.Settle()
}

func (b *bench) finish() {
	for len(b.calls()) > 0 {
		b.end("", nil)
	}
}

func (b *bench) changed(paths ...string) {
	b.clients.Ask(b.copier, &store.Changed{Paths: paths})
	b.Settle()
}

func (b *bench) nodes() []core.NodeState {
	b.number++
	b.clients.Ask(b.copier, &queuecopy.GetNodes{Request: b.number})
	return kittest.Expect[*queuecopy.GetNodesResult](b.clients).Nodes
}

func TestChangesAreSent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.changed("queue/job-1", "queue/serial", "queue/lockstep-1", "config.journal")
		b.changed("queue/job-2")
		require.Equal(t, []string{"n2 update [1]", "n2 update [2]", "n3 update [1]", "n3 update [2]"}, b.calls())
		b.end("n2", nil)
		require.Equal(t, []int{0, 2}, []int{b.nodes()[0].Behind, b.nodes()[1].Behind})
		b.finish()
		require.Zero(t, b.nodes()[1].Behind)
		b.changed("queue/drain", "watcher.pause")
		require.Equal(t, []string{"n2 update [-2]", "n2 update [-3]", "n3 update [-2]", "n3 update [-3]"}, b.calls())
		b.finish()
		b.changed("queue/archive/0/job-1")
		require.Equal(t, []string{"n2 archive [1]", "n3 archive [1]"}, b.calls())
	})
}

// The process of a job sends the job's file. The copier compares it when the process is gone.
func TestAProcessSendsItsFile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.clients.Ask(b.copier, &queuecopy.ProcessBegan{ID: 1})
		b.changed("queue/job-1")
		require.Empty(t, b.calls())
		b.clients.Ask(b.copier, &queuecopy.ProcessEnded{ID: 1})
		require.Equal(t, []string{"n2 check [1]", "n3 check [1]"}, b.calls())
		b.finish()
		b.Advance(core.Settle)
		require.Equal(t, []string{"n2 check [1]", "n3 check [1]"}, b.calls())
	})
}

// A node that is away holds up no other one. Its calls are repeated, and each streak of failures is one line of the log.
func TestANodeIsAway(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.changed("queue/job-1")
		for range 3 {
			b.end("n2", errors.New("connection refused"))
			b.end("n3", nil)
			b.Advance(4 * time.Second)
		}
		require.Equal(t, 3, b.nodes()[0].Failures)
		require.Zero(t, b.nodes()[1].Behind)
		require.Len(t, b.Logged("copy of the queue to a node failed; it is repeated"), 1)
		require.Equal(t, []string{"n2 ask-master []"}, b.calls())
		b.end("n2", nil)
		require.Len(t, b.Logged("copy of the queue to a node succeeded after failures"), 1)
		require.Equal(t, []string{"n2 update [1]"}, b.calls())
	})
}

// A node whose configuration names another master sends nothing to any node.
func TestAnotherMaster(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.config.Ask(b.copier, &clusterconfig.ConfigPublished{Config: nodes(b, "n2")})
		b.changed("queue/job-1")
		b.Advance(time.Hour)
		require.Empty(t, b.calls())
		require.Empty(t, b.nodes())
	})
}

// An answer waits for one of two candidates, once for each question.
func TestAwaitMajority(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.changed("queue/job-1")
		m := &queuecopy.Await{Request: 7, Units: []core.Unit{1}}
		b.clients.Ask(b.copier, m)
		b.clients.Ask(b.copier, m)
		b.clients.Quiet()
		b.end("n3", nil)
		require.Equal(t, &queuecopy.AwaitResult{Request: 7}, kittest.Expect[*queuecopy.AwaitResult](b.clients))
		b.clients.Quiet()

		b.changed("queue/job-2")
		b.clients.Ask(b.copier, &queuecopy.Await{Request: 8, Units: []core.Unit{2}})
		b.Settle()
		b.Advance(core.AwaitMax)
		require.Equal(t, &queuecopy.AwaitResult{Request: 8, Late: true}, kittest.Expect[*queuecopy.AwaitResult](b.clients))
	})
}

// An answer waits for both candidates. One that is silent is logged once, and no answer waits for it until it has caught up.
func TestAwaitAll(t *testing.T) {
	onBenchOf(t, core.All, func(t *testing.T, b *bench) {
		const behind, caughtUp = "a master candidate does not get changes of the queue in time; clients get their answers without it until it has caught up",
			"a master candidate has caught up with the queue; answers wait for it again"
		submit := func(id uint64) {
			b.changed(fmt.Sprint("queue/job-", id))
			b.clients.Ask(b.copier, &queuecopy.Await{Request: id, Units: []core.Unit{core.Unit(id)}})
			b.Settle()
		}
		answered := func(id uint64) {
			t.Helper()
			require.Equal(t, &queuecopy.AwaitResult{Request: id}, kittest.Expect[*queuecopy.AwaitResult](b.clients))
		}
		submit(1)
		b.end("n3", nil)
		b.clients.Quiet()
		b.end("n2", nil)
		answered(1)

		submit(2)
		b.end("n3", nil)
		b.Advance(core.AllMax)
		answered(2)
		require.Len(t, b.Logged(behind), 1)
		submit(3)
		b.end("n3", nil)
		answered(3)
		b.Advance(core.AllMax)
		require.Len(t, b.Logged(behind), 1)
		require.Empty(t, b.Logged(caughtUp))

		b.finish()
		require.Len(t, b.Logged(caughtUp), 1)
		submit(4)
		b.end("n3", nil)
		b.clients.Quiet()
		b.end("n2", nil)
		answered(4)
	})
}

// A job is submitted, changed and archived while the calls of its submission are in progress.
func TestAwaitOfAJobThatIsArchived(t *testing.T) {
	onBenchOf(t, core.All, func(t *testing.T, b *bench) {
		b.changed("queue/job-1")
		b.clients.Ask(b.copier, &queuecopy.Await{Request: 1, Units: []core.Unit{1}})
		b.changed("queue/job-1")
		b.clients.Ask(b.copier, &queuecopy.Await{Request: 2, Units: []core.Unit{1}})
		b.changed("queue/archive/0/job-1")
		require.Equal(t, []string{"n2 update [1]", "n3 update [1]"}, b.calls())
		b.end("", nil)
		require.Equal(t, uint64(1), kittest.Expect[*queuecopy.AwaitResult](b.clients).Request)
		require.Equal(t, []string{"n2 check [1]", "n3 check [1]"}, b.calls())
		b.clients.Quiet()
		b.end("", nil)
		require.Equal(t, uint64(2), kittest.Expect[*queuecopy.AwaitResult](b.clients).Request)
	})
}

// An orderly stop sends the exact serial. It waits for no silent candidate.
func TestDrain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.clients.Ask(b.copier, &messages.Drain{})
		require.Equal(t, []string{"n2 update [-1]", "n3 update [-1]"}, b.calls())
		require.Equal(t, int64(7), b.daemons.open[0].SerialToSend(7))
		b.end("n2", nil)
		b.clients.Quiet()
		b.Advance(core.StopMax)
		kittest.Expect[*messages.DrainResult](b.clients)
		b.clients.Ask(b.copier, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](b.clients)
	})
}

// The next incarnation compares everything, also what an open question is about, and ignores results and timers of the former one.
func TestCrash(t *testing.T) {
	for _, acknowledge := range []core.Acknowledge{core.Majority, core.All} {
		t.Run(acknowledge.String(), func(t *testing.T) { onBenchOf(t, acknowledge, testCrash) })
	}
}

func testCrash(t *testing.T, b *bench) {
	b.changed("queue/job-1")
	former := b.daemons.open
	b.daemons.open = nil
	b.Crash(b.copier)
	b.Advance(kittest.Backoff)
	kittest.Expect[*messages.PublishConfig](b.config)
	kittest.Expect[*queuecopy.Started](b.clients)
	b.config.Ask(b.copier, &clusterconfig.ConfigPublished{Config: nodes(b, "n1")})
	b.clients.Ask(b.copier, &queuecopy.Await{Request: 7, Units: []core.Unit{1}})
	require.Equal(t, []string{"n2 ask-master []", "n3 ask-master []"}, b.calls())
	for _, c := range former {
		c.done(core.Result{})
	}
	b.Settle()
	require.True(t, b.nodes()[0].Comparing)
	require.Equal(t, 4, b.nodes()[0].Behind, "serial, drain flag, pause and the job of the question")
	b.clients.Quiet()
	b.finish()
	require.Equal(t, uint64(7), kittest.Expect[*queuecopy.AwaitResult](b.clients).Request)
}

// A question that comes before the nodes are known waits for them, too.
func TestAwaitBeforeTheNodesAreKnown(t *testing.T) {
	onBenchOf(t, core.All, func(t *testing.T, b *bench) {
		b.Crash(b.copier)
		b.Advance(kittest.Backoff)
		kittest.Expect[*messages.PublishConfig](b.config)
		kittest.Expect[*queuecopy.Started](b.clients)
		b.clients.Ask(b.copier, &queuecopy.Await{Request: 7, Units: []core.Unit{1}})
		b.clients.Quiet()
		b.config.Ask(b.copier, &clusterconfig.ConfigPublished{Config: nodes(b, "n1")})
		b.clients.Quiet()
		b.finish()
		require.Equal(t, &queuecopy.AwaitResult{Request: 7}, kittest.Expect[*queuecopy.AwaitResult](b.clients))
	})
}
