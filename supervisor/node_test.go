package supervisor_test

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/jobs"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/replicator"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/supervisor"
)

// fakeLog is a log in which this node has the only vote: its proposals are committed at
// once.
type fakeLog struct {
	env *kittest.Env

	mu          sync.Mutex
	to          *actor.PID
	leads       bool
	term        uint64
	index       uint64
	applied     uint64
	state       []byte
	undelivered []*messages.CommittedEntry
	busy        bool
}

func (l *fakeLog) Attach(to *actor.PID, incarnation uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.busy = to, false
	l.env.Send(to, &messages.LogAttached{Applied: l.applied, State: l.state, Incarnation: incarnation})
	l.env.Send(to, &messages.LogMembersChanged{Members: []*messages.Member{{Name: "n1", Address: "10.0.0.1:1", Voter: true}}})
	l.deliverRole()
	l.deliver()
}

func (l *fakeLog) deliverRole() {
	if l.leads {
		l.env.Send(l.to, &messages.LogLeadershipGained{Term: l.term})
		return
	}
	l.env.Send(l.to, &messages.LogLeaderChanged{})
}

func (l *fakeLog) deliver() {
	if len(l.undelivered) > 0 && !l.busy {
		l.busy = true
		l.env.Send(l.to, &messages.LogCommitted{Entries: l.undelivered})
	}
}

func (l *fakeLog) SetTimes(uint64, replication.Times) {}

func (l *fakeLog) Propose(_ uint64, entry []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	l.undelivered = append(l.undelivered, &messages.CommittedEntry{Index: l.index, Entry: entry})
	l.deliver()
}

func (l *fakeLog) Applied(index uint64, state []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.undelivered) > 0 && l.undelivered[0].Index <= index {
		l.undelivered = l.undelivered[1:]
	}
	l.applied, l.state, l.busy = index, state, false
	l.deliver()
}

func (l *fakeLog) Restored(uint64)                  {}
func (l *fakeLog) Change(uint64, replicator.Change) {}

func (l *fakeLog) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

// lead begins or ends a leadership. It does not wait for the consequences.
func (l *fakeLog) lead(leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = leads
	l.term++
	l.deliverRole()
}

// failingProcesses are processes that send no message. They note the starts and the confirmations.
type failingProcesses struct {
	started   atomic.Int64
	mu        sync.Mutex
	starts    []start
	confirmed []uint64 // attempts
}

// start is one call of Start.
type start struct {
	attempt uint64
	to      *actor.PID
}

func (s *failingProcesses) Start(attempt uint64, _ jobs.Job, to *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, start{attempt, to})
	s.started.Add(1)
}

func (s *failingProcesses) Confirm(attempt uint64, _ []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = append(s.confirmed, attempt)
}

func (*failingProcesses) Abandon(uint64)                                    {}
func (*failingProcesses) Tell(uint64, jobs.Order)                           {}
func (*failingProcesses) Adopt(uint64, jobs.Job, int64, string, *actor.PID) {}
func (*failingProcesses) Probe(uint64)                                      {}

// member is a node of a cluster.
type member struct {
	*testing.T
	*kittest.Env
	log       *fakeLog
	disk      *kittest.Disk
	processes *failingProcesses
	confd     *shown
	wall      *wall
	node      *supervisor.RunningNode

	mu          sync.Mutex
	masterships []*supervisor.Running // in the order of the notifications; nil: a mastership has ended
}

func withNode(t *testing.T, f func(*testing.T, *member)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		files := map[string]string{paths.ConfigPath: configuration(t), paths.SerialPath: "2\n", paths.JobPath(2): queued()}
		m := &member{T: t, Env: e, log: &fakeLog{env: e}, disk: kittest.NewDisk(files), processes: &failingProcesses{}, confd: &shown{}, wall: &wall{}}
		m.disk.MakeDir(paths.AuditDir)
		node, err := supervisor.Node(supervisor.Ports{Env: e.Env, Files: m.disk, Processes: m.processes, Owners: owners{}, Callers: callers{}, Confd: m.confd, Monitor: &supervisor.Monitor{Sources: noSources{}, Board: m.wall, Node: "n1"},
			Cluster: &supervisor.Cluster{Log: m.log, Name: "n1", Applier: replication.Applier{Node: "u1", Incarnation: "run"}, OnMastership: m.onMastership}},
			supervisor.Settings{Livelock: daemonLock, BootID: "boot", Locks: lock.Settings{Hierarchy: lock.Implied}, MaxStarts: 2, Writers: 4,
				NewUUID: func() string { return "00000000-0000-4000-8000-000000000001" }, Catalogue: opcode.Builtin(), Limits: supervisor.DefaultLimits()})
		require.NoError(t, err)
		m.node = node
		e.Settle()
		f(t, m)
		e.System().Root.Stop(node.Root)
		e.Settle()
	})
}

