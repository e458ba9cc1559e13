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

// changesMax is how many changes of membership may wait.
const changesMax = 16

// changes are those of membership, one after another.
type changes struct {
	log   *Log
	queue chan change

	mu     sync.Mutex
	closed bool
}

type change struct {
	number uint64
	replicator.Change
}

func newChanges(l *Log) *changes {
	return &changes{log: l, queue: make(chan change, changesMax)}
}

func (c *changes) enter(number uint64, what replicator.Change) {
	if err := c.queued(change{number: number, Change: what}); err != nil {
		c.answer(number, err)
	}
}

func (c *changes) queued(next change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	select {
	case c.queue <- next:
		return nil
	default:
		return fmt.Errorf("%d changes of membership wait already; try again later", changesMax)
	}
}

func (c *changes) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	close(c.queue)
}

func (c *changes) run() {
	for next := range c.queue {
		c.answer(next.number, c.make(next.Change))
	}
}

func (c *changes) answer(number uint64, err error) {
	answer := &messages.LogChanged{Number: number}
	if err != nil {
		answer.Failure = failure(err.Error())
	}
	c.log.desk.say(answer)
}

func (c *changes) make(what replicator.Change) error {
	r := c.log.raft.Load()
	if r == nil || r.State() != raft.Leader {
		return raft.ErrNotLeader
	}
	select {
	case <-c.log.stop:
		return errClosed
	default:
	}
	id, address := raft.ServerID(what.Name), raft.ServerAddress(what.Address)
	timeout := 5 * c.log.config.Timing.Heartbeat
	switch what.What {
	case messages.ChangeNodes_ADD_NONVOTER, messages.ChangeNodes_ADD_VOTER:
		if id == "" || address == "" {
			return errors.New("a node is added by its name and its address, host:port; one is missing")
		}
		add := r.AddVoter
		if what.What == messages.ChangeNodes_ADD_NONVOTER {
			add = r.AddNonvoter
		}
		return explain("adding", what.Name, add(id, address, 0, timeout).Error())
	case messages.ChangeNodes_REMOVE:
		return c.remove(r, id, timeout)
	case messages.ChangeNodes_TRANSFER:
		return c.transfer(r, id)
	}
	return fmt.Errorf("%v is no change of membership", what.What)
}

// remove takes a node out of the cluster. It cannot be this one, which then would
// lead a cluster to which it does not belong.
func (c *changes) remove(r *raft.Raft, id raft.ServerID, timeout time.Duration) error {
	if _, found := member(r, id); !found {
		return fmt.Errorf("removing node %s: it is not in the cluster", id)
	}
	if id != raft.ServerID(c.log.config.Name) {
		return explain("removing", string(id), r.RemoveServer(id, 0, timeout).Error())
	}
	if err := c.transfer(r, ""); err != nil {
		return fmt.Errorf("removing node %s, which leads: %w", id, err)
	}
	return fmt.Errorf("removing node %s: it led, and has handed the leadership over; "+
		"ask the node that leads now to remove it", id)
}

// transfer hands the leadership over; to whom it suits best if nobody is named.
func (c *changes) transfer(r *raft.Raft, id raft.ServerID) error {
	if err := c.mayLead(r, id); err != nil {
		return err
	}
	var err error
	if id == "" {
		err = r.LeadershipTransfer().Error()
	} else {
		server, _ := member(r, id)
		err = r.LeadershipTransferToServer(id, server.Address).Error()
	}
	if err != nil {
		return fmt.Errorf("handing the leadership over: %w", err)
	}
	return nil
}

func (c *changes) mayLead(r *raft.Raft, id raft.ServerID) error {
	if id == raft.ServerID(c.log.config.Name) {
		return fmt.Errorf("handing the leadership over: node %s has it", id)
	}
	if id != "" {
		if server, found := member(r, id); !found || server.Suffrage != raft.Voter {
			return fmt.Errorf("handing the leadership over: node %s is no voter of the cluster", id)
		}
		if !c.log.lease.hears(id) { // who is told to stand for election costs the lease
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

func member(r *raft.Raft, id raft.ServerID) (raft.Server, bool) {
	for _, server := range r.GetConfiguration().Configuration().Servers {
		if server.ID == id {
			return server, true
		}
	}
	return raft.Server{}, false
}

func explain(doing, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s node %s: %w", doing, name, err)
	}
	return nil
}
