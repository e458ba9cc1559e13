package node

import (
	"context"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/replication"
	"lockstep/edge/peer"
	"lockstep/messages"
	"lockstep/supervisor"
)

const aboutTimeout = 2 * time.Second

// queryNodes asks the replicator for the nodes of the cluster, without the states of the others.
func (n *node) queryNodes() (*messages.GetNodesResult, error) {
	answer, err := n.Env.System().Root.RequestFuture(supervisor.Replicator(n.Env), &messages.GetNodes{}, requestTimeout).Result()
	if err != nil {
		return nil, err
	}
	return answer.(*messages.GetNodesResult), nil
}

// servePeers answers other nodes, until the listener is closed.
func (n *node) servePeers() {
	if err := n.listener.Serve(&backend{n}); err != nil {
		n.Log.WithField("err", err).Error("port of nodes: server failed; no more requests are answered")
	}
}

// backend answers requests of other nodes.
type backend struct{ node *node }

// About is part of peer.Backend. It tells another node the name of this one, its state in the log, the master that it knows and the
// address of its console.
func (b *backend) About(context.Context) (peer.About, error) {
	nodes, err := b.node.queryNodes()
	if err != nil {
		return peer.About{}, err
	}
	about := peer.About{
		Name:    b.node.identity.Name,
		UUID:    b.node.identity.UUID,
		Master:  nodes.Master,
		Applied: nodes.Applied,
		Leads:   nodes.IsMaster,
		Voting:  b.node.identity.Voting,
		Console: b.node.RemoteAPI.ConsoleAddress(),

		Features: replication.Features(),
	}
	if nodes.Failure != nil {
		about.Error = nodes.Failure.Text
	}
	return about, nil
}

// Admit is part of peer.Backend. It asks the replicator to make a node a member, and answers whether it is one, must wait, or must ask
// the master.
func (b *backend) Admit(_ context.Context, r peer.MembershipRequest) (peer.Admission, error) {
	admit := &messages.AdmitNode{
		Name:        r.Name,
		Address:     r.Address,
		Voting:      r.Voting,
		Fresh:       r.Fresh,
		Applied:     r.Applied,
		HeartbeatMs: r.HeartbeatMs,
	}
	answer, err := b.node.Env.System().Root.RequestFuture(supervisor.Replicator(b.node.Env), admit, requestTimeout).Result()
	if err != nil {
		return peer.Admission{}, err
	}
	a := answer.(*messages.AdmitNodeResult)
	admission := peer.Admission{Status: peer.StatusWaiting, Master: a.Master, MasterAddress: a.MasterAddress}
	switch {
	case a.Failure != nil && a.Failure.Class == "NotMaster":
		admission.Status = peer.StatusNotMaster
	case a.Failure != nil:
		return admission, a.Failure
	case a.Member:
		admission.Status = peer.StatusMember
	}
	return admission, nil
}

// Files is part of peer.Backend. It calls each with the digest of every shared file of this node, or of those in only.
func (b *backend) Files(ctx context.Context, only []string, each func(peer.FileDigest) error) error {
	return b.node.digests(ctx, only, each)
}

// peers is the replicator's port to other nodes.
type peers struct{ node *node }

// Ask is part of replicator.Peers. It returns at once; to gets the states of all members, with the number, when each has answered or
// failed.
func (p *peers) Ask(number uint64, members []*messages.Member, to *actor.PID) {
	go func() {
		states := make([]*messages.NodeState, len(members))
		var asking sync.WaitGroup
		for i, m := range members {
			asking.Go(func() { states[i] = p.ask(m) })
		}
		asking.Wait()
		p.node.Env.System().Root.Send(to, &messages.NodeStatesCollected{Number: number, States: states})
	}()
}

func (p *peers) ask(m *messages.Member) *messages.NodeState {
	ctx, cancel := context.WithTimeout(context.Background(), aboutTimeout)
	defer cancel()
	var about peer.About
	var err error
	if m.Name == p.node.identity.Name {
		about, err = (&backend{p.node}).About(ctx)
	} else {
		about, err = p.node.client.About(ctx, m.Address)
	}
	if err != nil {
		return &messages.NodeState{Name: m.Name, Error: err.Error()}
	}
	return &messages.NodeState{
		Name:     m.Name,
		Answers:  true,
		Error:    about.Error,
		Applied:  about.Applied,
		Voting:   about.Voting,
		Console:  about.Console,
		Features: about.Features,
	}
}
