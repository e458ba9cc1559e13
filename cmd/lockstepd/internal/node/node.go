// Package node is the daemon of one node of a cluster (design.md "Replication"): the consensus log, the port for other nodes, membership,
// and the lease of job processes.
//
// It keeps the log, the identity of the node and the lease on the disk. After a crash the next start goes on from them.
package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/datadir"
	"lockstep/cmd/lockstepd/internal/janitor"
	"lockstep/cmd/lockstepd/internal/listeners"
	"lockstep/cmd/lockstepd/internal/service"
	"lockstep/core/opcode"
	"lockstep/core/replication"
	"lockstep/edge/peer"
	"lockstep/edge/raftlog"
	"lockstep/edge/socket"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

// node is the daemon of one node of a cluster.
type node struct {
	*service.Service
	identity    *peer.Identity
	credentials *peer.Credentials
	client      *peer.Client
	listener    *peer.Listener
	raft        *raftlog.Log
	tree        *supervisor.RunningNode
	lease       *persistence.Lease

	master     atomic.Pointer[supervisor.Running] // nil: another node is
	raftFailed chan error                         // the log has failed; at most one
	opcodes    atomic.Pointer[opcode.Catalogue]   // opcodes declared since the start
	voters     atomic.Int64
	// unsynced says that entries are applied without a sync of each file, because the file systems report errors.
	unsynced     bool
	synced       syncTimes
	syncFailed   atomic.Bool        // a sync of the replicated files has failed
	members      []*messages.Member // as the replicator has reported them last
	removedNames []string           // members that were removed since the start of the daemon
	lostNames    []string           // see peer.Identity

	peerUpdates chan peerUpdate // for savePeers; the latest only
}

// Run runs the daemon of a node of a cluster until stop ends, or until the log or the actors fail.
func Run(d *service.Service, identity *peer.Identity, stop context.Context) (err error) {
	n := &node{
		Service:     d,
		identity:    identity,
		raftFailed:  make(chan error, 1),
		lostNames:   identity.Lost,
		peerUpdates: make(chan peerUpdate, 1),
	}
	if err := n.open(); err != nil {
		return err
	}
	defer func() { _ = n.listener.Close() }() // its error has no consequence
	if n.unsynced, err = n.Files.HoldFileSystems(); err != nil {
		return err
	}
	if err := n.openLog(stop); err != nil {
		return err
	}
	n.Ports.Opcodes = nodeOpcodes{n}
	n.Ports.Cluster = &supervisor.Cluster{
		Log:          n.raft,
		Peers:        &peers{n},
		Tunnels:      &tunnels{n.credentials, n.Env.System().Root},
		Name:         identity.Name,
		Applier:      replication.Applier{Node: identity.UUID, Incarnation: uuid.NewString(), Unsynced: n.unsynced},
		Times:        replication.KnownTimes(),
		OnMastership: n.onMastership,
		OnMembers:    n.onMembers,
	}
	tree, err := supervisor.Node(n.Ports, n.Settings)
	if err != nil {
		return errors.Join(err, n.raft.Close())
	}
	n.tree = tree
	n.Mond.SetLog(n.raft.State)
	n.RemoteAPI.AddCollectors(n.gauges()...)
	go n.servePeers()
	err = n.serveNode(stop)
	reapplied := n.raft.Reapplied()
	if err = errors.Join(err, n.raft.Close()); err == nil {
		err = n.settle(reapplied)
	}
	return err
}

// open loads the certificates, marks the queue as a cluster's, takes over the lease, and listens for other nodes.
func (n *node) open() (err error) {
	if n.credentials, err = peer.LoadCredentials(n.Config.DataDir); err != nil {
		return err
	}
	if err := persistence.ReplaceFile(filepath.Join(n.Config.DataDir, datadir.MemberMark), []byte(n.identity.Name+"\n"), 0o640); err != nil {
		return fmt.Errorf("mark the queue as a cluster's: %w", err)
	}
	n.client = peer.NewClient(n.credentials)
	if n.lease, err = persistence.CreateLease(n.Config.RunDir); err != nil {
		return err
	}
	n.listener, err = peer.Listen(n.listenAddress(), n.credentials, peer.ListenOptions{Log: n.Log, Table: n.RemoteAPI.Table})
	return err
}

