package monitor_test

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/distributor"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/monitor"
	"lockstep/actors/replicator"
	"lockstep/core/config/configtest"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/distribution"
	"lockstep/core/job"
	"lockstep/core/lock"
	core "lockstep/core/monitor"
	"lockstep/messages"
)

// sources answers at once, except for collectors that hang. It implements monitor.Sources.
type sources struct {
	env *kittest.Env

	mu     sync.Mutex
	hang   map[string]bool
	fails  map[string]error
	absent map[string]bool
	asked  map[string]int
	open   map[string]*monitor.Gathered // of collectors that hang
	to     *actor.PID
}

func (s *sources) Gather(number uint64, collector string, to *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[collector]++
	s.to = to
	texts := map[string]string{core.CPULoad: "cpu 1 1 1 1\ncpu0 1 1 1 1\n", core.DiskStats: "8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", core.DRBD: "version: 8.4.2 (api:1/proto:86-101)\n"}
	g := &monitor.Gathered{Number: number, Collector: collector, Absent: s.absent[collector], Err: s.fails[collector],
		Reading: core.Reading{Taken: s.env.Clock.Now(), Text: []byte(texts[collector]), Processes: []core.Process{{Job: 7, PID: 4711}}, Usage: core.Usage{Memory: 5, Restarts: 2},
			Term: 4, Committed: 90}}
	if s.hang[collector] {
		s.open[collector] = g
		return
	}
	s.env.Send(to, g)
}

func (s *sources) times(collector string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[collector]
}

// board keeps the last snapshot. It implements monitor.Board.
type board struct {
	mu    sync.Mutex
	shown []*core.Snapshot
}

func (b *board) Show(s *core.Snapshot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = append(b.shown, s)
}

func (b *board) last() *core.Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown[len(b.shown)-1]
}

type bench struct {
	*kittest.Env
	t                     *testing.T
	queue, locks, storage *kittest.Probe
	sources               *sources
	board                 *board
	monitor               *actor.PID
}

func onBench(t *testing.T, change func(*bench, *monitor.Config), f func(*testing.T, *bench)) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{Env: e, t: t, queue: e.Probe("queue"), locks: e.Probe("locks"), storage: e.Probe("configstore"), board: &board{},
			sources: &sources{env: e, hang: map[string]bool{}, fails: map[string]error{}, absent: map[string]bool{core.LV: true, core.XenCPULoad: true, core.InstStatus: true}, asked: map[string]int{}, open: map[string]*monitor.Gathered{}}}
		c := monitor.Config{Env: e.Env, Sources: b.sources, Board: b.board, Node: "node1.example", Version: "v1", Started: e.Clock.Now(),
			Queue: b.queue.PID, Locks: b.locks.PID, ConfigStore: b.storage.PID, Release: "3.0.2"}
		if change != nil {
			change(b, &c)
		}
		b.monitor = e.Start("monitor", monitor.Props(c))
		f(t, b)
	})
}

func (b *bench) send(m any) {
	b.Send(b.monitor, m)
	b.Advance(monitor.Pause)
}

func (b *bench) names() []string {
	var names []string
	for _, r := range b.board.last().Reports {
		names = append(names, r.Collector.Name)
	}
	return names
}

// data returns the data of a report.
func (b *bench) data(name string) map[string]any {
	b.t.Helper()
	r := b.board.last().Report(name)
	require.NotNil(b.t, r, name)
	var report struct{ Data map[string]any }
	require.NoError(b.t, json.Unmarshal(r.Full, &report))
	return report.Data
}

func (b *bench) code(name string) core.Code {
	b.t.Helper()
	r := b.board.last().Report(name)
	require.NotNil(b.t, r, name)
	return r.Code
}

func queued(id int64, s job.Status) *messages.JobInfo {
	return &messages.JobInfo{Id: id, Status: int32(s), ReceivedUs: 1}
}

