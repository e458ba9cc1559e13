// Package replicator is the actor in front of the consensus log, on a node of a
// cluster (design.md 9).
//
// It owns the way from a request that changes a shared file to that change on the
// disks of a majority, and the order in which this node applies what was committed.
// To the actors of the master it is the store: what only this node knows it passes
// on. It may further be asked to observe what job processes have written, who the
// nodes are, and to change them. It tells the node's supervisor when to start and
// stop the master part of the tree. Nothing but the running jobs is its own memory,
// and these it has from the log; after a crash it attaches to the log anew, which
// repeats what was not applied, and those who asked for changes send them again.
package replicator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/replication"
	"lockstep/messages"
)

// Config is what the replicator needs.
type Config struct {
	Env   *kit.Env
	Log   Log
	Store *actor.PID
	// Master is told BecomeMaster and ResignMaster.
	Master *actor.PID
	// Standby is told, as LogLeaderChanged, who the master is.
	Standby *actor.PID
	// Clients are told of each new incarnation, and of each mastership.
	Clients []*actor.PID
	Peers   Peers                    // nil: nobody asks about other nodes
	Members func([]*messages.Member) // is told who belongs to the cluster; nil: nobody is
	Name    string                   // of this node
	Self    replication.Applier
}

// Props makes the replicator. Its incarnations are numbered from 1.
func Props(c Config) *actor.Props {
	incarnation, masterships := uint32(0), uint64(0)
	return c.Env.Props("replicator", func() actor.Actor {
		incarnation++
		return &replicator{
			config: c, incarnation: incarnation, storeIncarnation: &masterships, running: replication.RunningJobs{}, contents: map[int64][]byte{}, proposals: map[uint64]*proposal{}, touched: map[string]int{}, latest: map[string]*proposal{},
			jobFiles: map[int64]*pendingJobFile{}, changes: map[uint64]requester{}, peerQueries: map[uint64]peerQuery{}, quarantining: map[string]bool{}, joinRequests: map[string]joinRequest{},
			store: store.NewClient(c.Store, incarnation),
			last:  uint64(incarnation) << 32, oldest: uint64(incarnation) << 32, // proposals of a former incarnation are not this one's
		}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Escalate})))
}

type replicator struct {
	config           Config
	incarnation      uint32
	store            *store.Client
	storeIncarnation *uint64 // of this one as a store; it rises over incarnations

	// what the log says
	running   replication.RunningJobs
	contents  map[int64][]byte // of the files of jobs that run on this node, as it has them
	attached  bool             // what the log says is for this incarnation
	applied   uint64
	members   []*messages.Member
	leads     bool   // the log says so
	term      uint64 // since when
	master    bool   // that, and what jobs here wrote before, is in the log: requests are taken
	leader    string // while leads is false; "": not known
	address   string
	applying  *batch
	restoring *messages.LogSnapshotReceived // part of a snapshot that is on its way to the disk
	restored  replication.RunningJobs       // by that snapshot
	files     map[string]bool               // of that snapshot

	last          uint64 // proposal
	oldest        uint64 // that is not on the disk yet, or a number before it
	proposals     map[uint64]*proposal
	touched       map[string]int       // by path: proposals that are not on the disk yet
	latest        map[string]*proposal // by path: the last one that no majority has yet
	deferredReads []deferredRead       // behind those
	quarantining  map[string]bool      // names in the quarantine that are on their way
	jobFiles      map[int64]*pendingJobFile
	changes       map[uint64]requester // of membership, by number
	peerQueries   map[uint64]peerQuery
	joinRequests  map[string]joinRequest // of nodes that could be given a vote
	failure       *messages.Failure      // the disk refuses what is to be applied
}

type requester struct {
	pid     *actor.PID
	request uint64
}

// retryPause is before something is tried again that was refused for now.
const retryPause = 100 * time.Millisecond

// retry is due some time after something has failed. That of a former incarnation is
// about what nobody waits for any more.
type retry struct {
	incarnation uint32
	what        func(actor.Context)
}

func (r *replicator) Receive(ctx actor.Context) {
	if r.store.Handle(ctx) {
		return
	}
	if !r.attached && fromLog(ctx.Message()) {
		return // for a former incarnation: it comes again
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		*r.storeIncarnation++
		// A master part that goes on would have asked somebody who has forgotten.
		ctx.Send(r.config.Master, &messages.ResignMaster{})
		r.store.Connect(ctx)
		r.config.Log.Attach(ctx.Self(), r.incarnation)
	case *messages.LogAttached:
		r.attach(m)
	case *messages.LogCommitted:
		r.committed(ctx, m)
	case *messages.LogSnapshotReceived:
		r.restore(ctx, m)
	case *messages.LogRefused:
		r.proposalRefused(ctx, m)
	case *messages.LogLeadershipGained:
		r.becomeLeader(ctx, m.Term)
	case *messages.LogLeaderChanged:
		r.becomeFollower(ctx, m)
	case *messages.LogMembersChanged:
		r.members = m.Members
		if r.config.Members != nil {
			r.config.Members(m.Members)
		}
	case *messages.LogChangeResult:
		r.changed(ctx, m)
	case *messages.AnnounceStore:
		if r.master {
			ctx.Respond(&messages.StoreStarted{Incarnation: *r.storeIncarnation})
		}
	case *messages.AccessStore:
		r.request(ctx, m)
	case *messages.ReplicateJobFile:
		r.replicateJobFile(ctx, m)
	case *messages.GetCommittedFiles:
		r.committedFiles(ctx)
	case *messages.GetNodes:
		r.answerNodes(ctx, m)
	case *messages.NodeStatesCollected:
		r.nodesAnswered(ctx, m)
	case *messages.CheckNodes:
		r.check(ctx, m)
	case *messages.NodesCompared:
		r.filesCompared(ctx, m)
	case *messages.ChangeNodes:
		r.change(ctx, m)
	case *messages.AdmitNode:
		r.admit(ctx, m)
	case *retry:
		if m.incarnation == r.incarnation {
			m.what(ctx)
		}
	case *messages.Drain:
		ctx.Request(ctx.Sender(), &messages.DrainResult{})
	default:
		kit.Unexpected(ctx)
	}
}