// listenAddress is the node's address, unless a flag sets another one, as it must behind a
// router.
func (n *node) listenAddress() string {
	if n.Config.NodeListen != "" {
		return n.Config.NodeListen
	}
	return n.identity.Address
}

// openLog opens the consensus log. A node without a log must be admitted first: the other nodes
// may still count it as a node that has one.
func (n *node) openLog(stop context.Context) error {
	dir := filepath.Join(n.Config.DataDir, datadir.RaftDir)
	config := raftlog.Config{
		Dir:          dir,
		Name:         n.identity.Name,
		Address:      n.identity.Address,
		Founder:      datadir.IsFounder(n.identity),
		System:       n.Env.System(),
		Log:          n.Log,
		Sync:         n.syncApplied,
		Noting:       func(index uint64) error { return persistence.MarkApplied(n.Files, index) },
		LeaseRenewed: n.onLeaseRenewed,
		Failed:       n.reportRaftFailure,
		Urgent:       replication.ChangesConfig,
		Freeze: func() (raftlog.Frozen, error) {
			f, err := persistence.Freeze(n.Config.DataDir, dir, n.committedFiles)
			return frozen{f}, err
		},
		Timing:   raftlog.Timing{Heartbeat: replication.ElectionMin, Election: replication.ElectionMin, Lease: replication.Lease},
		Shortest: replication.KnownTimes(),
	}
	if err := persistence.SweepFrozen(dir); err != nil {
		return err
	}
	recovering, err := peer.RecoveryRequested(n.Config.DataDir)
	if err != nil {
		return err
	}
	if recovering {
		if err := n.recoverCluster(config); err != nil {
			return err
		}
	}
	if !datadir.HasLog(n.Config.DataDir) {
		if err := n.awaitLogAllowed(stop); err != nil {
			return err
		}
	}
	if n.unsynced {
		if err := persistence.MarkNeedsLog(n.Files, n.Settings.BootID); err != nil {
			return err
		}
	} else {
		n.Log.Warn("the file systems of the queue are not known to report errors to syncfs; each file of an entry is synced, which is slower")
	}
	config.Streams = raftlog.Streams(n.listener.Raft(), func(ctx context.Context, address string) (net.Conn, error) {
		return n.credentials.Dial(ctx, address, peer.ProtocolRaft)
	})
	n.raft, err = raftlog.Open(config)
	return err
}

func (n *node) reportRaftFailure(err error) {
	select {
	case n.raftFailed <- err:
	default: // a failure has been reported
	}
}

// committedFiles returns the files of jobs that run on this node, and of the configuration, as they are in the log.
func (n *node) committedFiles() (map[string][]byte, error) {
	answer, err := n.Env.System().Root.RequestFuture(supervisor.Replicator(n.Env), &messages.GetCommittedFiles{}, requestTimeout).Result()
	if err != nil {
		return nil, err
	}
	m := answer.(*messages.GetCommittedFilesResult)
	if m.Failure != nil {
		return nil, m.Failure
	}
	contents := map[string][]byte{}
	for _, f := range m.Files {
		contents[f.Path] = f.Content
	}
	return contents, nil
}

// frozen adapts a frozen copy of package persistence to raftlog.Frozen.
type frozen struct{ *persistence.Frozen }

func (f frozen) Files() []raftlog.FrozenFile {
	files := make([]raftlog.FrozenFile, len(f.Frozen.Files))
	for i, file := range f.Frozen.Files {
		files[i] = raftlog.FrozenFile{Path: file.Path, Size: file.Size}
	}
	return files
}