func TestChangesAreShownAtOnce(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		require.Equal(t, []string{core.CPULoad, core.DiskStats, core.DRBD, core.QueueName, core.LocksName, core.Replication, core.Processes, core.Lockstepd, core.ConfigName}, func() []string { b.Advance(monitor.Pause); return b.names() }())
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
		list := kittest.Expect[*messages.ListJobs](b.queue)
		require.True(t, list.All)
		require.Equal(t, core.Unknown, b.code(core.QueueName))
		b.send(&messages.ListJobsResult{Rows: []*messages.JobRow{{Id: 1, Info: queued(1, job.Queued)}, {Id: 2, Unknown: true}}})
		b.send(&messages.GetQueueStatusResult{Drained: true})
		b.send(&messages.JobStatesChanged{Jobs: []*messages.JobInfo{queued(2, job.Running)}, Archived: []int64{9}})
		q := b.data(core.QueueName)
		require.Equal(t, 1.0, q["jobs"].(map[string]any)["queued"])
		require.Equal(t, 1.0, q["jobs"].(map[string]any)["running"])
		require.Equal(t, true, q["drained"])
		require.Equal(t, 1.0, q["archived_total"])

		owner := lock.JobOwner(12, "/l", 3)
		b.send(&locks.OwnersPublished{Complete: true})
		b.send(&locks.OwnersPublished{Records: []lock.Record{{Owner: owner, Locks: []lock.Item{{Lock: lock.Member(lock.Node, "a"), Mode: lock.Exclusive}}}}})
		b.send(&locks.OwnersPublished{Dead: []lock.Owner{owner}})
		l := b.data(core.LocksName)
		require.Equal(t, 12.0, l["holder"])
		require.Equal(t, 1.0, l["dead_owners_total"])

		c := configtest.New(t)
		b.send(&configstore.CopyPublished{Config: c})
		require.Equal(t, float64(c.Serial), b.data(core.ConfigName)["serial"])
		require.True(t, b.board.last().Ready)
		require.Equal(t, 1.0, b.data(core.Processes)["orphans"], "job 7 is not known")
		require.Equal(t, 2.0, b.data(core.Lockstepd)["restarts"])
		require.Contains(t, string(b.board.last().AppendAll(nil, true)), "4711")
		require.NotContains(t, string(b.board.last().AppendAll(nil, false)), "4711")

		b.send(&messages.QueueStarted{})
		require.Equal(t, core.Unknown, b.code(core.QueueName), "the queue starts again")
		b.send(&messages.LocksStarted{})
		require.Equal(t, core.Unknown, b.code(core.LocksName))
	})
}

func TestManyChangesAreOneSnapshot(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.send(&messages.ListJobsResult{})
		before := len(b.board.shown)
		for i := range 1000 {
			b.Send(b.monitor, &messages.JobStatesChanged{Jobs: []*messages.JobInfo{queued(int64(i+1), job.Queued)}})
		}
		b.Advance(monitor.Pause)
		require.LessOrEqual(t, len(b.board.shown)-before, 2)
		require.Equal(t, 1000.0, b.data(core.QueueName)["jobs"].(map[string]any)["queued"])
	})
}

func TestACollectorThatHangsDelaysNoOther(t *testing.T) {
	onBench(t, func(b *bench, _ *monitor.Config) { b.sources.hang[core.DRBD] = true }, func(t *testing.T, b *bench) {
		b.Advance(monitor.Pause)
		require.NotContains(t, b.names(), core.DRBD, "nothing is known yet")
		for range 12 {
			b.Advance(time.Second)
		}
		require.Equal(t, "drbd does not answer for more than 10s", b.data(core.DRBD)["status"].(map[string]any)["message"])
		require.Equal(t, core.Unknown, b.code(core.DRBD))
		require.Equal(t, 1, b.sources.times(core.DRBD), "it is not asked again")
		require.Equal(t, 3, b.sources.times(core.DiskStats))
		require.Equal(t, core.Fine, b.code(core.DiskStats))
		b.sources.mu.Lock()
		late := b.sources.open[core.DRBD]
		b.sources.hang[core.DRBD] = false
		b.sources.mu.Unlock()
		b.send(late)
		require.Equal(t, core.Fine, b.code(core.DRBD))
		b.Advance(5 * time.Second)
		require.Equal(t, 2, b.sources.times(core.DRBD))
		b.send(&monitor.Gathered{Number: 1, Collector: core.DRBD, Err: errors.New("of a former incarnation")})
		require.Equal(t, core.Fine, b.code(core.DRBD))
	})
}

func TestFailuresAreData(t *testing.T) {
	onBench(t, func(b *bench, _ *monitor.Config) {
		b.sources.fails[core.DiskStats], b.sources.fails[core.Processes] = errors.New("permission denied"), errors.New("no /proc/77")
	}, func(t *testing.T, b *bench) {
		b.Advance(monitor.Pause)
		require.Equal(t, "permission denied", b.data(core.DiskStats)["error"])
		require.Equal(t, "the values cannot be read: no /proc/77", b.data(core.Processes)["status"].(map[string]any)["message"])
		require.NotContains(t, string(b.board.last().AppendAll(nil, false)), "/proc/77")
		require.Nil(t, b.board.last().Processes)
	})
}

