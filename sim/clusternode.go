package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/sim/consensus"
	"lockstep/sim/simdisk"
	"lockstep/supervisor"
)

// clusterNode is the part of a node that only a cluster has.
type clusterNode struct {
	node     *node
	replica  *consensus.Replica
	expected *expectedFiles
	lease    time.Time // of this node's job processes, as in the lease file
	group    int       // nodes of different groups cannot reach each other
	slow     time.Duration
	wiped    bool // must be admitted before its daemon can start
	rebuilt  bool // the expected files start again
}

// foundCluster makes a cluster in which all nodes are voters with equal disks, and the oracle that knows what was committed.
func (w *World) foundCluster() {
	w.disk = simdisk.New(paths.QueueDir, paths.ArchiveDir, paths.QuarantineDir, paths.AuditDir, paths.ScheduleDir)
	w.oracle = &oracle{world: w, files: map[string][]byte{}, running: replication.RunningJobs{}}
	w.log = consensus.NewLog(w.kernel, w.clock, rand.New(rand.NewPCG(w.options.Seed, 0x7af7)))
	w.log.Mutations = w.mutations.Log
	w.log.Tracef = func(format string, args ...any) { w.trace.addf(topicLog, "log: "+format, args...) }
	w.log.Committed = w.oracle.committed
	w.log.Partitioned = func(a, b string) bool { return w.nodeNamed(a).cluster.group != w.nodeNamed(b).cluster.group }
	w.log.Delay = func(name string) time.Duration { return w.nodeNamed(name).cluster.slow }
	var members []*messages.Member
	for i := range w.options.Nodes {
		n := newNode(w, fmt.Sprintf("n%d", i+1))
		n.cluster = &clusterNode{node: n, replica: w.log.NewReplica(n.name)}
		n.cluster.replica.Files = n.snapshotFiles
		n.cluster.replica.Sync = func() error { return n.disk.SyncAll("note") }
		n.cluster.replica.Noting = n.markApplied
		n.cluster.replica.Failed = n.logFailed
		n.cluster.replica.Renewed = func(until time.Time) { n.cluster.renew(until) }
		w.nodes = append(w.nodes, n)
		members = append(members, &messages.Member{Name: n.name, Address: n.cluster.replica.Address, Voter: true})
	}
	w.node = w.nodes[0]
	for _, n := range w.nodes {
		if err := n.prepare(); err != nil {
			panic(fmt.Errorf("sim: %w", err)) // no fault is possible yet
		}
		n.cluster.replica.Found(members)
	}
	first := w.nodes[0].sharedFiles()
	for _, name := range sortedKeys(first) {
		w.oracle.apply(&messages.FileChange{What: &messages.FileChange_Update{Update: &messages.FileUpdate{Path: name, Content: first[name]}}})
	}
	w.oracle.initial = first
	w.oracle.configure(firstPosition(first))
	w.disk.Changed = w.diskChanged
	for _, n := range w.nodes {
		n.cluster.expected = w.oracle.newExpected(first)
	}
}

func (w *World) nodeNamed(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	panic("sim: there is no node " + name)
}

func (n *node) uuid() string { return n.name + "-uuid" }

// renew writes the lease of the job processes of this node: until when it leads.
func (m *clusterNode) renew(until time.Time) {
	if runs := m.replica.Active; runs != nil && !until.IsZero() {
		until = runs.LeadsUntil(until)
	}
	m.lease = until
}

// leaseExpired is for how long the lease of the node's job processes has been over; 0: it is valid, or none is needed.
func (n *node) leaseExpired() time.Duration {
	now := n.world.clock.Now()
	if !n.clustered() || n.world.mutations.NoLease || now.Before(n.cluster.lease) {
		return 0
	}
	return max(1, now.Sub(n.cluster.lease))
}

func (n *node) mayStart() bool { return !n.clustered() || !n.cluster.wiped }

