package standby_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi/call"
	"lockstep/actors/standby"
	"lockstep/actors/store"
	"lockstep/core/access"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/messages"
)

// tunnels are tunnels whose master is the test.
type tunnels struct {
	mu     sync.Mutex
	opened []string
	to     []*actor.PID
	frames []string
	closed int
}

func (x *tunnels) Open(address string, to *actor.PID) standby.Tunnel {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opened, x.to = append(x.opened, address), append(x.to, to)
	return &tunnel{x}
}

type tunnel struct{ all *tunnels }

func (x *tunnel) Send(frame []byte) {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.all.frames = append(x.all.frames, string(frame))
}

func (x *tunnel) Close() {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.all.closed++
}

type bench struct {
	*testing.T
	*kittest.Env
	nodes   *kittest.Probe
	tunnels *tunnels
	disk    *kittest.Disk
	standby *actor.PID
}

func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, nodes: e.Probe("nodes"), tunnels: &tunnels{}, disk: kittest.NewDisk(nil)}
		b.standby = e.Start("standby", standby.Props(standby.Config{Env: e.Env, Replicator: b.nodes.PID, Tunnels: b.tunnels, Name: "n1",
			Store:  e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 1})),
			Policy: access.Policy{SocketGID: 50, SocketGroup: "lockstep"}}))
		f(t, b)
	})
}

func (b *bench) connect() *conntest.Client { return conntest.Connect(b.T, b.Env, b.standby) }

func request(c *conntest.Client, frame string) { c.Tell(&conn.Received{Frame: []byte(frame)}) }

func frame(method string) string { return `{"method": "` + method + `", "args": []}` }

// tell answers the question to the replicator and returns that question.
func (b *bench) tell(n *messages.GetNodesResult) *messages.GetNodes {
	b.Helper()
	m, from := kittest.ExpectFrom[*messages.GetNodes](b.nodes)
	n.Request = m.Request
	b.nodes.Ask(from, n)
	b.Settle()
	return m
}

func cluster(master string) *messages.GetNodesResult {
	n := &messages.GetNodesResult{Self: "n1", Master: master, Members: []*messages.Member{{Name: "n1", Address: "10.0.0.1:1"}, {Name: "n2", Address: "10.0.0.2:1", Voter: true}}}
	if master != "" {
		n.MasterAddress = "10.0.0." + master[1:] + ":1"
	}
	return n
}

func TestAClientLearnsTheMaster(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		request(c, frame("QueryJobs"))
		require.False(t, b.tell(cluster("n2")).WithStates)
		require.JSONEq(t, `{"success": false, "result": ["NotMaster", ["This node, n1, is not the master of the cluster; n2 at 10.0.0.2:1 is", "n2", "10.0.0.2:1"]]}`, c.Last())
		request(c, frame("SubmitJob"))
		b.tell(cluster(""))
		require.Contains(t, c.Last(), "has found no other")
		require.Contains(t, c.Last(), `"NotMaster"`)
		request(c, frame("SubmitJob"))
		b.tell(cluster("n1"))
		require.Contains(t, c.Last(), "has found no other", "it is to be the master, and is not yet")
		require.False(t, c.Closed())
	})
}

func TestTheNodesAreListedOnEveryNode(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		request(c, frame(call.NodesMethod))
		n := cluster("n2")
		n.States = []*messages.NodeState{{Name: "n1", Answers: true, Applied: 5, Voting: true}, {Name: "n2", Answers: true, Applied: 9, Voting: true}}
		require.True(t, b.tell(n).WithStates)
		require.JSONEq(t, `{"success": true, "result": {"self": "n1", "master": "n2", "master_address": "10.0.0.2:1", "nodes": [
			{"name": "n1", "address": "10.0.0.1:1", "voter": false, "master": false, "answers": true, "applied": 5, "behind": 4, "error": "", "joining": true},
			{"name": "n2", "address": "10.0.0.2:1", "voter": true, "master": true, "answers": true, "applied": 9, "behind": 0, "error": "", "joining": false}]}}`, c.Last())
	})
}

