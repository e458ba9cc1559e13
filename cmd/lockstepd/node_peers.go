package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/configstore"
	"lockstep/edge/peer"
	"lockstep/messages"
	"lockstep/persistence"
	"lockstep/supervisor"
)

const (
	aboutTimeout = 2 * time.Second
	filesTimeout = 5 * time.Minute
	// recheckDelay is the pause before differing files are compared again: entries in
	// transit are applied in that time.
	recheckDelay = time.Second
)

// queryNodes asks the replicator for the nodes of the cluster.
func (n *node) queryNodes(all bool) (*messages.GetNodesResult, error) {
	answer, err := n.env.System().Root.RequestFuture(supervisor.Replicator(n.env), &messages.GetNodes{WithStates: all}, requestTimeout).Result()
	if err != nil {
		return nil, err
	}
	return answer.(*messages.GetNodesResult), nil
}

// servePeers answers other nodes, until the listener is closed.
func (n *node) servePeers() {
	if err := n.listener.Serve(&backend{n}); err != nil {
		n.log.WithField("err", err).Error("port of nodes: server failed; no more requests are answered")
	}
}

// backend answers requests of other nodes.
type backend struct{ node *node }

// About is part of peer.Backend.
func (b *backend) About(context.Context) (peer.About, error) {
	nodes, err := b.node.queryNodes(false)
	if err != nil {
		return peer.About{}, err
	}
	about := peer.About{Name: b.node.identity.Name, UUID: b.node.identity.UUID, Master: nodes.Master, Applied: nodes.Applied, Leads: nodes.IsMaster, Voting: b.node.identity.Voting, Console: b.node.remoteAPI.consoleAddress()}
	if nodes.Failure != nil {
		about.Error = nodes.Failure.Text
	}
	return about, nil
}

// Admit is part of peer.Backend.
func (b *backend) Admit(_ context.Context, r peer.MembershipRequest) (peer.Admission, error) {
	answer, err := b.node.env.System().Root.RequestFuture(supervisor.Replicator(b.node.env), &messages.AdmitNode{
		Name: r.Name, Address: r.Address, Voting: r.Voting, Fresh: r.Fresh, Applied: r.Applied}, requestTimeout).Result()
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

// Files is part of peer.Backend.
func (b *backend) Files(ctx context.Context, each func(peer.FileDigest) error) error {
	return b.node.digests(ctx, each)
}

// digests calls each for every shared file of this node. The files of the configuration are written
// first, because each node writes its own at other times. If that fails, they differ from those of
// the other nodes.
func (n *node) digests(ctx context.Context, each func(peer.FileDigest) error) error {
	answer, err := n.env.System().Root.RequestFuture(supervisor.ConfigStore(n.env), &configstore.Flush{}, requestTimeout).Result()
	if m, is := answer.(*configstore.Flushed); is && m.Failure != nil {
		err = m.Failure
	}
	if err != nil {
		n.log.WithField("err", err).Warn("configuration cannot be written before its comparison with that of other nodes")
	}
	names, err := persistence.SharedFiles(n.config.DataDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		sum, size, err := persistence.Digest(n.config.DataDir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // archived since the list was made
		}
		if err != nil {
			return err
		}
		if err := each(peer.FileDigest{Path: name, SHA256: sum, Size: size}); err != nil {
			return err
		}
	}
	return nil
}

// peers is the replicator's port to other nodes.
type peers struct{ node *node }

// Ask is part of replicator.Peers.
func (p *peers) Ask(number uint64, members []*messages.Member, to *actor.PID) {
	go func() {
		states := make([]*messages.NodeState, len(members))
		var asking sync.WaitGroup
		for i, m := range members {
			asking.Go(func() { states[i] = p.ask(m) })
		}
		asking.Wait()
		p.node.env.System().Root.Send(to, &messages.NodeStatesCollected{Number: number, States: states})
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
	return &messages.NodeState{Name: m.Name, Answers: true, Error: about.Error, Applied: about.Applied, Voting: about.Voting, Console: about.Console}
}

// checksums are SHA-256 sums of files, by path.
type checksums map[string]string

// Compare is part of replicator.Peers.
func (p *peers) Compare(number uint64, members []*messages.Member, leaveOut []string, to *actor.PID) {
	go func() {
		answer, recheck := p.compare(members, leaveOut), false
		for _, n := range answer.Nodes {
			recheck = recheck || len(n.Files) > 0
		}
		if recheck {
			time.Sleep(recheckDelay)
			answer = inBoth(answer, p.compare(members, leaveOut))
		}
		answer.Number = number
		p.node.env.System().Root.Send(to, answer)
	}()
}

func (p *peers) compare(members []*messages.Member, leaveOut []string) *messages.NodesCompared {
	gather := func(from func(context.Context, func(peer.FileDigest) error) error) (checksums, error) {
		ctx, cancel := context.WithTimeout(context.Background(), filesTimeout)
		defer cancel()
		all := checksums{}
		err := from(ctx, func(f peer.FileDigest) error { all[f.Path] = f.SHA256; return nil })
		for _, path := range leaveOut {
			delete(all, path)
		}
		return all, err
	}
	own, err := gather(p.node.digests)
	if err != nil {
		return &messages.NodesCompared{Failure: messages.Generic(err)}
	}
	answer := &messages.NodesCompared{Files: int64(len(own)), Nodes: make([]*messages.NodeDifferences, len(members))}
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			others, err := gather(func(ctx context.Context, each func(peer.FileDigest) error) error {
				return p.node.client.Files(ctx, m.Address, each)
			})
			answer.Nodes[i] = &messages.NodeDifferences{Name: m.Name, Answers: err == nil}
			if err != nil {
				answer.Nodes[i].Error = err.Error()
				return
			}
			answer.Nodes[i].Files = differences(own, others)
		})
	}
	asking.Wait()
	return answer
}

// differences are the files of a node that differ from the master's.
func differences(master, node checksums) []*messages.FileDifference {
	var found []*messages.FileDifference
	for path, sum := range master {
		switch other, there := node[path]; {
		case !there:
			found = append(found, &messages.FileDifference{Path: path, What: messages.FileDifference_MISSING})
		case other != sum:
			found = append(found, &messages.FileDifference{Path: path, What: messages.FileDifference_DIFFERS})
		}
	}
	for path := range node {
		if _, there := master[path]; !there {
			found = append(found, &messages.FileDifference{Path: path, What: messages.FileDifference_EXTRA})
		}
	}
	slices.SortFunc(found, func(a, b *messages.FileDifference) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// inBoth returns the differences that both comparisons have found.
func inBoth(first, second *messages.NodesCompared) *messages.NodesCompared {
	for i, n := range second.Nodes {
		if i >= len(first.Nodes) {
			break
		}
		if before := first.Nodes[i]; !before.Answers {
			n.Answers, n.Error = false, before.Error // the first comparison has failed
		}
		n.Files = slices.DeleteFunc(n.Files, func(f *messages.FileDifference) bool {
			return !slices.ContainsFunc(first.Nodes[i].Files, func(g *messages.FileDifference) bool { return g.Path == f.Path && g.What == f.What })
		})
	}
	return second
}
