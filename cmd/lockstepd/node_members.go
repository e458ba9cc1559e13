package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"github.com/sirupsen/logrus"

	"lockstep/actors/core/repl"
	"lockstep/actors/peer"
	"lockstep/messages"
)

// Pauses between requests to be a member.
const (
	admissionPause = time.Second
	// voterPause is the longest for a node that is a member, and would have a vote.
	voterPause = 8 * time.Second
	askMax     = 5 * time.Second
)

// hasLog: this node has opened its consensus log before.
func (n *node) hasLog() bool {
	_, err := os.Stat(filepath.Join(n.config.DataDir, clusterDir, "wal"))
	return err == nil
}

// enter returns when this node, which has no log, may open one. What a job of its time
// before this cluster does and records would not be the cluster's.
func (n *node) enter(stop context.Context) error {
	if running := n.processes.Running(); len(running) > 0 {
		return fmt.Errorf("job %d, started before this node belonged to its cluster, still runs here; start lockstepd again when it has ended", running[0])
	}
	if n.identity.Founder {
		return nil
	}
	return n.awaitAdmission(stop)
}

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
	n.voters.Store(int64(repl.Voters(members)))
	known := map[string]bool{}
	addresses := []string{}
	for _, m := range members {
		known[m.Name] = true
		if m.Name != n.identity.Name {
			addresses = append(addresses, m.Address)
		}
	}
	n.listener.SetMember(func(name string) bool { return len(known) == 0 || known[name] })
	for name := range n.known {
		if !known[name] {
			n.listener.Expel(name)
		}
	}
	n.known = known
	if len(addresses) > 0 {
		select {
		case <-n.addresses: // they are out of date
		default:
		}
		n.addresses <- addresses
	}
}

// noteAddresses remembers the other nodes, who can be asked later.
func (n *node) noteAddresses(ctx context.Context) {
	for {
		identity := *n.identity
		select {
		case identity.Peers = <-n.addresses:
		case <-ctx.Done():
			return
		}
		if err := identity.Save(n.config.DataDir); err != nil {
			n.log.WithField("err", err).Warn("the addresses of the other nodes cannot be noted")
		}
	}
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