// A client without a role does not see the nodes, whether it is one of this node or of another. Grants count as this node's disk has them.
func TestTheNodesAreListedForUsersWithARole(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		ask := func(from access.Identity) {
			c.Tell(&conn.Received{Frame: []byte(frame(call.NodesMethod)), From: from})
		}
		refused := func(who string) {
			t.Helper()
			b.Settle()
			b.nodes.Quiet()
			require.JSONEq(t, `{"success": false, "result": ["OpPrereqError", ["to list nodes needs the role read, `+who+` has none", "not_permitted"]]}`, c.Last())
		}
		ada := access.Identity{UID: 1000, Name: "ada", GIDs: []int{7}}
		ask(ada)
		refused("ada")
		ask(access.Unknown())
		refused("an unknown user")
		c.Tell(&conn.Received{Frame: []byte(`{"method": "LockstepNodes", "args": [], "from": {"uid": 1000, "name": "ada", "node": "n2"}}`), Forwarded: true})
		refused("ada")
		require.NoError(t, b.disk.Replace("", paths.AccessPath, []byte(`{"grants": [{"role": "operate", "who": "uid:1000"}`)))
		ask(ada)
		refused("ada")

		seen := func() {
			t.Helper()
			b.tell(cluster("n2"))
			require.Contains(t, c.Last(), `"success":true`)
		}
		ask(access.Identity{UID: 1001, Name: "bo", GIDs: []int{50}})
		seen()
		require.NoError(t, b.disk.Replace("", paths.AccessPath, []byte(`{"grants": [{"role": "read", "who": "uid:1000"}]}`)))
		ask(ada)
		seen()
		c.Tell(&conn.Received{Frame: []byte(`{"method": "LockstepNodes", "args": [], "from": {"uid": 1001, "groups": ["lockstep"], "node": "n2"}}`), Forwarded: true})
		seen()
	})
}

// A node knows from its disk that it belongs to a cluster before it knows the members.
func TestANodeWithoutMembersIsJoining(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		request(c, frame(call.NodesMethod))
		b.tell(&messages.GetNodesResult{Self: "n3"})
		require.JSONEq(t, `{"success": true, "result": {"self": "n3", "master": "", "master_address": "", "nodes": [
			{"name": "n3", "address": "", "voter": false, "master": false, "answers": true, "applied": 0, "behind": 0, "error": "", "joining": true}]}}`, c.Last())
	})
}

func TestAClientIsForwardedToTheMaster(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		request(c, frame(standby.ForwardMethod))
		b.tell(cluster("n2"))
		require.Equal(t, []string{"10.0.0.2:1"}, b.tunnels.opened)
		require.JSONEq(t, `{"success": true, "result": null}`, c.Last())
		request(c, frame("QueryJobs"))
		request(c, "not even a request")
		const forged = `{"by": "uid=0(root)", "method": "QueryJobs", "args": []}`
		c.Tell(&conn.Received{Frame: []byte(forged), By: "uid=1000(ada), pid=7"})
		require.Equal(t, "not even a request", b.tunnels.frames[1], "it is the master's to judge")
		ada := access.Identity{UID: 1000, Name: "ada", GIDs: []int{50}, Groups: []string{"staff"}, Login: 1000, Program: "lockstep"}
		const forgedToo = `{"from": {"uid": 0, "daemon": true}, "method": "QueryJobs", "args": [], "from": {"uid": 0}}`
		c.Tell(&conn.Received{Frame: []byte(forgedToo), By: "uid=1000(ada), pid=7", From: ada})
		ada.Node = "n1"
		root := access.Identity{Node: "n1"}
		for i, from := range map[int]access.Identity{0: root, 2: root, 3: ada} {
			passed, err := wire.DecodeRequest([]byte(b.tunnels.frames[i]))
			require.NoError(t, err)
			require.Equal(t, from, access.DecodeForwarded(passed.From, passed.User))
		}
		for i, by := range map[int]string{0: "", 2: "uid=1000(ada), pid=7, node=n1", 3: "uid=1000(ada), pid=7, node=n1"} {
			passed, err := wire.DecodeRequest([]byte(b.tunnels.frames[i]))
			require.NoError(t, err)
			passed.From = nil
			require.Equal(t, wire.Request{Method: "QueryJobs", Args: []json.RawMessage{}, User: by}, passed, "who asks is what this node knows")
		}
		b.nodes.Quiet()
		require.Len(t, c.Conn.Answers(), 1)
		require.Zero(t, b.tunnels.closed)
		c.Tell(&conn.Closed{})
		require.Equal(t, 1, b.tunnels.closed)
		require.Equal(t, 1, c.Conn.Closes())
	})
}

