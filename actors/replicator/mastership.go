package replicator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kit"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// mastership says which node leads, and whether this one is the master.
type mastership struct {
	self string // name of this node
	// leads is true while the log says that this node leads.
	leads bool
	term  uint64 // of the leadership of this node, if it leads
	// master is true when the configuration names this node as the master. From then on
	// requests are accepted. Invariant: master implies leads.
	master bool
	// leader is the name of the node that leads; "" if it is not known.
	leader string
	// address is the address of the leader, host:port; "" if it is not known or is this node.
	address string
}

// gain notes that this node leads. It returns false if that is known.
func (s *mastership) gain(term uint64) bool {
	if s.isTerm(term) {
		return false
	}
	s.leads, s.term, s.master, s.leader = true, term, false, s.self
	return true
}

// isTerm reports whether this node leads in that term.
func (s *mastership) isTerm(term uint64) bool { return s.leads && s.term == term }

// lose notes that another node leads, or none. It reports whether this node did.
func (s *mastership) lose(leader, address string) (led bool) {
	led = s.leads
	s.leads, s.master, s.leader, s.address = false, false, leader, address
	return led
}

// notMaster is the failure of a request that only the master accepts.
func (s *mastership) notMaster() *messages.Failure {
	text := fmt.Sprintf("Node %s is not the master, and does not know who is", s.self)
	if s.leader != "" {
		text = fmt.Sprintf("Node %s is not the master; %s is", s.self, s.leader)
	}
	return &messages.Failure{Class: "NotMaster", Text: text}
}

// becomeLeader writes this node as the master into the configuration, if it is not
// there, and then becomes the master.
func (r *replicator) becomeLeader(ctx actor.Context, term uint64) {
	if !r.mastership.gain(term) {
		return
	}
	// Before anything of this term is proposed: the actors that wait for answers of a former term are stopped.
	r.dropProposals()
	r.declareTimes()
	r.nameMaster(ctx, term)
}

// becomeMaster accepts requests from now on and starts the master part of the tree. If
// jobs run that another node has started, that part must first wait for the fence.
func (r *replicator) becomeMaster(ctx actor.Context, term uint64) {
	if !r.mastership.isTerm(term) {
		return
	}
	r.mastership.master = true
	// Each mastership is another incarnation of the store: requests of the former one that are still in the mailbox are dropped.
	*r.storeIncarnation++
	fence := time.Duration(0)
	// Jobs of another node run until their lease has ended there. Without the fence their locks could be granted beside them.
	if r.replica.running.StartedElsewhere(r.config.Self.Node) {
		fence = replication.Fence
	}
	r.config.Env.Log().WithFields(logrus.Fields{"term": term, "fence": fence}).Info("this node is the master")
	kit.Publish(ctx, r.config.Clients, &messages.StoreStarted{Incarnation: *r.storeIncarnation})
	kit.Publish(ctx, r.config.ConfigStoreClients, &configstore.Started{Incarnation: *r.storeIncarnation})
	// After the announcements and with master set: the actors that start now send requests at once.
	ctx.Send(r.config.Master, &messages.BecomeMaster{Term: term, FenceMs: fence.Milliseconds()})
	r.compared, r.suspects = nil, nil
	r.compareAfter(ctx, compareEvery)
}

// becomeFollower stops the master part of the tree. Proposals on their way may still be
// committed, but are not answered.
func (r *replicator) becomeFollower(ctx actor.Context, m *messages.LogLeaderChanged) {
	if r.mastership.lose(m.Leader, m.Address) {
		r.config.Env.Log().WithField("leader", m.Leader).Warn("this node has lost the mastership")
	}
	// Not answered, because it is not known which of them will be committed: the next master reads that from its disk.
	r.dropProposals()
	r.membership.forgetJoinRequests()
	ctx.Send(r.config.Master, &messages.ResignMaster{})
	ctx.Send(r.config.Standby, m)
	r.beginNext(ctx) // without a leader it collects no entries
}

// scan reads the queue directory for an actor that starts. First it proposes what the
// processes of this node's jobs have written. The actor then reads exactly what the log
// has, because what it takes for true must survive a failover.
func (r *replicator) scan(ctx actor.Context, done func(actor.Context, *messages.ScanQueueResult)) {
	ownJobs, term := r.replica.own(), r.mastership.term
	ownFiles := map[int64][]byte{}
	read := func(ctx actor.Context) {
		r.store.Scan(ctx, func(ctx actor.Context, q *messages.ScanQueueResult) {
			// In another term the actor that has asked is stopped, and its successor asks again.
			if r.mastership.master && r.mastership.term == term {
				done(ctx, r.replica.asLogged(q, ownFiles))
			}
		})
	}
	remaining := len(ownJobs)
	var failure *messages.Failure
	for _, id := range ownJobs {
		r.store.Read(ctx, "settle", paths.JobPath(id), func(ctx actor.Context, f *messages.ReadFileResult) {
			switch {
			case f.Failure != nil:
				failure = f.Failure
			case !f.Missing:
				ownFiles[id] = f.Content
			}
			remaining--
			switch {
			case remaining > 0:
			case failure != nil:
				done(ctx, &messages.ScanQueueResult{Failure: failure})
			default:
				r.catchUp(ctx, ownJobs, ownFiles, read)
			}
		})
	}
	if remaining == 0 {
		read(ctx)
	}
}

// catchUp proposes the files of this node's running jobs that are newer than the log. It skips
// a file that another pending change touches: the pending change is newer.
func (r *replicator) catchUp(ctx actor.Context, ownJobs []int64, files map[int64][]byte, done func(actor.Context)) {
	var changes []*messages.FileChange
	for _, id := range ownJobs {
		if change := r.replica.running.Reconcile(id, files[id]); change != nil && !r.proposals.touches(paths.JobPath(id)) {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		done(ctx)
		return
	}
	r.propose(changes, func(ctx actor.Context, _ *messages.ChangeFilesResult) { done(ctx) })
}
