package replicator

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/replication"
	"lockstep/messages"
)

func (r *replicator) nodes(ctx actor.Context, m *messages.AskNodes) {
	if m.All && r.config.Peers != nil {
		r.last++
		r.questions[r.last] = question{asker: asker{ctx.Sender(), m.Request}}
		r.config.Peers.Ask(r.last, r.members, ctx.Self())
		return
	}
	ctx.Respond(r.cluster(m.Request))
}

// question is one about other nodes that is on its way.
type question struct {
	asker
	repair bool
}

func (r *replicator) asked(ctx actor.Context, m *messages.NodesAsked) {
	q, known := r.questions[m.Number]
	if !known {
		return
	}
	delete(r.questions, m.Number)
	answer := r.cluster(q.request)
	answer.States = m.States
	ctx.Send(q.pid, answer)
}

// cluster is what this node knows of it.
func (r *replicator) cluster(request uint64) *messages.Nodes {
	answer := &messages.Nodes{Request: request, Self: r.config.Name, Master: r.leader, MasterAddress: r.address,
		Members: r.members, Applied: r.applied, Leads: r.master, Failure: r.failure}
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
		ctx.Respond(&messages.NodesChanged{Request: m.Request, Failure: f})
		return
	}
	r.last++
	r.changes[r.last] = asker{ctx.Sender(), m.Request}
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
		return &messages.Failure{Class: "OpPrereqError", Code: "unknown_entity", Text: fmt.Sprintf("There is no node %s", m.Name)}
	case m.What == messages.ChangeNodes_TRANSFER && !r.members[at].Voter:
		return &messages.Failure{Class: "OpPrereqError", Code: "wrong_state", Text: fmt.Sprintf("Node %s is a copy without a vote, and cannot be the master", m.Name)}
	case m.What == messages.ChangeNodes_REMOVE && r.members[at].Voter && replication.Voters(r.members) == 1:
		return &messages.Failure{Class: "OpPrereqError", Code: "wrong_state", Text: fmt.Sprintf("Node %s is the only one with a vote: there would be no cluster without it", m.Name)}
	case m.What == messages.ChangeNodes_REMOVE && m.Name == r.config.Name:
		return &messages.Failure{Class: "OpPrereqError", Code: "wrong_state", Text: fmt.Sprintf("Node %s is the master: promote another one first", m.Name)}
	}
	return nil
}

func (r *replicator) notMaster() *messages.Failure {
	text := fmt.Sprintf("Node %s is not the master, and does not know who is", r.config.Name)
	if r.leader != "" {
		text = fmt.Sprintf("Node %s is not the master; %s is", r.config.Name, r.leader)
	}
	return &messages.Failure{Class: "NotMaster", Text: text}
}

func (r *replicator) changed(ctx actor.Context, m *messages.LogChanged) {
	a, known := r.changes[m.Number]
	if !known {
		return
	}
	delete(r.changes, m.Number)
	if a.pid != nil {
		ctx.Send(a.pid, &messages.NodesChanged{Request: a.request, Failure: m.Failure})
	}
}

// admit takes a node that wants to be a member one step further, and says how far it
// is. It comes again until it is there.
func (r *replicator) admit(ctx actor.Context, m *messages.AdmitNode) {
	answer := &messages.NodeAdmitted{Request: m.Request, Master: r.leader, MasterAddress: r.address}
	if !r.master {
		answer.Failure = r.notMaster()
		ctx.Respond(answer)
		return
	}
	w := replication.JoinRequest{Name: m.Name, Address: m.Address, WantsVote: m.Voting, NoLog: m.Fresh, Applied: m.Applied}
	next := replication.NextChange(r.members, w, r.applied, r.ready(w))
	at := slices.IndexFunc(r.members, func(x *messages.Member) bool { return x.Name == m.Name })
	if at < 0 && !m.Fresh {
		answer.Failure = &messages.Failure{Class: "OpPrereqError", Code: "wrong_state", Text: fmt.Sprintf(
			"Node %s was removed from the cluster. To take it back, stop its daemon, move its raft directory aside, and add it anew", m.Name)}
	}
	if removed := next.GetWhat() == messages.ChangeNodes_REMOVE; at >= 0 && !removed {
		answer.Member, answer.Voter = true, r.members[at].Voter
	}
	ctx.Respond(answer)
	if next != nil && !r.changing() {
		r.last++
		r.changes[r.last] = asker{}
		r.config.Log.Change(r.last, Change{What: next.What, Name: next.Name, Address: next.Address})
	}
}

// changing: a change of membership is on its way.
func (r *replicator) changing() bool { return len(r.changes) > 0 }

// wish is that of a node that could be given a vote.
type wish struct {
	replication.JoinRequest
	at time.Time
}

// wishMax is how long a wish counts that is not repeated: its node may be gone.
const wishMax = 30 * time.Second

// ready takes note of a wish, and names those nodes that could be given a vote.
func (r *replicator) ready(w replication.JoinRequest) []string {
	now := r.config.Env.Clock().Now()
	if r.wishes[w.Name] = (wish{w, now}); !w.MayVote(r.applied) {
		delete(r.wishes, w.Name)
	}
	var names []string
	for name, w := range r.wishes {
		if now.Sub(w.at) < wishMax {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
