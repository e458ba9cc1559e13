package replicator

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// PublishNode asks for this node's view of the cluster, NodePublished.
type PublishNode struct{}

// NodePublished is what this node knows of the cluster. It is sent to the monitor at each change, and after PublishNode.
type NodePublished struct {
	Self    string // name of this node
	Master  bool   // this node is the master
	Leader  string // name of the node that leads; "": unknown
	Term    uint64 // of the leadership of this node; 0: it does not lead
	Applied uint64 // index of the last entry on this node's disk
	Failure *messages.Failure
	Members []*messages.Member
	// CommitTimes are the times from the offer of an entry of this node to its commit, since the message before.
	CommitTimes []time.Duration
}

// view is what must change for another NodePublished.
type view struct {
	master  bool
	leader  string
	term    uint64
	applied uint64
	failure *messages.Failure
	members *messages.Member // the first one of the list; each change makes a new list
	number  int              // of members
	known   bool
}

func (r *replicator) view() view {
	s := &r.mastership
	v := view{
		master:  s.master,
		leader:  s.leader,
		applied: r.replica.applied,
		failure: r.applying.failure,
		number:  len(r.membership.members),
		known:   true,
	}
	if s.leads {
		v.term = s.term
	}
	if v.number > 0 {
		v.members = r.membership.members[0]
	}
	return v
}

// publish tells the monitor what has changed of this node's view; nothing if it is as before.
func (r *replicator) publish(ctx actor.Context) {
	if r.config.Monitor == nil {
		return
	}
	v := r.view()
	if v == r.published {
		return
	}
	r.published = v
	ctx.Send(r.config.Monitor, &NodePublished{
		Self:        r.config.Name,
		Master:      v.master,
		Leader:      v.leader,
		Term:        v.term,
		Applied:     v.applied,
		Failure:     v.failure,
		Members:     r.membership.members,
		CommitTimes: r.commitTimes.take(),
	})
}

// commitTimes measures how long commits take, if there is an observer. Its methods may be called on nil.
type commitTimes struct {
	clock   kit.Clock
	offered map[uint64]time.Time // by number of the proposal
	taken   []time.Duration      // not published yet
}

// openMax bounds the proposals that are measured at a time, since a proposal may never be committed.
const openMax = 4096

func newCommitTimes(c Config) *commitTimes {
	if c.Monitor == nil {
		return nil
	}
	return &commitTimes{clock: c.Env.Clock(), offered: map[uint64]time.Time{}}
}

// offer returns a function that offers an entry to the log (Log.Propose) and notes when; propose itself if no times are measured.
func (c *commitTimes) offer(propose func(uint64, []byte)) func(uint64, []byte) {
	if c == nil {
		return propose
	}
	return func(number uint64, entry []byte) {
		if len(c.offered) >= openMax {
			clear(c.offered)
		}
		c.offered[number] = c.clock.Now()
		propose(number, entry)
	}
}

// logged notes how long a proposal has taken to be committed.
func (c *commitTimes) logged(number uint64) {
	if c == nil {
		return
	}
	if since, known := c.offered[number]; known {
		delete(c.offered, number)
		c.taken = append(c.taken, c.clock.Now().Sub(since))
	}
}

func (c *commitTimes) take() []time.Duration {
	if c == nil {
		return nil
	}
	taken := c.taken
	c.taken = nil
	return taken
}