// joinCluster starts the actors of a node of a cluster, with its part of the log.
func (d *daemon) joinCluster() {
	n := d.node
	m := n.cluster
	m.replica.Times = n.world.times.next()
	founded := m.replica.Fresh()
	runs := m.replica.Run(d.life, founded, func(to *actor.PID, what proto.Message) { d.env.System().Root.Send(to, what) })
	runs.Observe(m.applied, m.restored)
	if !m.replica.Restoring() {
		m.rebuildExpected(runs.AppliedIndex())
	}
	d.ports.Cluster = &supervisor.Cluster{
		Log:          runs,
		Name:         n.name,
		Applier:      replication.Applier{Node: n.uuid(), Incarnation: fmt.Sprintf("%s-run-%d", n.name, n.daemons), Unsynced: true},
		Times:        m.replica.Times,
		OnMastership: d.mastershipChanged,
		OnMembers:    func([]*messages.Member) {},
	}
	if n.world.options.Users {
		d.ports.Cluster.Peers, d.ports.Cluster.Tunnels = peers{d}, tunnels{d}
	}
	tree, err := supervisor.Node(d.ports, d.settings)
	if err != nil {
		panic(fmt.Errorf("sim: %w", err)) // a bug of the simulator
	}
	d.nodeTree, d.done, d.ready = tree, tree.Done, true
	n.daemon = d
	n.tracef(topicDaemon, "daemon %d starts", d.number)
	n.world.notify(daemonStarted{})
	d.endJobs(replication.Fence)
	d.requestVoting()
}

// logFailed ends the daemon, as lockstepd ends when its log has failed.
func (n *node) logFailed(err error) {
	_ = persistence.MarkSyncFailed(n.disk) // without the mark, the operator must not remove the log
	n.tracef(topicDaemon, "daemon %d ends, because its log has failed: %v", n.daemon.number, err)
	n.endDaemon()
}

// daemonEnded ends the running part of the log of this node, and its leadership.
func (m *clusterNode) daemonEnded() {
	if runs := m.replica.Active; runs != nil {
		m.expected.reachedIndex = max(m.expected.reachedIndex, runs.SentThrough())
	}
	m.replica.End()
	m.node.resignDecider()
}

// As in lockstepd.
const resignTransferMax = 3 * time.Second

// resign is the orderly stop of a node of a cluster: it completes everything accepted, and
// another node becomes the master.
func (d *daemon) resign() {
	root := d.env.System().Root
	end := func() { root.Stop(d.nodeTree.Root) }
	tree := d.tree
	if tree == nil {
		end()
		return
	}
	stop := func(any) {
		root.Stop(tree.Root)
		d.whenDone(tree.Done, end)
	}
	d.requestOK(tree.Root, &messages.Drain{}, drainMax, func(bool) {
		if replication.Voters(d.node.cluster.replica.Members()) > 1 {
			d.request(supervisor.Replicator(d.env), &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER}, resignTransferMax, stop)
		} else {
			stop(nil)
		}
	})
}

// whenDone calls then when a tree has ended, at which it looks every millisecond.
func (d *daemon) whenDone(done <-chan struct{}, then func()) {
	select {
	case <-done:
		then()
	default:
		d.world.clock.After(time.Millisecond, d.life, func() { d.whenDone(done, then) })
	}
}

// mastershipChanged is called by the supervisor. tree is the master part of the actors; nil: this node is the master no more.
func (d *daemon) mastershipChanged(tree *supervisor.Running) {
	d.tree = tree
	if tree != nil {
		d.node.tracef(topicDaemon, "is the master")
		d.node.becomeDecider()
		return
	}
	d.node.tracef(topicDaemon, "is the master no more")
	d.node.resignDecider()
	d.endJobs(replication.Fence)
}

// becomeDecider makes this node the deciding one, unless another node is the master by now.
func (n *node) becomeDecider() {
	if n.cluster.replica.Active.LeadsLatest() {
		n.world.decider = n
		n.world.notify(deciderStarted{})
	}
}

func (n *node) resignDecider() {
	if n.world.decider == n {
		n.world.decider = nil
	}
}

