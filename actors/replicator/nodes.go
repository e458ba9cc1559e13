package replicator

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

func (r *replicator) membersChanged(m *messages.LogMembersChanged) {
	r.membership.members = m.Members
	r.declareTimes()
	if r.config.Members != nil {
		r.config.Members(m.Members)
	}
}

// peerQuery is a question to other nodes, and who waits for the answer.
type peerQuery struct {
	requester
	repair bool // differing files are to be repaired
	// ofMaster: the master compares by itself, in the term that is the request's number. No client waits.
	ofMaster bool
}

// takeQuery returns a question that is not answered yet, and forgets it; false for any other number.
func (r *replicator) takeQuery(number uint64) (peerQuery, bool) {
	q, known := r.peerQueries[number]
	delete(r.peerQueries, number)
	return q, known
}

// answerNodes answers with what this node knows of the cluster. If the states of the
// nodes are wanted, it asks them first.
func (r *replicator) answerNodes(ctx actor.Context, m *messages.GetNodes) {
	if m.WithStates && r.config.Peers != nil {
		number := r.numbers.next()
		r.peerQueries[number] = peerQuery{requester: requester{ctx.Sender(), m.Request}}
		r.config.Peers.Ask(number, r.membership.members, ctx.Self())
		return
	}
	ctx.Respond(r.clusterView(m.Request))
}

func (r *replicator) nodesAnswered(ctx actor.Context, m *messages.NodeStatesCollected) {
	q, known := r.takeQuery(m.Number)
	if !known {
		return
	}
	answer := r.clusterView(q.request)
	answer.States = m.States
	ctx.Send(q.pid, answer)
}

func (r *replicator) clusterView(request uint64) *messages.GetNodesResult {
	s := &r.mastership
	answer := &messages.GetNodesResult{Request: request, Self: r.config.Name, Master: s.leader, MasterAddress: s.address,
		Members: r.membership.members, Applied: r.replica.applied, IsMaster: s.master, Failure: r.applying.failure}
	if s.master {
		answer.Compared = r.compared
	}
	if s.leads {
		answer.MasterAddress = r.membership.ownAddress()
	}
	return answer
}

// change starts a change of the membership or a transfer, for an operator. It answers only a refusal; the end of the change answers the
// rest.
func (r *replicator) change(ctx actor.Context, m *messages.ChangeNodes) {
	failure := r.mastership.notMaster()
	if r.mastership.leads {
		failure = r.membership.refusal(m)
	}
	if failure != nil {
		ctx.Respond(&messages.ChangeNodesResult{Request: m.Request, Failure: failure})
		return
	}
	r.startChange(Change{What: m.What, Name: m.Name, Address: m.Address}, requester{ctx.Sender(), m.Request})
}

func (r *replicator) startChange(c Change, from requester) {
	number := r.numbers.next()
	r.membership.changes[number] = from
	r.config.Log.Change(number, c)
}

func (r *replicator) changed(ctx actor.Context, m *messages.LogChangeResult) {
	if a, _ := r.membership.takeChange(m.Number); a.pid != nil {
		ctx.Send(a.pid, &messages.ChangeNodesResult{Request: a.request, Failure: m.Failure})
	}
}

// admit takes a node that wants to be a member one step further, and answers how far it
// is. The node repeats its request until it is a member, with a vote if it wants one.
func (r *replicator) admit(ctx actor.Context, m *messages.AdmitNode) {
	s := &r.mastership
	if !s.master {
		ctx.Respond(&messages.AdmitNodeResult{Request: m.Request, Master: s.leader, MasterAddress: s.address, Failure: s.notMaster()})
		return
	}
	answer, next := r.membership.admit(m, r.replica.applied, r.config.Env.Clock().Now())
	answer.Master, answer.MasterAddress = s.leader, s.address
	ctx.Respond(answer)
	r.timesStated(m)
	if next != nil && !r.membership.changing() {
		r.startChange(Change{What: next.What, Name: next.Name, Address: next.Address}, requester{})
	}
}