func collectors(t *testing.T, all ...model.DictEntry[model.Collector]) *model.Config {
	c, _ := configtest.Change(configtest.Config(), 5, func(e *model.Edit) {
		configtest.Cluster(e, func(v *model.Cluster) { v.DataCollectors = all })
	})
	return c
}

func TestActivationAndIntervalsComeFromTheConfiguration(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.Advance(monitor.Pause)
		for range 10 {
			b.Advance(time.Second)
		}
		b.send(&configstore.CopyPublished{Config: collectors(t, model.DictEntry[model.Collector]{Key: core.DRBD, Value: model.Collector{Active: false, Interval: 5_000_000}},
			model.DictEntry[model.Collector]{Key: core.DiskStats, Value: model.Collector{Active: true, Interval: 30_000_000}},
			model.DictEntry[model.Collector]{Key: core.LocksName, Value: model.Collector{Active: false, Interval: 1}})})
		require.NotContains(t, b.names(), core.DRBD)
		require.NotContains(t, b.names(), core.LocksName)
		require.NotContains(t, string(b.board.last().Listing), "drbd")
		require.Nil(t, b.board.last().Locks)
		b.Advance(time.Second)
		drbd, disks, cpu := b.sources.times(core.DRBD), b.sources.times(core.DiskStats), b.sources.times(core.CPULoad)
		for range 60 {
			b.Advance(time.Second)
		}
		require.Equal(t, drbd, b.sources.times(core.DRBD))
		require.Equal(t, disks+2, b.sources.times(core.DiskStats))
		require.Equal(t, cpu+12, b.sources.times(core.CPULoad))
		b.send(&configstore.CopyPublished{Config: collectors(t)})
		b.Advance(time.Second)
		require.Contains(t, b.names(), core.DRBD, "without a setting it is active")
	})
}

func TestANodeOfAClusterFollowsItsRole(t *testing.T) {
	onBench(t, func(b *bench, c *monitor.Config) {
		c.Replicator = b.Probe("replicator").PID
	}, func(t *testing.T, b *bench) {
		b.Advance(monitor.Pause)
		require.Equal(t, core.NeedsYou, b.code(core.Replication), "no leader is known")
		require.False(t, b.board.last().Ready)
		members := []*messages.Member{{Name: "n1", Address: "a:1", Voter: true}, {Name: "n2", Address: "b:1", Voter: true}}
		b.send(&replicator.NodePublished{Self: "n1", Leader: "n2", Applied: 80, Members: members})
		c := configtest.New(t)
		b.send(&configstore.Loaded{State: journal.State{Config: c}})
		require.Equal(t, "follower", b.data(core.QueueName)["role"])
		require.Nil(t, b.data(core.QueueName)["jobs"])
		require.Equal(t, float64(c.Serial), b.data(core.ConfigName)["serial"])
		r := b.data(core.Replication)
		require.Equal(t, []any{"follower", 4.0, 90.0, 80.0, "n2"}, []any{r["role"], r["term"], r["commit_index"], r["applied_index"], r["leader"]})
		require.Nil(t, b.data(core.Processes)["orphans"])
		require.True(t, b.board.last().Ready)
		b.send(&configstore.Loaded{Failure: &messages.Failure{Text: "torn"}})
		require.Equal(t, core.NeedsYou, b.code(core.ConfigName))

		b.send(&replicator.NodePublished{Self: "n1", Master: true, Leader: "n1", Term: 5, Applied: 90, Members: members, CommitTimes: []time.Duration{time.Millisecond}})
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
		kittest.Expect[*locks.PublishOwners](b.locks)
		b.send(&messages.ListJobsResult{})
		require.Equal(t, core.Fine, b.code(core.QueueName))
		r = b.data(core.Replication)
		require.Equal(t, []any{"leader", 5.0, 0.001}, []any{r["role"], r["term"], r["commit_seconds"].(map[string]any)["p50"]})
		b.send(&configstore.CopyPublished{Config: c})
		require.Equal(t, core.Fine, b.code(core.ConfigName))
		b.send(&replicator.NodePublished{Self: "n1", Members: members})
		require.Equal(t, "follower", b.data(core.QueueName)["role"])
	})
}