// endJobs kills the processes and commands of all jobs after a while, if this node is not the master then. A cluster of one voter keeps
// them.
func (d *daemon) endJobs(after time.Duration) {
	d.world.clock.After(after, d.life, func() {
		n, m := d.node, d.node.machine
		if d.tree != nil || replication.Voters(d.node.cluster.replica.Members()) == 1 {
			return
		}
		for _, p := range append([]*process(nil), m.processes...) {
			p.kill("SIGKILL")
		}
		for _, c := range append([]*command(nil), m.commands...) {
			c.end("killed: this node is not the master any more")
		}
		for livelock, p := range m.livelocks {
			isProgram := slices.ContainsFunc(n.world.programs, func(other *program) bool { return other.process == p })
			if p != nil && !isProgram {
				delete(m.livelocks, livelock)
			}
		}
	})
}

// voteRetryPause is as in lockstepd.
const voteRetryPause = 2 * time.Second

// requestVoting sends join requests as long as this node has no vote, or does not use the times of elections that it knows.
func (d *daemon) requestVoting() {
	r := d.node.cluster.replica
	d.world.clock.AfterIdle(voteRetryPause, d.life, func() {
		if known := r.Times.Heartbeat; !r.Voter(d.node.name) || d.tree == nil && r.Active.HeartbeatTimeout() > known {
			request := &messages.AdmitNode{Applied: r.Active.AppliedIndex()}
			if known < replication.ElectionMin {
				request.HeartbeatMs = known.Milliseconds()
			}
			d.node.requestJoin(request, func(*messages.AdmitNodeResult) {})
		}
		d.requestVoting()
	})
}

// requestJoin sends a join request to the master, if one can be reached.
func (n *node) requestJoin(request *messages.AdmitNode, answered func(*messages.AdmitNodeResult)) {
	request.Name, request.Address, request.Voting = n.name, n.cluster.replica.Address, true
	for _, other := range n.world.nodes {
		if other == n || other.daemon == nil || other.daemon.tree == nil || other.cluster.group != n.cluster.group {
			continue
		}
		other.daemon.request(supervisor.Replicator(other.daemon.env), request, 5*time.Second, func(answer any) {
			if a, is := answer.(*messages.AdmitNodeResult); is {
				answered(a)
			}
		})
		return
	}
}

// wipe removes the content of the disk, and all that runs on the machine. The node joins again.
func (n *node) wipe() {
	n.tracef(topicFault, "the disk is wiped")
	n.machine.losePower()
	if n.daemon != nil {
		n.endDaemon()
	}
	n.rejoinAsNew()
}

// rejoinAsNew makes the node join again without any data.
func (n *node) rejoinAsNew() {
	m := n.cluster
	m.wiped, m.lease = true, time.Time{}
	n.world.notify(joinsAsNew{})
	m.replica.Wipe()
	n.newDisk()
	n.world.injector.attachDisk(n)
	m.expected = n.world.oracle.newExpected(nil)
	m.expected.reachedIndex = n.world.log.CommittedIndex()
	n.requestAdmission()
}

// loseQueue is a power loss after which the queue's directory is missing, as when a disk is not
// mounted. The rest of the data directory stays.
func (n *node) loseQueue() { n.losePowerAndQueue("the machine loses power, and queue/") }

func (n *node) losePowerAndQueue(trace string) {
	n.tracef(topicFault, "%s", trace)
	n.machine.losePower()
	n.disk.LosePower(n.world.rng)
	if n.daemon != nil {
		n.endDaemon()
	}
	disk := n.disk
	n.newDisk()
	n.world.injector.attachDisk(n)
	n.disk.TakeDirs(disk, ".", paths.AuditDir, paths.ScheduleDir, logDir)
}

