package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"github.com/sirupsen/logrus"

	"lockstep/core/replication"
	"lockstep/edge/peer"
	"lockstep/edge/raftlog"
	"lockstep/messages"
	"lockstep/persistence"
)

// Pauses between requests to be a member.
const (
	admissionPause = time.Second
	// voterPause is the longest for a node that is a member, and would have a vote.
	voterPause = 8 * time.Second
	askMax     = 5 * time.Second
)

// hasLog: this node has opened its consensus log before.
func hasLog(dataDir string) bool {
	_, err := os.Stat(filepath.Join(dataDir, clusterDir, "wal"))
	return err == nil
}

// enter returns when this node, which has no log, may open one. What a job of its time
// before this cluster does and records would not be the cluster's.
func (n *node) enter(stop context.Context) error {
	if running := n.processes.Running(); len(running) > 0 {
		return fmt.Errorf("job %d, started before this node belonged to its cluster, still runs here; start lockstepd again when it has ended", running[0])
	}
	if !founds(n.identity) {
		if err := n.awaitAdmission(stop); err != nil {
			return err
		}
	}
	return persistence.MarkMember(n.files, uuid.NewString())
}

// founds: the first node of a cluster makes its log itself, as long as it knows no other
// node. Later it has lost its log, and would make a second cluster.
func founds(identity *peer.Identity) bool { return identity.Founder && len(identity.Peers) == 0 }

// awaitAdmission returns when this node, which has no log, is a member.
func (n *node) awaitAdmission(stop context.Context) error {
	n.log.WithFields(logrus.Fields{"node": n.identity.Name, "peers": n.identity.Peers}).Info("asking to be admitted to the cluster")
	said := ""
	for {
		admission, err := n.askOnce(stop, peer.MemberRequest{Fresh: true}, "")
		if err == nil && admission.Status == peer.StatusMember {
			return nil
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			n.log.WithField("err", err).Warn("this node is not admitted yet; it goes on asking")
		}
		select {
		case <-stop.Done():
			return errors.New("told to stop before this node was admitted to its cluster")
		case <-time.After(admissionPause):
		}
	}
}

// askForMembership asks again and again for a vote: it may have to wait for another
// node that gets one with it.
func (n *node) askForMembership(ctx context.Context) {
	for pause := admissionPause; ; pause = min(2*pause, voterPause) {
		nodes, err := n.nodes(false)
		if err == nil && !nodes.Leads && n.identity.Voting && !hasVote(nodes, n.identity.Name) {
			if _, err := n.askOnce(ctx, peer.MemberRequest{Applied: nodes.Applied}, nodes.MasterAddress); err != nil {
				n.log.WithField("err", err).Info("this node has no vote yet")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func hasVote(nodes *messages.Nodes, name string) bool {
	for _, m := range nodes.Members {
		if m.Name == name && m.Address != "" {
			return m.Voter
		}
	}
	return false
}

// askOnce asks the master, where it is known, and else the nodes it knows, until one
// answers that is the master.
func (n *node) askOnce(ctx context.Context, r peer.MemberRequest, master string) (peer.Admission, error) {
	r.Name, r.UUID, r.Address, r.Voting = n.identity.Name, n.identity.UUID, n.identity.Address, n.identity.Voting
	err := errors.New("there is no other node to ask")
	addresses := n.identity.Peers
	if master != "" {
		addresses = []string{master}
	}
	for _, address := range addresses {
		for range 2 { // the second time at the master
			asked, cancel := context.WithTimeout(ctx, askMax)
			admission, failed := n.client.Member(asked, address, r)
			cancel()
			switch {
			case failed != nil:
				err = failed
			case admission.Status != peer.StatusElsewhere:
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

// members is told by the replicator, which must not wait. It keeps those out that were
// removed, and has the others' addresses noted.
func (n *node) members(members []*messages.Member) {
	n.voters.Store(int64(replication.Voters(members)))
	known := map[string]bool{}
	addresses := []string{}
	for _, m := range members {
		known[m.Name] = true
		if m.Name != n.identity.Name {
			addresses = append(addresses, m.Address)
		}
	}
	removed, lost := replication.RemovedNodes(n.removed, n.known, members), replication.RemovedNodes(n.lost, nil, members)
	barred := func(name string) bool { return replication.IsBarred(name, n.raft.Leader(), removed, lost) }
	n.listener.SetMembers(func(name string) bool { return len(known) == 0 || known[name] }, barred)
	for _, m := range n.known {
		if barred(m.Name) {
			n.listener.Expel(m.Name)
		}
	}
	n.known, n.removed, n.lost = members, removed, lost
	if len(members) > 0 {
		select {
		case <-n.others: // they are out of date
		default:
		}
		n.others <- others{addresses, lost}
	}
}

// others is what a node remembers of the other ones: where members can be asked, and
// the names of those that a recovery has left behind.
type others struct{ addresses, lost []string }

func (n *node) noteOthers(ctx context.Context) {
	for {
		select {
		case o := <-n.others:
			identity := *n.identity
			if identity.Lost = o.lost; len(o.addresses) > 0 {
				identity.Peers = o.addresses
			}
			if err := identity.Save(n.config.DataDir); err != nil {
				n.log.WithField("err", err).Warn("the other nodes cannot be noted")
			}
		case <-ctx.Done():
			return
		}
	}
}

// recover makes this node the only one with a vote. The others are kept out, should
// they come back: together they would be a majority of what was.
func (n *node) recover(config raftlog.Config) error {
	n.log.Warn("this node becomes the only one with a vote, as lockstep node recover was told")
	members, err := raftlog.Members(config)
	if err != nil {
		return err
	}
	n.lost = replication.RemovedNodes(n.lost, members, []*messages.Member{{Name: n.identity.Name}})
	n.identity.Lost = n.lost
	if err := n.identity.Save(n.config.DataDir); err != nil {
		return err
	}
	if err := raftlog.Recover(config); err != nil {
		return err
	}
	return peer.Recovered(n.config.DataDir)
}

// streams connect the logs of two nodes.
type streams struct {
	net.Listener
	credentials *peer.Credentials
}

// Dial is part of raft.StreamLayer.
func (s *streams) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.credentials.Dial(ctx, string(address), peer.ProtocolRaft)
}