// An answer from the tunnel reaches the client. The connection ends with the tunnel, or when another node leads.
func TestATunnelAnswersAndEnds(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		carried := func() *conntest.Client {
			c := b.connect()
			request(c, frame(standby.ForwardMethod))
			b.tell(cluster("n2"))
			return c
		}
		c := carried()
		request(c, frame("QueryJobs"))
		b.Send(b.tunnels.to[0], &standby.TunnelAnswer{Frame: []byte("jobs")})
		b.Settle()
		require.Equal(t, "jobs", c.Last())
		b.Send(b.tunnels.to[0], &standby.TunnelClosed{})
		b.Settle()
		require.Equal(t, 1, c.Conn.Closes())

		here, still := b.connect(), carried()
		b.Send(b.standby, &messages.LogLeaderChanged{Leader: "n2"})
		b.Settle()
		require.False(t, still.Closed(), "it is the one it was carried to")
		b.Send(b.standby, &messages.LogLeaderChanged{})
		b.Settle()
		require.Equal(t, 1, still.Conn.Closes())
		require.False(t, here.Closed())
		require.Equal(t, 2, b.tunnels.closed)
	})
}

func TestWithoutAMasterNoClientIsForwarded(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for _, master := range []string{"", "n1"} {
			c := b.connect()
			request(c, frame(standby.ForwardMethod))
			b.tell(cluster(master))
			require.Contains(t, c.Last(), `"NotMaster"`)
			request(c, frame("QueryJobs"))
			b.tell(cluster("n2"))
			require.Len(t, c.Conn.Answers(), 2, "it is served here still")
		}
		require.Empty(t, b.tunnels.opened)
	})
}

// When this node becomes the master, its clients must connect again.
func TestANewMasterClosesTheConnections(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		here, carried := b.connect(), b.connect()
		request(carried, frame(standby.ForwardMethod))
		b.tell(cluster("n2"))
		request(here, frame("QueryJobs"))
		b.Send(b.standby, &messages.BecomeMaster{Term: 1})
		b.Settle()
		require.Equal(t, 1, here.Conn.Closes())
		require.Equal(t, 1, carried.Conn.Closes())
		require.Equal(t, 1, b.tunnels.closed)
		later := b.connect()
		require.False(t, later.Closed())
	})
}

func TestAnInvalidFrameEndsTheConnection(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		request(c, "garbage")
		require.Contains(t, c.Last(), "Failed to parse request")
		require.Equal(t, 1, c.Conn.Closes())
		c = b.connect()
		c.Tell(&conn.Refused{Err: errors.New("too large")})
		require.Contains(t, c.Last(), "too large")
		require.Equal(t, 1, c.Conn.Closes())
	})
}

// An answer with another number than the open question's is dropped.
func TestOnlyTheOpenQuestionIsAnswered(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c := b.connect()
		c.Tell(cluster("n2"))
		request(c, frame("QueryJobs"))
		_, from := kittest.ExpectFrom[*messages.GetNodes](b.nodes)
		other := cluster("n2")
		other.Request = 9
		b.nodes.Ask(from, other)
		b.Settle()
		require.Empty(t, c.Conn.Answers())
	})
}

// A crash closes one connection.
func TestAConnectionThatCrashesIsClosed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		c, other := b.connect(), b.connect()
		b.Crash(c.Conn.Server())
		require.Equal(t, 1, c.Conn.Closes())
		require.False(t, other.Closed())
		request(other, frame("QueryJobs"))
		b.tell(cluster("n2"))
		require.Len(t, other.Conn.Answers(), 1)
		client := b.Probe("client")
		client.Ask(b.standby, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](client)
	})
}
