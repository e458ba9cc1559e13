package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/sirupsen/logrus"

	"lockstep/cmd/lockstepd/internal/datadir"
	"lockstep/core/replication"
	"lockstep/edge/peer"
	"lockstep/edge/raftlog"
	"lockstep/messages"
	"lockstep/persistence"
)

// Pauses between requests for membership.
const (
	admissionRetry = time.Second
	// voterRetryMax is the longest pause between requests of a member for a vote.
	voterRetryMax  = 8 * time.Second
	requestTimeout = 5 * time.Second
)

// awaitLogAllowed returns when this node, which has no log, may open one. It fails while a job
// runs that was started before the node joined the cluster: the cluster does not know that job.
func (n *node) awaitLogAllowed(stop context.Context) error {
	if running := n.Processes.RunningJobs(); len(running) > 0 {
		return fmt.Errorf("job %d, started before this node belonged to its cluster, still runs here; start lockstepd again when it has ended",
			running[0])
	}
	if !datadir.IsFounder(n.identity) {
		if err := n.awaitAdmission(stop); err != nil {
			return err
		}
	}
	return persistence.MarkQueue(n.Files, uuid.NewString())
}

// awaitAdmission asks the cluster again and again, and returns nil when this node, which has no log, is a member. The error says that
// stop has ended before.
func (n *node) awaitAdmission(stop context.Context) error {
	n.Log.WithFields(logrus.Fields{"node": n.identity.Name, "peers": n.identity.Peers}).Info("requesting admission to the cluster")
	logged := ""
	for {
		admission, err := n.requestMembershipOnce(stop, peer.MembershipRequest{Fresh: true}, "")
		if err == nil && admission.Status == peer.StatusMember {
			return nil
		}
		if err != nil && err.Error() != logged {
			logged = err.Error()
			n.Log.WithField("err", err).Warn("admission to the cluster failed; retrying")
		}
		select {
		case <-stop.Done():
			return errors.New("told to stop before this node was admitted to its cluster")
		case <-time.After(admissionRetry):
		}
	}
}

// requestMembership repeats the request for a vote until the node has one, and the statement which times of elections the node knows
// until the node uses them. The vote may have to wait for another node that gets one at the same time, and the times for members of an
// older version.
func (n *node) requestMembership(ctx context.Context) {
	for pause := admissionRetry; ; pause = min(2*pause, voterRetryMax) {
		nodes, err := n.queryNodes()
		known := replication.KnownTimes().Heartbeat
		votes := err != nil || !n.identity.Voting || hasVote(nodes, n.identity.Name)
		if err == nil && !nodes.IsMaster && (!votes || n.raft.HeartbeatTimeout() > known) {
			request := peer.MembershipRequest{Applied: nodes.Applied, HeartbeatMs: known.Milliseconds()}
			if _, err := n.requestMembershipOnce(ctx, request, nodes.MasterAddress); err != nil {
				n.Log.WithField("err", err).Info("request for a vote or a statement to the master failed; retrying")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func hasVote(nodes *messages.GetNodesResult, name string) bool {
	for _, m := range nodes.Members {
		if m.Name == name && m.Address != "" {
			return m.Voter
		}
	}
	return false
}

// requestMembershipOnce asks the master, if it is known, and else every node it knows, until the master answers. A node that is not the
// master names it. The error is that of the last node.
func (n *node) requestMembershipOnce(ctx context.Context, r peer.MembershipRequest, master string) (peer.Admission, error) {
	r.Name, r.UUID, r.Address, r.Voting = n.identity.Name, n.identity.UUID, n.identity.Address, n.identity.Voting
	err := errors.New("there is no other node to ask")
	addresses := n.identity.Peers
	if master != "" {
		addresses = []string{master}
	}
	for _, address := range addresses {
		for range 2 { // the second request goes to the master
			callCtx, cancel := context.WithTimeout(ctx, requestTimeout)
			admission, failed := n.client.RequestMembership(callCtx, address, r)
			cancel()
			switch {
			case failed != nil:
				err = failed
			case admission.Status != peer.StatusNotMaster:
				return admission, nil
			default:
				err = fmt.Errorf("the node at %s is not the master, and knows of none", address)
			}
			if failed != nil || admission.MasterAddress == "" || admission.MasterAddress == address {
				break
			}
			address = admission.MasterAddress
		}
	}
	return peer.Admission{}, err
}

// onMembers is called by the replicator with the members, and does not block. It bars removed
// nodes, and passes the addresses of the others to savePeers.
func (n *node) onMembers(members []*messages.Member) {
	n.voters.Store(int64(replication.Voters(members)))
	old := map[string]bool{}
	addresses := []string{}
	for _, m := range members {
		old[m.Name] = true
		if m.Name != n.identity.Name {
			addresses = append(addresses, m.Address)
		}
	}
	removed, lost := replication.RemovedNodes(n.removedNames, n.members, members), replication.RemovedNodes(n.lostNames, nil, members)
	barred := func(name string) bool { return replication.IsBarred(name, n.raft.Leader(), removed, lost) }
	n.listener.SetMembers(func(name string) bool { return len(old) == 0 || old[name] }, barred)
	for _, m := range n.members {
		if barred(m.Name) {
			n.listener.Expel(m.Name)
		}
	}
	n.members, n.removedNames, n.lostNames = members, removed, lost
	if len(members) > 0 {
		select {
		case <-n.peerUpdates: // replaces an update that was not saved yet
		default:
		}
		n.peerUpdates <- peerUpdate{addresses, lost}
	}
}

// peerUpdate is a new state for node.json: addresses of members that this node can ask, and the
// names of nodes that a recovery has excluded.
type peerUpdate struct{ addresses, lost []string }

func (n *node) savePeers(ctx context.Context) {
	for {
		select {
		case o := <-n.peerUpdates:
			identity := *n.identity
			if identity.Lost = o.lost; len(o.addresses) > 0 {
				identity.Peers = o.addresses
			}
			if err := identity.Save(n.Config.DataDir); err != nil {
				n.Log.WithField("err", err).Warn("write of the addresses of other nodes to node.json failed")
			}
		case <-ctx.Done():
			return
		}
	}
}

// recoverCluster makes this node the only voter, and bars all other nodes: if they came back,
// they would be a majority of the old cluster.
func (n *node) recoverCluster(config raftlog.Config) error {
	n.Log.Warn("recovery requested: this node becomes the only voter")
	members, err := raftlog.Members(config)
	if err != nil {
		return err
	}
	n.lostNames = replication.RemovedNodes(n.lostNames, members, []*messages.Member{{Name: n.identity.Name}})
	n.identity.Lost = n.lostNames
	if err := n.identity.Save(n.Config.DataDir); err != nil {
		return err
	}
	if err := raftlog.Recover(config); err != nil {
		return err
	}
	return peer.ClearRecovery(n.Config.DataDir)
}
