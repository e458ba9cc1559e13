package raftlog

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockstep/actors/replicator"
	"lockstep/messages"
)

// membershipChangesMax bounds the queued changes of membership.
const membershipChangesMax = 16

// membershipChanges makes the requested changes of membership, one after another.
type membershipChanges struct {
	log   *Log
	queue chan membershipChange

	mu     sync.Mutex
	closed bool
}

type membershipChange struct {
	number uint64
	replicator.Change
}

func newMembershipChanges(l *Log) *membershipChanges {
	return &membershipChanges{log: l, queue: make(chan membershipChange, membershipChangesMax)}
}

func (c *membershipChanges) submit(number uint64, change replicator.Change) {
	if err := c.enqueue(membershipChange{number: number, Change: change}); err != nil {
		c.reply(number, err)
	}
}

func (c *membershipChanges) enqueue(next membershipChange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	select {
	case c.queue <- next:
		return nil
	default:
		return fmt.Errorf("%d changes of membership wait already; try again later", membershipChangesMax)
	}
}

func (c *membershipChanges) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.queue)
}

func (c *membershipChanges) run() {
	for next := range c.queue {
		c.reply(next.number, c.perform(next.Change))
	}
}

func (c *membershipChanges) reply(number uint64, err error) {
	answer := &messages.LogChangeResult{Number: number}
	if err != nil {
		answer.Failure = failure(err.Error())
	}
	c.log.bridge.send(answer)
}

func (c *membershipChanges) perform(change replicator.Change) error {
	r := c.log.raft.Load()
	if r == nil || r.State() != raft.Leader {
		return raft.ErrNotLeader
	}
	select {
	case <-c.log.closing:
		return errClosed
	default:
	}
	id, address := raft.ServerID(change.Name), raft.ServerAddress(change.Address)
	timeout := 5 * c.log.config.Timing.Heartbeat
	switch change.What {
	case messages.ChangeNodes_ADD_NONVOTER, messages.ChangeNodes_ADD_VOTER:
		if id == "" || address == "" {
			return errors.New("a node is added by its name and its address, host:port; one is missing")
		}
		add := r.AddVoter
		if change.What == messages.ChangeNodes_ADD_NONVOTER {
			add = r.AddNonvoter
		}
		return wrapChangeError("adding", change.Name, add(id, address, 0, timeout).Error())
	case messages.ChangeNodes_REMOVE:
		return c.remove(r, id, timeout)
	case messages.ChangeNodes_TRANSFER:
		return c.transfer(r, id)
	}
	return fmt.Errorf("%v is no change of membership", change.What)
}

// remove removes a node from the cluster. It refuses to remove this node, which would then
// lead a cluster to which it does not belong.
func (c *membershipChanges) remove(r *raft.Raft, id raft.ServerID, timeout time.Duration) error {
	if _, found := findServer(r, id); !found {
		return fmt.Errorf("removing node %s: it is not in the cluster", id)
	}
	if id != raft.ServerID(c.log.config.Name) {
		return wrapChangeError("removing", string(id), r.RemoveServer(id, 0, timeout).Error())
	}
	if err := c.transfer(r, ""); err != nil {
		return fmt.Errorf("removing node %s, which leads: %w", id, err)
	}
	return fmt.Errorf("removing node %s: it led, and has handed the leadership over; "+
		"ask the node that leads now to remove it", id)
}

// transfer transfers the leadership to the node id, or to a node that raft chooses if id is
// empty.
func (c *membershipChanges) transfer(r *raft.Raft, id raft.ServerID) error {
	if err := c.checkTransfer(r, id); err != nil {
		return err
	}
	var err error
	if id == "" {
		err = r.LeadershipTransfer().Error()
	} else {
		server, _ := findServer(r, id)
		err = r.LeadershipTransferToServer(id, server.Address).Error()
	}
	if err != nil {
		return fmt.Errorf("handing the leadership over: %w", err)
	}
	return nil
}

func (c *membershipChanges) checkTransfer(r *raft.Raft, id raft.ServerID) error {
	if id == raft.ServerID(c.log.config.Name) {
		return fmt.Errorf("handing the leadership over: node %s is the leader already", id)
	}
	if id != "" {
		if server, found := findServer(r, id); !found || server.Suffrage != raft.Voter {
			return fmt.Errorf("handing the leadership over: node %s is no voter of the cluster", id)
		}
		if !c.log.lease.heardRecently(id) { // until the transfer fails, raft would refuse all proposals
			return fmt.Errorf("handing the leadership over: node %s does not answer; nothing has changed", id)
		}
		return nil
	}
	for _, voter := range c.log.voters() {
		if voter != raft.ServerID(c.log.config.Name) {
			return nil
		}
	}
	return errors.New("handing the leadership over: there is no other voter; add one first")
}

func findServer(r *raft.Raft, id raft.ServerID) (raft.Server, bool) {
	for _, server := range r.GetConfiguration().Configuration().Servers {
		if server.ID == id {
			return server, true
		}
	}
	return raft.Server{}, false
}

func wrapChangeError(action, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrLeadershipLost): // the entry is in the log of this node at least
		return fmt.Errorf("%s node %s: %w; the next master may make the change all the same: see lockstep node list", action, name, err)
	}
	return fmt.Errorf("%s node %s: %w", action, name, err)
}
