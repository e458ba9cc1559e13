package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// member is what a node of a cluster has besides.
type member struct {
	node    *node
	replica *replica
	mirror  *mirror
	lease   time.Time // of this node's job processes, as its file has it
	group   int       // nodes of different ones cannot reach each other
	slow    time.Duration
	wiped   bool // it is to be admitted before its daemon can start
	restart bool // the mirror begins again
}

// found makes a cluster whose nodes are all voters, with disks that are alike.
func (w *World) found() {
	w.disk = NewDisk("queue", "queue/archive", "queue/quarantine")
	w.truth = &truth{world: w, files: map[string][]byte{}, running: replication.Running{}}
	w.log = newConsensus(w.steps, w.clock, rand.New(rand.NewPCG(w.options.Seed, 0x7af7)))
	w.log.plants = w.plants.Log
	w.log.say = func(format string, args ...any) { w.trace.say(TopicLog, "log: "+format, args...) }
	w.log.committed = w.truth.committed
	w.log.cut = func(a, b string) bool { return w.named(a).member.group != w.named(b).member.group }
	w.log.lag = func(name string) time.Duration { return w.named(name).member.slow }
	var members []*messages.Member
	for i := range w.options.Nodes {
		n := newNode(w, fmt.Sprintf("n%d", i+1))
		n.member = &member{node: n, replica: w.log.newReplica(n.name)}
		n.member.replica.files = n.frozen
		n.member.replica.sync = func() error { return n.disk.SyncDir("note", paths.QueueDir) }
		n.member.replica.renewed = func(until time.Time) { n.member.renew(until) }
		w.nodes = append(w.nodes, n)
		members = append(members, &messages.Member{Name: n.name, Address: n.member.replica.address, Voter: true})
	}
	w.node = w.nodes[0]
	for _, n := range w.nodes {
		if err := n.prepare(); err != nil {
			panic(fmt.Errorf("sim: %w", err)) // nothing fails yet
		}
		n.member.replica.found(members)
	}
	first := w.nodes[0].sharedFiles()
	for _, name := range sortedKeys(first) {
		w.truth.promise(&messages.FileChange{What: &messages.FileChange_Update{Update: &messages.FileUpdate{Path: name, Content: first[name]}}})
	}
	w.truth.first = first
	w.disk.changed = w.diskChanged
	for _, n := range w.nodes {
		n.member.mirror = w.truth.newMirror(first)
	}
}

func (w *World) named(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	panic("sim: there is no node " + name)
}

func (n *node) uuid() string { return n.name + "-uuid" }

// renew is the file that says until when this node is the master.
func (m *member) renew(until time.Time) {
	if runs := m.replica.runs; runs != nil && !until.IsZero() {
		until = runs.leadsUntil(until)
	}
	m.lease = until
}

// holds: the node is the master, as its job processes see it.
func (n *node) holds() bool {
	return !n.clustered() || n.world.plants.NoLease || n.world.clock.now.Before(n.member.lease)
}

func (n *node) mayStart() bool { return !n.clustered() || !n.member.wiped }

// joinCluster starts the actors of a node of a cluster.
func (d *daemon) joinCluster() {
	n := d.node
	m := n.member
	founded := m.replica.fresh()
	runs := m.replica.run(d.life, founded, func(to *actor.PID, what proto.Message) { d.env.System().Root.Send(to, what) })
	runs.desk.told = m.applied
	runs.desk.restored = m.restored
	if m.replica.restoring == nil {
		m.begin(runs.desk.applied)
	}
	d.ports.Cluster = &supervisor.Cluster{Log: runs, Name: n.name, Self: replication.Self{Node: n.uuid(), Run: fmt.Sprintf("%s-run-%d", n.name, n.daemons)},
		Mastership: d.mastership, Members: func([]*messages.Member) {}}
	whole, err := supervisor.Node(d.ports, d.settings)
	if err != nil {
		panic(fmt.Errorf("sim: %w", err)) // the world is built wrongly
	}
	d.whole, d.done, d.ready = whole, whole.Done, true
	n.daemon = d
	n.say(TopicDaemon, "daemon %d starts", d.number)
	n.world.notify(daemonStarted{})
	d.endJobs(replication.Fence)
	d.askForVote()
}

// daemonEnded: the log of the node ends with it.
func (m *member) daemonEnded() {
	if runs := m.replica.runs; runs != nil {
		m.mirror.reached = max(m.mirror.reached, runs.desk.through)
	}
	m.replica.end()
	m.node.loseCharge()
}

// As in lockstepd.
const handOver = 3 * time.Second

// resign is the orderly stop of a node of a cluster: what was accepted is finished, and
// another node becomes the master.
func (d *daemon) resign() {
	root := d.env.System().Root
	end := func() { root.Stop(d.whole.Root) }
	tree := d.tree
	if tree == nil {
		end()
		return
	}
	stop := func(any) {
		root.Stop(tree.Root)
		d.whenDone(tree.Done, end)
	}
	d.ask(tree.Root, &messages.Drain{}, drainMax, func(bool) {
		if replication.Voters(d.node.member.replica.members()) > 1 {
			d.question(supervisor.Replicator(d.env), &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER}, handOver, stop)
		} else {
			stop(nil)
		}
	})
}

// whenDone goes on when a tree has ended.
func (d *daemon) whenDone(done <-chan struct{}, then func()) {
	select {
	case <-done:
		then()
	default:
		d.world.clock.after(time.Millisecond, d.life, func() { d.whenDone(done, then) })
	}
}