// queued is a job that waits for its start.
func queued() string {
	j := job.New(2, []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": []}`)}, []int{0}, job.Timestamp{Sec: 1}, daemonLock)
	return string(job.Encode(j))
}

func (m *member) onMastership(r *supervisor.Running) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.masterships = append(m.masterships, r)
}

// lead begins or ends a leadership and waits for the consequences.
func (m *member) lead(leads bool) {
	m.log.lead(leads)
	m.Settle()
}

// master is the running tree, or nil. A mastership begins only after the former one has
// ended.
func (m *member) master() *supervisor.Running {
	m.Helper()
	m.Settle()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range m.masterships {
		require.Equal(m, i%2 == 0, r != nil, "turn %d", i)
	}
	if len(m.masterships) == 0 {
		return nil
	}
	return m.masterships[len(m.masterships)-1]
}

// expectWorking fails the test unless clients are served.
func (m *member) expectWorking(r *supervisor.Running) {
	m.Helper()
	require.NotNil(m, r)
	p := m.Probe("client-" + m.Clock.Now().String())
	p.Ask(r.Root, &messages.AnnounceQueue{})
	kittest.Expect[*messages.QueueStarted](p)
	p.Stop()
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func (m *member) crash(name string) {
	m.Crash(m.PID(name))
	m.Advance(3 * time.Second)
}

func TestTheMasterPartComesAndGoesWithTheLeadership(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		require.Nil(t, m.master())
		for range 3 {
			m.lead(true)
			r := m.master()
			m.expectWorking(r)
			m.lead(false)
			require.Nil(t, m.master())
			require.True(t, ended(r.Done))
			m.Advance(time.Second)
		}
		require.False(t, ended(m.node.Done))
		require.Len(t, m.masterships, 6)
	})
}

func TestTheLeadershipChangesQuickly(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		for range 5 {
			m.log.lead(true)
			m.log.lead(false)
			m.log.lead(true)
			m.log.lead(true)
			m.expectWorking(m.master())
			m.Advance(time.Second)
			m.log.lead(false)
			m.log.lead(true)
			m.log.lead(false)
			require.Nil(t, m.master())
			m.Advance(time.Second)
		}
		m.lead(true)
		m.expectWorking(m.master())
		require.False(t, ended(m.node.Done))
	})
}

// A new tree starts when the former one has stopped, or not at all if the mastership has
// ended meanwhile.
func TestTheNextMasterPartWaitsForTheFormerOne(t *testing.T) {
	for name, leads := range map[string]bool{"wanted again": true, "not wanted any more": false} {
		t.Run(name, func(t *testing.T) {
			withNode(t, func(t *testing.T, m *member) {
				m.lead(true)
				former := m.master()
				held := m.holdOpen(former)
				m.lead(false)
				require.False(t, ended(former.Done))
				require.Nil(t, m.master(), "nobody is sent there any more")
				m.lead(true)
				require.Nil(t, m.master())
				m.lead(leads)
				held()
				m.Settle()
				require.True(t, ended(former.Done))
				if leads {
					m.expectWorking(m.master())
				} else {
					require.Nil(t, m.master())
				}
				require.False(t, ended(m.node.Done))
			})
		})
	}
}

// slowConn is a connection whose Close blocks until the test permits it.
type slowConn struct{ closed chan struct{} }

func (slowConn) Serve(*actor.PID) {}
func (slowConn) Reserve(int) bool { return true }
func (slowConn) Answer(...[]byte) {}
func (s slowConn) Close()         { <-s.closed }

// holdOpen prevents the stop of a tree until the returned function is called.
func (m *member) holdOpen(r *supervisor.Running) func() {
	c := slowConn{make(chan struct{})}
	m.Send(r.Luxi, &conn.Opened{Conn: c})
	m.Settle()
	return func() { close(c.closed) }
}

func TestAMasterPartThatFailsTooOftenEndsTheNode(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		r := m.master()
		for range 12 {
			m.crash("daemon/queue")
			m.Advance(3 * time.Second) // the delay of a restart grows
		}
		require.True(t, ended(r.Done))
		require.True(t, ended(m.node.Done), "for whoever watches it to start it anew")
		require.Nil(t, m.master())
	})
}