// serveNode accepts connections until the daemon is stopped or fails. A stop hands the mastership over and completes what was accepted.
func (n *node) serveNode(stop context.Context) error {
	gateways := listeners.Gateways{Luxi: n.luxiGateway, Wconfd: n.wconfdGateway, Accounts: n.Accounts, Nodes: &outputNodes{n}}
	open, err := listeners.Open(n.Config, nil, n.Env, gateways, n.RemoteAPI, n.Mond)
	if err != nil {
		return err
	}
	luxiOptions := listeners.QueueOptions(n.Config, n.RemoteAPI.Table)
	luxiOptions.Forwards = true
	tunnelled := socket.NewListener(n.listener.Luxi(), luxiOptions)
	go func() { _ = tunnelled.Serve(n.Env.System(), n.luxiGateway) }() // ends with the listener
	forwarded := n.listener.Output()
	go func() { _ = open.Outputs().ServeNodes(forwarded) }() // ends with the listener
	n.Log.WithFields(logrus.Fields{"node": n.identity.Name, "address": n.identity.Address}).Info("cluster member started")
	n.Announce("lockstepd started: connections are accepted")
	background, end := context.WithCancel(stop)
	defer end()
	go n.Watchdog(background, supervisor.Replicator(n.Env), &messages.GetNodes{})
	go janitor.Run(background, n.Log, n.Files, n.Config, n.raft.Reapplied)
	go n.requestMembership(background)
	go n.savePeers(background)
	go n.ReloadOpcodes(background, func(c *opcode.Catalogue) {
		n.opcodes.Store(c)
		supervisor.SetOpcodes(n.Env, c)
	})
	go n.endJobs(background)
	select {
	case <-stop.Done():
	case err := <-n.raftFailed:
		return errors.Join(fmt.Errorf("the consensus log has failed: %w", err), open.Close())
	case <-n.tree.Done:
		return errors.Join(service.ErrTreeFailed, open.Close())
	}
	n.AnnounceStop("stopping")
	err = errors.Join(open.Close(), tunnelled.Close(), forwarded.Close())
	n.resign()
	n.Drain(n.tree.Root)
	n.Env.System().Root.Stop(n.tree.Root)
	<-n.tree.Done
	open.Wait(service.AnswersTimeout)
	return err
}

// transferTimeout is how long an orderly stop waits for another node to become the master.
const transferTimeout = 3 * time.Second

// resign completes everything accepted, and transfers the mastership to another node. A node that is not the master does nothing.
func (n *node) resign() {
	running := n.master.Load()
	if running == nil {
		return
	}
	n.Drain(running.Root)
	if n.voters.Load() > 1 {
		handOver := &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER}
		_, err := n.Env.System().Root.RequestFuture(supervisor.Replicator(n.Env), handOver, transferTimeout).Result()
		if err != nil {
			n.Log.WithField("err", err).Warn("hand-over of the mastership failed; the other nodes elect a master when the lease has expired")
		}
	}
	supervisor.StopMaster(n.Env)
	<-running.Done
}

// luxiGateway returns the actor that serves connections of LUXI now: the master's, or that of a node that is not the master.
func (n *node) luxiGateway() *actor.PID {
	if running := n.master.Load(); running != nil {
		return running.Luxi
	}
	return n.tree.Standby
}

func (n *node) wconfdGateway() *actor.PID {
	if running := n.master.Load(); running != nil {
		return running.Wconfd
	}
	return n.tree.Standby
}

// onMastership is called by the supervisor, see supervisor.Cluster. running is the master part of the tree; nil: this node is not the
// master.
func (n *node) onMastership(running *supervisor.Running) {
	n.master.Store(running)
	if catalogue := n.opcodes.Load(); running != nil && catalogue != nil {
		supervisor.SetOpcodes(n.Env, catalogue)
	}
}