// mastership is told by the supervisor.
func (d *daemon) mastership(tree *supervisor.Running) {
	d.tree = tree
	if tree != nil {
		d.node.say(TopicDaemon, "is the master")
		d.node.takeCharge()
		return
	}
	d.node.say(TopicDaemon, "is the master no more")
	d.node.loseCharge()
	d.endJobs(replication.Fence)
}

// takeCharge: this node is the master, unless another one is by now.
func (n *node) takeCharge() {
	if r := n.member.replica.runs; r.role == leads && r.term == n.world.log.latestTerm() {
		n.world.charge = n
		n.world.notify(tookCharge{})
	}
}

func (n *node) loseCharge() {
	if n.world.charge == n {
		n.world.charge = nil
	}
}

// endJobs makes away with what is left of jobs, where this node is not the master
// after so long.
func (d *daemon) endJobs(after time.Duration) {
	d.world.clock.after(after, d.life, func() {
		m := d.node.machine
		if d.tree != nil || replication.Voters(d.node.member.replica.members()) == 1 {
			return
		}
		for _, p := range append([]*process(nil), m.processes...) {
			p.kill("SIGKILL")
		}
		for _, c := range append([]*command(nil), m.commands...) {
			c.end("killed: this node is not the master any more")
		}
		for livelock, p := range m.livelocks {
			if p != nil {
				delete(m.livelocks, livelock)
			}
		}
	})
}

// voterPause is as in lockstepd.
const voterPause = 2 * time.Second

// askForVote asks again and again, whenever this node has none.
func (d *daemon) askForVote() {
	r := d.node.member.replica
	d.world.clock.after(voterPause, d.life, func() {
		if !r.voter(r.name) {
			d.node.wishes(&messages.AdmitNode{Applied: r.runs.desk.applied}, func(*messages.NodeAdmitted) {})
		}
		d.askForVote()
	})
}

// wishes asks whoever is the master, and can be reached.
func (n *node) wishes(wish *messages.AdmitNode, answered func(*messages.NodeAdmitted)) {
	wish.Name, wish.Address, wish.Voting = n.name, n.member.replica.address, true
	for _, other := range n.world.nodes {
		if other == n || other.daemon == nil || other.daemon.tree == nil || other.member.group != n.member.group {
			continue
		}
		other.daemon.question(supervisor.Replicator(other.daemon.env), wish, 5*time.Second, func(answer any) {
			if a, is := answer.(*messages.NodeAdmitted); is {
				answered(a)
			}
		})
		return
	}
}

// wipe takes the disk away. The node asks to be a member again.
func (n *node) wipe() {
	n.say(TopicFault, "the disk is wiped")
	n.machine.losePower()
	if n.daemon != nil {
		n.endDaemon()
	}
	n.comeAsNew()
}

// comeAsNew has the node ask to be a member as one that has nothing.
func (n *node) comeAsNew() {
	m := n.member
	m.wiped, m.lease = true, time.Time{}
	m.replica.wipe()
	n.newDisk()
	n.world.chaos.haunt(n)
	m.mirror = n.world.truth.newMirror(nil)
	m.mirror.reached = n.world.log.known
	n.askAdmission()
}

// loseQueue takes the power, and then the queue's directory, as a disk does that is not
// mounted again. The rest of the data directory is there.
func (n *node) loseQueue() {
	n.say(TopicFault, "the machine loses power, and queue/")
	n.machine.losePower()
	n.disk.LosePower(n.world.rng)
	if n.daemon != nil {
		n.endDaemon()
	}
	disk := n.disk
	n.newDisk()
	n.world.chaos.haunt(n)
	n.disk.dirs["."], n.disk.dirs[logDir] = disk.dirs["."], disk.dirs[logDir]
}

// checkQueue is as in lockstepd. It is spared by the faults of the disk: the dice fall as
// they did before there was anything to check.
func (n *node) checkQueue() error {
	chance := n.disk.chance
	n.disk.chance = nil
	defer func() { n.disk.chance = chance }()
	mark := func() error { return persistence.MarkMember(n.disk, fmt.Sprintf("%s-%d", n.name, n.daemons)) }
	if n.disk.find(paths.ConfigPath) == nil && len(n.disk.dirs[paths.QueueDir].pending) > 0 {
		// As persistence.MakeDirs: what a first start that was cut off has made is durable
		// before there is a configuration.
		if err := n.disk.SyncDir("make-dirs", paths.QueueDir); err != nil {
			return err
		}
	}
	switch {
	case !n.clustered():
		return persistence.CheckQueue(n.disk)
	case n.member.replica.fresh():
		return mark()
	case n.world.plants.LetsIn:
		return nil
	}
	marked, err := persistence.CheckMember(n.disk)
	if err == nil && !marked {
		err = mark()
	}
	return err
}

// askAdmission asks every second whether this node is a member.
func (n *node) askAdmission() {
	w := n.world
	w.clock.after(time.Second, w.life, func() {
		if !n.member.wiped {
			return
		}
		n.wishes(&messages.AdmitNode{Fresh: true}, func(a *messages.NodeAdmitted) {
			if a.Member && a.Failure == nil && n.member.wiped {
				n.member.wiped = false
				n.startAgain()
			}
		})
		n.askAdmission()
	})
}

// pause stops the daemon short; the processes of its jobs go on.
func (n *node) pause(d time.Duration) {
	n.say(TopicFault, "the daemon is stopped for %v", d)
	l := n.daemon.life
	l.paused = true
	n.world.clock.after(d, n.world.life, func() {
		if l.paused {
			n.world.clock.resume(l, n.world.steps)
		}
		if !l.over {
			n.say(TopicFault, "the daemon goes on")
		}
	})
}