// The process of a start under the former mastership loads, and ends while the same node is the master again and starts the
// job a second time. Its messages are not about the second start.
func TestTheEndOfAFormerMastershipsStartIsNotTheEndOfTheNext(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		for range 2 {
			m.lead(true)
			m.expectWorking(m.master())
			m.lead(false)
		}
		m.lead(true)
		m.expectWorking(m.master())
		require.Len(t, m.processes.starts, 3)
		last := m.processes.starts[2]
		for _, former := range m.processes.starts[:2] {
			m.Send(former.to, &messages.ProcessNamed{Attempt: former.attempt, Pid: 41, Livelock: "/live/job_2_41"})
			m.Send(former.to, &messages.HandshakeFailed{Attempt: former.attempt, Text: "the start was called off"})
			m.Send(former.to, &messages.ProcessGone{Attempt: former.attempt, Text: "exit status 1", NeverActed: true})
			m.Settle()
		}
		require.Empty(t, m.processes.confirmed)
		m.Send(last.to, &messages.ProcessNamed{Attempt: last.attempt, Pid: 42, Livelock: "/live/job_2_42"})
		m.Settle()
		require.Equal(t, []uint64{last.attempt}, m.processes.confirmed)
		j, err := job.Decode([]byte(m.disk.Content(paths.JobPath(2))))
		require.NoError(t, err)
		require.Equal(t, job.Queued, j.Status())
		require.Equal(t, 42, j.ProcessID)
	})
}

// The orderly stop of a node ends its master part first. The rest of the node goes on, and drains.
func TestTheMasterPartStopsBeforeTheNode(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		r := m.master()
		supervisor.StopMaster(m.Env.Env)
		m.Settle()
		require.True(t, ended(r.Done))
		require.Nil(t, m.master())
		require.False(t, ended(m.node.Done))
		m.lead(false) // the replicator's own command comes late
		require.False(t, ended(m.node.Done))
	})
}

func TestANodeThatFailsTooOftenEnds(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		for range 12 {
			m.crash("node/replicator")
		}
		require.True(t, ended(m.node.Done))
	})
}

// After a crash of any actor of the node the mastership ends: the master part would continue with
// an actor that has lost its requests.
func TestACrashOnTheNodeResignsFirst(t *testing.T) {
	for _, name := range []string{"node/replicator", "node/store", "node/standby", "node/master"} {
		t.Run(name, func(t *testing.T) {
			withNode(t, func(t *testing.T, m *member) {
				m.lead(true)
				former := m.master()
				m.crash(name)
				require.True(t, ended(former.Done))
				require.False(t, ended(m.node.Done))
				now := m.master()
				require.NotSame(t, former, now)
				m.expectWorking(now)
				m.lead(false)
				require.Nil(t, m.master())
				require.False(t, ended(m.node.Done))
			})
		})
	}
}

func TestACrashOfOneWhoFollows(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.crash("node/replicator")
		require.Nil(t, m.master())
		require.Empty(t, m.masterships)
		m.lead(true)
		m.expectWorking(m.master())
	})
}

// The master part uses the node's store, so it repeats its unanswered requests after a
// crash of the store.
func TestACrashInTheMasterPartLeavesTheNodeAlone(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		former := m.master()
		m.crash("daemon/core/locks")
		m.crash("daemon/queue")
		require.Same(t, former, m.master())
		m.expectWorking(former)
		p := m.Probe("operator")
		p.Ask(supervisor.Replicator(m.Env.Env), &messages.GetNodes{})
		require.True(t, kittest.Expect[*messages.GetNodesResult](p).IsMaster)
	})
}

func TestConnectionsOfTheReceptionEndWhenThisNodeIsTheMaster(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		c := slowConn{make(chan struct{})}
		m.Send(m.node.Standby, &conn.Opened{Conn: c})
		m.Settle()
		m.lead(true)
		close(c.closed) // the connection is closed on request only
		m.expectWorking(m.master())
	})
}

// Jobs that another node has started may still run: no job starts and no lock is granted
// before the fence is over.
func TestANewMasterStartsNothingBeforeTheFence(t *testing.T) {
	for name, c := range map[string]struct {
		running replication.RunningJobs
		wait    time.Duration
	}{
		"jobs ran elsewhere":    {replication.RunningJobs{7: {Node: "u2", Progress: 2}}, replication.Fence},
		"jobs ran on this node": {replication.RunningJobs{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withNode(t, func(t *testing.T, m *member) {
				m.Crash(m.PID("node/replicator"))
				m.log.mu.Lock()
				m.log.state = c.running.Encode() // the next node reads this state
				m.log.mu.Unlock()
				m.Advance(time.Second)
				m.lead(true)
				m.expectWorking(m.master())
				tool := m.Probe("tool")
				tool.Ask(m.PID("daemon/core/locks"), &locks.Operate{Request: 1, Operation: locks.Apply{
					Call: lock.TryUpdateLocks(lock.Owner{Named: true, Name: "tool", Livelock: "/live/tool", PID: 7},
						lock.Request{{Lock: lock.Member(lock.Node, "a"), Mode: lock.Exclusive}})}})
				m.Settle()
				if c.wait > 0 {
					m.Advance(c.wait - time.Millisecond)
					require.Zero(t, m.processes.started.Load())
					tool.Quiet()
					m.Advance(time.Millisecond)
				}
				require.Equal(t, int64(1), m.processes.started.Load())
				require.Nil(t, kittest.Expect[*locks.OperateResult](tool).Failure)
			})
		})
	}
}
