// Package replicator is the actor in front of the consensus log, on a node of a
// cluster (design.md "Replication").
//
// It owns the way of a change of shared files into the log and to the disks of a
// majority, and the order in which this node applies committed entries. To the actors
// of the master it is the store: requests about files that are not shared go to the
// node's own store. It is also the storage of the configuration to them (package configstore):
// it proposes their records, and gives committed records to this node's configstore. It may
// also be asked to replicate the file of a running job, to list, compare and repair nodes, and
// to change the membership. It tells the master
// part of the node's tree when to start and when to stop.
//
// It writes no files of its own. After a crash it attaches to the log again, which
// delivers the entries that are not applied and the list of running jobs. Proposals are
// lost with it; the actors that made them receive StoreStarted and repeat them.
package replicator

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/replication"
	"lockstep/messages"
)

// Config has the neighbours and ports of the replicator.
type Config struct {
	Env   *kit.Env
	Log   Log
	Store *actor.PID
	// ConfigStore is the configstore of this node.
	ConfigStore *actor.PID
	// Master receives BecomeMaster and ResignMaster.
	Master *actor.PID
	// Standby receives LogLeaderChanged when another node is the master.
	Standby *actor.PID
	// Clients receive StoreStarted when this node becomes the master.
	Clients []*actor.PID
	// ConfigStoreClients receive configstore.Started when this node becomes the master.
	ConfigStoreClients []*actor.PID
	Peers              Peers                    // nil if other nodes cannot be asked
	Members            func([]*messages.Member) // is called with each new membership; may be nil
	Monitor            *actor.PID               // receives NodePublished at each change; nil: none
	Name               string                   // of this node
	Self               replication.Applier
	// Times are the shortest times of elections that this node's log knows. The zero value is replication.InitialTimes.
	Times replication.Times
}

// Props describes the replicator, the actor between the consensus log and the actors of one node.
func Props(c Config) *actor.Props {
	storeIncarnation := uint64(0)
	return kit.NumberedProps(c.Env, "replicator", func(incarnation uint32) actor.Actor {
		numbers := &sequence{last: uint64(incarnation) << 32} // no number of an earlier incarnation comes again
		measured := newCommitTimes(c)
		return &replicator{
			config: c, incarnation: incarnation, storeIncarnation: &storeIncarnation,
			store:        store.NewClient(c.Store, incarnation),
			configs:      configstore.NewClient(c.ConfigStore, incarnation),
			numbers:      numbers,
			proposals:    newProposals(c.Self, measured.offer(c.Log.Propose), numbers),
			replica:      newReplica(c.Self.Node),
			observations: observations{},
			mastership:   mastership{self: c.Name},
			commitTimes:  measured,
			membership:   newMembership(c.Name),
			times:        newElectionTimes(c.Times),
			peerQueries:  map[uint64]peerQuery{},
			quarantining: map[string]bool{},
		}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Escalate})))
}

// replicator decodes messages, asks the parts below, and performs what they decide.
// Each part owns its state.
type replicator struct {
	config      Config
	incarnation uint32
	store       *store.Client
	configs     *configstore.Client
	// storeIncarnation is the incarnation of this actor as a store. It rises with each
	// incarnation of the actor and with each mastership.
	storeIncarnation *uint64
	// attached is true when the log has answered this incarnation. Earlier messages of
	// the log are for a former one.
	attached bool
	numbers  *sequence

	replica       *replica
	applying      applying
	proposals     *proposals
	observations  observations
	configuration configuration
	mastership    mastership
	membership    *membership
	times         *electionTimes
	commitTimes   *commitTimes // nil: there is no observer
	published     view         // that the observer has

	draining *actor.PID // waits for the end of the batch; nil: none
	stopping bool       // Drain has come
	// deferred are requests that wait for proposals, in order of arrival.
	deferred []deferred
	// quarantining are the names in the quarantine of files that are being renamed to them.
	quarantining map[string]bool
	// compared is the result of the comparisons in the background; nil: none yet in this mastership.
	compared *messages.FilesCompared
	suspects map[string]bool // files that differed in the last of these comparisons, and on which the master had no majority
	// peerQueries are the questions to other nodes without an answer, by number.
	peerQueries map[uint64]peerQuery
}

// sequence numbers proposals, changes of the membership and questions to other nodes.
type sequence struct{ last uint64 }

func (s *sequence) next() uint64 {
	s.last++
	return s.last
}

// requester is an actor that waits for the answer to its request.
type requester struct {
	pid     *actor.PID
	request uint64
}

// retryPause is the time until a refused entry is offered again.
const retryPause = 100 * time.Millisecond

// retry is the timer message of retryAfter. That of a former incarnation is ignored.
type retry struct {
	incarnation uint32
	what        func(actor.Context)
}

func (r *replicator) Receive(ctx actor.Context) {
	r.receive(ctx)
	r.publish(ctx)
}

func (r *replicator) receive(ctx actor.Context) {
	if r.store.Handle(ctx) || r.configs.Handle(ctx) {
		return
	}
	if !r.attached && fromLog(ctx.Message()) {
		return // it is for a former incarnation; the log sends it again
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		r.started(ctx)
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
		r.membersChanged(m)
	case *messages.LogChangeResult:
		r.changed(ctx, m)
	case *messages.AnnounceStore:
		if r.mastership.master {
			ctx.Respond(&messages.StoreStarted{Incarnation: *r.storeIncarnation})
		}
	case *messages.AccessStore:
		r.request(ctx, m)
	case *configstore.Announce:
		if r.mastership.master {
			ctx.Respond(&configstore.Started{Incarnation: *r.storeIncarnation})
		}
	case *configstore.AddRecords, *configstore.Load, *configstore.Flush, *configstore.Check, *configstore.Adopt, *configstore.Discard:
		r.configRequest(ctx, m)
	case *messages.GetFailingWrites:
		ctx.Forward(r.config.Store)
	case *messages.ReplicateJobFile:
		r.replicateJobFile(ctx, m)
	case *messages.GetCommittedFiles:
		r.answerCommitted(ctx)
	case *PublishNode:
		r.published = view{}
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
		r.drain(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

// started stops a master part that outlived the former incarnation, which has taken the
// proposals of its actors with it.
func (r *replicator) started(ctx actor.Context) {
	*r.storeIncarnation++
	ctx.Send(r.config.Master, &messages.ResignMaster{})
	r.store.Connect(ctx)
	r.configs.Connect(ctx)
	r.config.Log.Attach(ctx.Self(), r.incarnation)
}

// fromLog reports whether a message comes from the log, and is not LogAttached.
func fromLog(message any) bool {
	switch message.(type) {
	case *messages.LogCommitted,
		*messages.LogSnapshotReceived,
		*messages.LogRefused,
		*messages.LogLeadershipGained,
		*messages.LogLeaderChanged,
		*messages.LogMembersChanged,
		*messages.LogChangeResult:
		return true
	}
	return false
}

func (r *replicator) retryAfter(ctx actor.Context, pause time.Duration, what func(actor.Context)) {
	kit.SendAfter(r.config.Env.Clock(), ctx.ActorSystem(), pause, ctx.Self(), &retry{r.incarnation, what})
}
