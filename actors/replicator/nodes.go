package replicator

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/replication"
	"lockstep/messages"
)

func (r *replicator) answerNodes(ctx actor.Context, m *messages.GetNodes) {
	if m.WithStates && r.config.Peers != nil {
		r.last++
		r.peerQueries[r.last] = peerQuery{requester: requester{ctx.Sender(), m.Request}}
		r.config.Peers.Ask(r.last, r.members, ctx.Self())
		return
	}
	ctx.Respond(r.clusterView(m.Request))
}

// peerQuery is one about other nodes that is on its way.
type peerQuery struct {
	requester
	repair bool
}

func (r *replicator) nodesAnswered(ctx actor.Context, m *messages.NodeStatesCollected) {
	q, known := r.peerQueries[m.Number]
	if !known {
		return
	}
	delete(r.peerQueries, m.Number)
	answer := r.clusterView(q.request)
	answer.States = m.States
	ctx.Send(q.pid, answer)
}

// clusterView is what this node knows of it.
func (r *replicator) clusterView(request uint64) *messages.GetNodesResult {
	answer := &messages.GetNodesResult{Request: request, Self: r.config.Name, Master: r.leader, MasterAddress: r.address,
		Members: r.members, Applied: r.applied, IsMaster: r.master, Failure: r.failure}
	if r.leads {
		answer.MasterAddress = r.addressOf(r.config.Name)
	}
	return answer
}

func (r *replicator) addressOf(name string) string {
	for _, m := range r.members {
		if m.Name == name {
			return m.Address
		}
	}
	return ""
}

// change has the membership changed, or the mastership handed over.
func (r *replicator) change(ctx actor.Context, m *messages.ChangeNodes) {
	if f := r.refusal(m); f != nil {
		ctx.Respond(&messages.ChangeNodesResult{Request: m.Request, Failure: f})
		return
	}
	r.last++
	r.changes[r.last] = requester{ctx.Sender(), m.Request}
	r.config.Log.Change(r.last, Change{What: m.What, Name: m.Name, Address: m.Address})
}

func (r *replicator) refusal(m *messages.ChangeNodes) *messages.Failure {
	if !r.leads {
		return r.notMaster()
	}
	if m.Name == "" && m.What == messages.ChangeNodes_TRANSFER {
		return nil
	}
	at := slices.IndexFunc(r.members, func(x *messages.Member) bool { return x.Name == m.Name })
	known := m.What == messages.ChangeNodes_REMOVE || m.What == messages.ChangeNodes_TRANSFER
	switch {
	case known && at < 0:
		return messages.PrereqFailure(messages.UnknownEntity, fmt.Sprintf("There is no node %s", m.Name))
	case m.What == messages.ChangeNodes_TRANSFER && !r.members[at].Voter:
		return messages.PrereqFailure(messages.WrongState, fmt.Sprintf("Node %s is a copy without a vote, and cannot be the master", m.Name))
	case m.What == messages.ChangeNodes_REMOVE && r.members[at].Voter && replication.Voters(r.members) == 1:
		return messages.PrereqFailure(messages.WrongState, fmt.Sprintf("Node %s is the only one with a vote: there would be no cluster without it", m.Name))
	case m.What == messages.ChangeNodes_REMOVE && m.Name == r.config.Name:
		return messages.PrereqFailure(messages.WrongState, fmt.Sprintf("Node %s is the master: promote another one first", m.Name))
	}
	return nil
}

func (r *replicator) notMaster() *messages.Failure {
	text := fmt.Sprintf("Node %s is not the master, and does not know who is", r.config.Name)
	if r.leader != "" {
		text = fmt.Sprintf("Node %s is not the master; %s is", r.config.Name, r.leader)
	}
	return messages.NotMasterFailure(text)
}

func (r *replicator) changed(ctx actor.Context, m *messages.LogChangeResult) {
	a, known := r.changes[m.Number]
	if !known {
		return
	}
	delete(r.changes, m.Number)
	if a.pid != nil {
		ctx.Send(a.pid, &messages.ChangeNodesResult{Request: a.request, Failure: m.Failure})
	}
}

// admit takes a node that wants to be a member one step further, and says how far it
// is. It comes again until it is there.
func (r *replicator) admit(ctx actor.Context, m *messages.AdmitNode) {
	answer := &messages.AdmitNodeResult{Request: m.Request, Master: r.leader, MasterAddress: r.address}
	if !r.master {
		answer.Failure = r.notMaster()
		ctx.Respond(answer)
		return
	}
	w := replication.JoinRequest{Name: m.Name, Address: m.Address, WantsVote: m.Voting, NoLog: m.Fresh, Applied: m.Applied}
	next := replication.NextChange(r.members, w, r.applied, r.voteCandidates(w))
	at := slices.IndexFunc(r.members, func(x *messages.Member) bool { return x.Name == m.Name })
	if at < 0 && !m.Fresh {
		answer.Failure = messages.PrereqFailure(messages.WrongState, fmt.Sprintf(
			"Node %s was removed from the cluster. To take it back, stop its daemon, move its raft directory aside, and add it anew", m.Name))
	}
	if removed := next.GetWhat() == messages.ChangeNodes_REMOVE; at >= 0 && !removed {
		answer.Member, answer.Voter = true, r.members[at].Voter
	}
	ctx.Respond(answer)
	if next != nil && !r.changing() {
		r.last++
		r.changes[r.last] = requester{}
		r.config.Log.Change(r.last, Change{What: next.What, Name: next.Name, Address: next.Address})
	}
}

// changing: a change of membership is on its way.
func (r *replicator) changing() bool { return len(r.changes) > 0 }

// joinRequest is that of a node that could be given a vote.
type joinRequest struct {
	replication.JoinRequest
	received time.Time
}

// joinRequestTTL is how long a join request counts that is not repeated: its node may be gone.
const joinRequestTTL = 30 * time.Second

// voteCandidates takes note of a join request, and names those nodes that could be given a vote.
func (r *replicator) voteCandidates(w replication.JoinRequest) []string {
	now := r.config.Env.Clock().Now()
	if r.joinRequests[w.Name] = (joinRequest{w, now}); !w.MayVote(r.applied) {
		delete(r.joinRequests, w.Name)
	}
	var names []string
	for name, w := range r.joinRequests {
		if now.Sub(w.received) < joinRequestTTL {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