// fromLog: it is the log's news, but for the first.
func fromLog(message any) bool {
	switch message.(type) {
	case *messages.LogCommitted, *messages.LogSnapshotReceived, *messages.LogRefused, *messages.LogLeadershipGained, *messages.LogLeaderChanged,
		*messages.LogMembersChanged, *messages.LogChangeResult:
		return true
	}
	return false
}

func (r *replicator) retryAfter(ctx actor.Context, pause time.Duration, what func(actor.Context)) {
	kit.SendAfter(r.config.Env.Clock(), ctx.ActorSystem(), pause, ctx.Self(), &retry{r.incarnation, what})
}

// request takes what an actor asks of its store. Only the master's actors do.
func (r *replicator) request(ctx actor.Context, m *messages.AccessStore) {
	if m.Incarnation != *r.storeIncarnation || !r.master {
		return // they are on their way out, or will ask again
	}
	from := requester{ctx.Sender(), m.Request}
	switch what := m.What.(type) {
	case *messages.AccessStore_Write:
		if changes := replication.WriteChanges(what.Write); changes != nil {
			r.supersede(what.Write)
			r.proposeRequest(changes, &changeRequest{answerWhenLogged: what.Write.Logged, done: filesTo(from)})
			return
		}
		r.store.Write(ctx, what.Write, filesTo(from))
	case *messages.AccessStore_Move:
		if changes := replication.RenameChanges(what.Move); changes != nil {
			r.propose(from, changes)
			return
		}
		r.store.Move(ctx, what.Move, filesTo(from))
	case *messages.AccessStore_Remove:
		if changes := replication.RemoveChanges(what.Remove); changes != nil {
			r.propose(from, changes)
			return
		}
		r.store.Remove(ctx, what.Remove, filesTo(from))
	case *messages.AccessStore_Quarantine:
		r.quarantine(ctx, from, what.Quarantine)
	case *messages.AccessStore_Append:
		r.store.Append(ctx, what.Append, filesTo(from))
	default:
		r.read(ctx, deferredRead{from, m, r.last})
	}
}

func filesTo(to requester) func(actor.Context, *messages.ChangeFilesResult) {
	return func(ctx actor.Context, done *messages.ChangeFilesResult) { to.answerFiles(ctx, done) }
}

func (a requester) answerFiles(ctx actor.Context, done *messages.ChangeFilesResult) {
	ctx.Send(a.pid, &messages.AccessStoreResult{Request: a.request, What: &messages.AccessStoreResult_Files{Files: done}})
}

// deferredRead waits until nothing is on its way any more that it should see.
type deferredRead struct {
	from  requester
	what  *messages.AccessStore
	after uint64 // number of the last proposal that was made before
}

// read looks at the disk, when what was asked for before is there.
func (r *replicator) read(ctx actor.Context, h deferredRead) {
	from, m := h.from, h.what
	waits := r.isOpen(h.after)
	if file := m.GetRead(); file != nil {
		waits = r.touched[file.Path] > 0
	}
	if waits {
		r.deferredReads = append(r.deferredReads, h)
		return
	}
	answer := func(ctx actor.Context, a *messages.AccessStoreResult) {
		ctx.Send(from.pid, &messages.AccessStoreResult{Request: from.request, What: a.What})
	}
	switch what := m.What.(type) {
	case *messages.AccessStore_Read:
		r.store.Read(ctx, what.Read.Op, what.Read.Path, func(ctx actor.Context, f *messages.ReadFileResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Read{Read: f}})
		})
	case *messages.AccessStore_List:
		r.store.List(ctx, what.List.Op, what.List.Dir, func(ctx actor.Context, d *messages.ListDirResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_List{List: d}})
		})
	case *messages.AccessStore_Scan:
		r.scan(ctx, func(ctx actor.Context, q *messages.ScanQueueResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Scan{Scan: q}})
		})
	default:
		panic(fmt.Sprintf("store request without a content from %v", from.pid))
	}
}

// retryDeferredReads lets those read whose time has come. They keep their order only among
// those of one file, which is all that was promised.
func (r *replicator) retryDeferredReads(ctx actor.Context) {
	reads := r.deferredReads
	r.deferredReads = nil
	for _, h := range reads {
		r.read(ctx, h)
	}
}

// isOpen: a proposal of that number, or an earlier one, is not on the disk yet.
func (r *replicator) isOpen(number uint64) bool {
	for r.oldest <= r.last && r.proposals[r.oldest] == nil {
		r.oldest++
	}
	return r.oldest <= number
}