func TestTheLeaderAsksForTheOtherNodes(t *testing.T) {
	var nodes *kittest.Probe
	onBench(t, func(b *bench, c *monitor.Config) {
		nodes = b.Probe("replicator")
		c.Replicator = nodes.PID
	}, func(t *testing.T, b *bench) {
		members := []*messages.Member{{Name: "n1", Voter: true}, {Name: "n2", Voter: true}}
		b.send(&replicator.NodePublished{Self: "n1", Master: true, Leader: "n1", Term: 5, Applied: 90, Members: members})
		b.Advance(time.Second)
		kittest.Expect[*replicator.PublishNode](nodes)
		m := kittest.Expect[*messages.GetNodes](nodes)
		require.True(t, m.WithStates)
		b.send(&messages.GetNodesResult{Request: m.Request, States: []*messages.NodeState{{Name: "n1", Answers: true, Applied: 90}, {Name: "n2", Answers: true, Applied: 85}}})
		require.Equal(t, []any{"n2", "", true, 85.0, 5.0}, b.data(core.Replication)["members"].([]any)[1].([]any)[:5])
		b.send(&messages.GetNodesResult{Request: m.Request + 100})
		require.Equal(t, map[string]uint64{"n1": 0, "n2": 5}, b.board.last().Replication.Lags)
	})
}

func TestStockNodes(t *testing.T) {
	var stock *kittest.Probe
	onBench(t, func(b *bench, c *monitor.Config) { stock = b.Probe("distributor"); c.Distributor = stock.PID }, func(t *testing.T, b *bench) {
		m := kittest.Expect[*distributor.GetNodes](stock)
		b.send(&distributor.GetNodesResult{Request: m.Request, Nodes: []distribution.NodeState{{Name: "node2", ConfigFile: distribution.FileState{Behind: 1, Failures: 3}, Ssconf: distribution.FileState{Behind: 2}}}})
		require.Equal(t, []any{"node2", nil, 3.0, 2.0}, b.data(core.Replication)["stock_nodes"].([]any)[0])
		require.Equal(t, core.Repairs, b.code(core.Replication))
	})
}

func TestACrashLosesHistoriesOnly(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.send(&messages.ListJobsResult{})
		b.Restart(b.monitor)
		b.Advance(time.Second)
		require.Equal(t, core.Unknown, b.code(core.QueueName))
		b.send(&messages.ListJobsResult{Rows: []*messages.JobRow{{Id: 1, Info: queued(1, job.Queued)}}})
		require.Equal(t, 1.0, b.data(core.QueueName)["jobs"].(map[string]any)["queued"])
		require.True(t, slices.Contains(b.names(), core.CPULoad))
	})
}

// candidates records the questions. It implements monitor.Candidates.
type candidates struct {
	mu      sync.Mutex
	numbers []uint64
}

func (c *candidates) Ask(number uint64, _ string, _ *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.numbers = append(c.numbers, number)
}

func TestANodeWithoutACopyAsksTheCandidates(t *testing.T) {
	c := &candidates{}
	onBench(t, func(_ *bench, config *monitor.Config) {
		config.Candidates, config.Queue, config.Locks, config.ConfigStore = c, nil, nil, nil
	}, func(t *testing.T, b *bench) {
		b.Advance(monitor.Pause)
		require.Equal(t, []string{core.CPULoad, core.DiskStats, core.DRBD, core.Lockstepd, core.ConfigName}, b.names(), "defaults before the first answer")
		require.Len(t, c.numbers, 1)
		answer := func(serial int64, active string) core.Answers {
			return core.Answers{Serial: serial, Minors: json.RawMessage(`[]`), Instances: json.RawMessage(`[[],[]]`),
				Collectors: json.RawMessage(`{"diskstats":{"active":` + active + `,"interval":5000000}}`)}
		}
		b.send(&monitor.Answered{Number: c.numbers[0], Answers: answer(7, "false")})
		require.NotContains(t, b.names(), core.DiskStats)
		for range 16 {
			b.Advance(time.Second)
		}
		require.Len(t, c.numbers, 2)
		b.send(&monitor.Answered{Number: c.numbers[1], Err: errors.New("no candidate answers")})
		require.NotContains(t, b.names(), core.DiskStats, "the last known settings stay")
		b.send(&monitor.Answered{Number: c.numbers[1], Answers: answer(6, "true")})
		require.NotContains(t, b.names(), core.DiskStats, "an older answer does not count")
		b.send(&monitor.Answered{Number: c.numbers[1], Answers: core.Answers{Serial: 9}})
		require.NotContains(t, b.names(), core.DiskStats, "an answer that cannot be understood does not count")
		b.send(&monitor.Answered{Number: c.numbers[1], Answers: answer(8, "true")})
		b.Advance(time.Second)
		require.Contains(t, b.names(), core.DiskStats)
	})
}