// checkQueue is as in lockstepd: it refuses to start without the queue that the node had. It is exempt from faults of the disk, so that
// the random choices of old seeds stay the same.
func (n *node) checkQueue() error {
	chance := n.disk.Chance
	n.disk.Chance = nil
	defer func() { n.disk.Chance = chance }()
	mark := func() error { return persistence.MarkQueue(n.disk, fmt.Sprintf("%s-%d", n.name, n.daemons)) }
	if n.disk.Find(paths.ConfigPath) == nil && n.disk.Unsynced(paths.QueueDir) {
		// As persistence.MakeDirs: directories of an interrupted first start are durable before
		// there is a configuration.
		if err := n.disk.SyncDir("make-dirs", paths.QueueDir); err != nil {
			return err
		}
	}
	switch {
	case !n.clustered():
		return persistence.CheckQueue(n.disk)
	case n.cluster.replica.Fresh():
		if err := mark(); err != nil {
			return err
		}
		return persistence.MarkNeedsLog(n.disk, n.machine.boot())
	case n.world.mutations.AdmitLostQueue:
		return nil
	}
	marked, err := persistence.CheckQueueMark(n.disk)
	if err == nil && !marked {
		err = mark()
	}
	if err == nil {
		err = persistence.MarkNeedsLog(n.disk, n.machine.boot())
	}
	return err
}

// markApplied is as in lockstepd, and exempt from faults like checkQueue.
func (n *node) markApplied(index uint64) error {
	chance := n.disk.Chance
	n.disk.Chance = nil
	defer func() { n.disk.Chance = chance }()
	return persistence.MarkApplied(n.disk, index)
}

// copyOrRestoreQueue copies queue/, as a snapshot of its file system does, or restores the copy that was made before.
func (n *node) copyOrRestoreQueue() {
	if older := n.older; older != nil {
		n.older = nil
		n.restoreQueue(older)
		return
	}
	n.tracef(topicFault, "queue/ is copied")
	n.older = n.copyQueue()
}

// copyQueue is a copy of the node's queue, with all files durable.
func (n *node) copyQueue() *simdisk.Disk {
	dirs := n.disk.Dirs(paths.QueueDir)
	older := simdisk.New(dirs...)
	for _, dir := range dirs {
		for name, f := range n.disk.Files(dir) { // the order does not matter
			older.Overwrite(dir+"/"+name, f.Data)
		}
	}
	return older
}

// restoreQueue is a power loss after which an older copy of queue/ is in its place, as when a snapshot of its file system was restored.
func (n *node) restoreQueue(older *simdisk.Disk) {
	n.losePowerAndQueue("the machine loses power, and queue/ is replaced by an older copy")
	n.disk.TakeDirs(older, older.Dirs(paths.QueueDir)...)
}

// settle is the end of an orderly stop: the files do not depend on the log afterwards, and an operator may remove it.
func (d *daemon) settle() {
	n := d.node
	runs := n.cluster.replica.Active
	if runs == nil || n.disk.Find(paths.NeedsLogPath) == nil {
		return
	}
	settle := persistence.SettleFiles
	if n.world.mutations.LeavesUnsynced {
		settle = func(files persistence.LoggedFiles, _ string, _ bool) error {
			return files.Remove("mark-log", paths.NeedsLogPath)
		}
	}
	if err := settle(n.disk, n.machine.boot(), runs.Reapplied()); err != nil {
		n.tracef(topicDaemon, "the files still need the log: %v", err)
	}
	if n.disk.Find(paths.NeedsLogPath) == nil {
		n.world.notify(filesSettled{n})
	}
}

// requestAdmission asks every second whether this node is a member, until it is, and then starts its daemon.
func (n *node) requestAdmission() {
	w := n.world
	w.clock.After(time.Second, w.life, func() {
		if !n.cluster.wiped {
			return
		}
		n.requestJoin(&messages.AdmitNode{Fresh: true}, func(a *messages.AdmitNodeResult) {
			if a.Member && a.Failure == nil && n.cluster.wiped {
				n.cluster.wiped = false
				n.startAgain()
			}
		})
		n.requestAdmission()
	})
}

// pause suspends the daemon for d; the processes of its jobs continue.
func (n *node) pause(d time.Duration) {
	n.tracef(topicFault, "the daemon is stopped for %v", d)
	l := n.daemon.life
	l.Paused = true
	n.world.clock.After(d, n.world.life, func() {
		if l.Paused {
			n.world.clock.Resume(l, n.world.kernel)
		}
		if !l.Over {
			n.tracef(topicFault, "the daemon goes on")
			n.world.notify(daemonGoesOn{n})
		}
	})
}
