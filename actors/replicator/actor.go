// Package replicator is the actor in front of the consensus log, on a node of a
// cluster (design.md 9).
//
// It owns the way from a request that changes a shared file to that change on the
// disks of a majority, and the order in which this node applies what was committed.
// To the actors of the master it is the store: what only this node knows it passes
// on. It may further be asked to observe what job processes have written, who the
// nodes are, and to change them. It tells the node's supervisor when to start and
// stop the master part of the tree. Nothing but the running jobs is its own memory,
// and these it has from the log; after a crash it attaches to the log anew, which
// repeats what was not applied, and those who asked for changes send them again.
package replicator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/replication"
	"lockstep/messages"
)

// Config is what the replicator needs.
type Config struct {
	Env   *kit.Env
	Log   Log
	Store *actor.PID
	// Master is told BecomeMaster and ResignMaster.
	Master *actor.PID
	// Reception is told, as LogFollows, who the master is.
	Reception *actor.PID
	// Clients are told of each new incarnation, and of each mastership.
	Clients []*actor.PID
	Peers   Peers                    // nil: nobody asks about other nodes
	Members func([]*messages.Member) // is told who belongs to the cluster; nil: nobody is
	Name    string                   // of this node
	Self    replication.Applier
}

// Props makes the replicator. Its incarnations are numbered from 1.
func Props(c Config) *actor.Props {
	incarnation, masterships := uint32(0), uint64(0)
	return c.Env.Props("replicator", func() actor.Actor {
		incarnation++
		return &replicator{
			config: c, incarnation: incarnation, epoch: &masterships, running: replication.RunningJobs{}, contents: map[int64][]byte{}, proposals: map[uint64]*proposal{}, touched: map[string]int{}, latest: map[string]*proposal{},
			observed: map[int64]*observation{}, changes: map[uint64]asker{}, questions: map[uint64]question{}, aside: map[string]bool{}, wishes: map[string]wish{},
			store: store.NewClient(c.Store, incarnation),
			last:  uint64(incarnation) << 32, oldest: uint64(incarnation) << 32, // proposals of a former incarnation are not this one's
		}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Escalate})))
}

type replicator struct {
	config      Config
	incarnation uint32
	store       *store.Client
	epoch       *uint64 // of this one as a store; it rises over incarnations

	// what the log says
	running   replication.RunningJobs
	contents  map[int64][]byte // of the files of jobs that run on this node, as it has them
	attached  bool             // what the log says is for this incarnation
	applied   uint64
	members   []*messages.Member
	leads     bool   // the log says so
	term      uint64 // since when
	master    bool   // that, and what jobs here wrote before, is in the log: requests are taken
	leader    string // while leads is false; "": not known
	address   string
	applying  *batch
	restoring *messages.LogRestore    // part of a snapshot that is on its way to the disk
	restored  replication.RunningJobs // by that snapshot
	files     map[string]bool         // of that snapshot

	last      uint64 // proposal
	oldest    uint64 // that is not on the disk yet, or a number before it
	proposals map[uint64]*proposal
	touched   map[string]int       // by path: proposals that are not on the disk yet
	latest    map[string]*proposal // by path: the last one that no majority has yet
	held      []heldRead           // behind those
	aside     map[string]bool      // names in the quarantine that are on their way
	observed  map[int64]*observation
	changes   map[uint64]asker // of membership, by number
	questions map[uint64]question
	wishes    map[string]wish   // of nodes that could be given a vote
	failure   *messages.Failure // the disk refuses what is to be applied
}

type asker struct {
	pid     *actor.PID
	request uint64
}

// retryPause is before something is tried again that was refused for now.
const retryPause = 100 * time.Millisecond

// retry is due some time after something has failed. That of a former incarnation is
// about what nobody waits for any more.
type retry struct {
	incarnation uint32
	what        func(actor.Context)
}

func (r *replicator) Receive(ctx actor.Context) {
	if r.store.Handle(ctx) {
		return
	}
	if !r.attached && fromLog(ctx.Message()) {
		return // for a former incarnation: it comes again
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		*r.epoch++
		// A master part that goes on would have asked somebody who has forgotten.
		ctx.Send(r.config.Master, &messages.ResignMaster{})
		r.store.Hello(ctx)
		r.config.Log.Attach(ctx.Self(), r.incarnation)
	case *messages.LogAttached:
		r.takeOver(m)
	case *messages.LogCommitted:
		r.committed(ctx, m)
	case *messages.LogRestore:
		r.restore(ctx, m)
	case *messages.LogRefused:
		r.refused(ctx, m)
	case *messages.LogLeads:
		r.lead(ctx, m.Term)
	case *messages.LogFollows:
		r.follow(ctx, m)
	case *messages.LogMembers:
		r.members = m.Members
		if r.config.Members != nil {
			r.config.Members(m.Members)
		}
	case *messages.LogChanged:
		r.changed(ctx, m)
	case *messages.AskStore:
		if r.master {
			ctx.Respond(&messages.StoreStarted{Epoch: *r.epoch})
		}
	case *messages.StoreRequest:
		r.request(ctx, m)
	case *messages.ObserveJob:
		r.observe(ctx, m)
	case *messages.AskCommitted:
		r.askCommitted(ctx)
	case *messages.AskNodes:
		r.nodes(ctx, m)
	case *messages.NodesAsked:
		r.asked(ctx, m)
	case *messages.CheckNodes:
		r.check(ctx, m)
	case *messages.NodesCompared:
		r.compared(ctx, m)
	case *messages.ChangeNodes:
		r.change(ctx, m)
	case *messages.AdmitNode:
		r.admit(ctx, m)
	case *retry:
		if m.incarnation == r.incarnation {
			m.what(ctx)
		}
	case *messages.Drain:
		ctx.Request(ctx.Sender(), &messages.Drained{})
	default:
		kit.Unexpected(ctx)
	}
}

// fromLog: it is the log's news, but for the first.
func fromLog(message any) bool {
	switch message.(type) {
	case *messages.LogCommitted, *messages.LogRestore, *messages.LogRefused, *messages.LogLeads, *messages.LogFollows,
		*messages.LogMembers, *messages.LogChanged:
		return true
	}
	return false
}

func (r *replicator) later(ctx actor.Context, pause time.Duration, what func(actor.Context)) {
	kit.SendAfter(r.config.Env.Clock(), ctx.ActorSystem(), pause, ctx.Self(), &retry{r.incarnation, what})
}

// request takes what an actor asks of its store. Only the master's actors do.
func (r *replicator) request(ctx actor.Context, m *messages.StoreRequest) {
	if m.Epoch != *r.epoch || !r.master {
		return // they are on their way out, or will ask again
	}
	from := asker{ctx.Sender(), m.Request}
	switch what := m.What.(type) {
	case *messages.StoreRequest_Write:
		if changes := replication.WriteChanges(what.Write); changes != nil {
			r.supersede(what.Write)
			r.proposeWhole(changes, &whole{early: what.Write.Logged, done: filesTo(from)})
			return
		}
		r.store.Write(ctx, what.Write, filesTo(from))
	case *messages.StoreRequest_Move:
		if changes := replication.RenameChanges(what.Move); changes != nil {
			r.propose(from, changes)
			return
		}
		r.store.Move(ctx, what.Move, filesTo(from))
	case *messages.StoreRequest_Remove:
		if changes := replication.RemoveChanges(what.Remove); changes != nil {
			r.propose(from, changes)
			return
		}
		r.store.Remove(ctx, what.Remove, filesTo(from))
	case *messages.StoreRequest_Quarantine:
		r.quarantine(ctx, from, what.Quarantine)
	case *messages.StoreRequest_Append:
		r.store.Append(ctx, what.Append, filesTo(from))
	default:
		r.read(ctx, heldRead{from, m, r.last})
	}
}

func filesTo(to asker) func(actor.Context, *messages.FilesDone) {
	return func(ctx actor.Context, done *messages.FilesDone) { to.files(ctx, done) }
}

func (a asker) files(ctx actor.Context, done *messages.FilesDone) {
	ctx.Send(a.pid, &messages.StoreAnswer{Request: a.request, What: &messages.StoreAnswer_Files{Files: done}})
}

// heldRead waits until nothing is on its way any more that it should see.
type heldRead struct {
	from   asker
	what   *messages.StoreRequest
	behind uint64 // number of the last proposal that was made before
}

// read looks at the disk, when what was asked for before is there.
func (r *replicator) read(ctx actor.Context, h heldRead) {
	from, m := h.from, h.what
	waits := r.isOpen(h.behind)
	if file := m.GetRead(); file != nil {
		waits = r.touched[file.Path] > 0
	}
	if waits {
		r.held = append(r.held, h)
		return
	}
	answer := func(ctx actor.Context, a *messages.StoreAnswer) {
		ctx.Send(from.pid, &messages.StoreAnswer{Request: from.request, What: a.What})
	}
	switch what := m.What.(type) {
	case *messages.StoreRequest_Read:
		r.store.Read(ctx, what.Read.Op, what.Read.Path, func(ctx actor.Context, f *messages.FileRead) {
			answer(ctx, &messages.StoreAnswer{What: &messages.StoreAnswer_Read{Read: f}})
		})
	case *messages.StoreRequest_List:
		r.store.List(ctx, what.List.Op, what.List.Dir, func(ctx actor.Context, d *messages.DirListed) {
			answer(ctx, &messages.StoreAnswer{What: &messages.StoreAnswer_Listed{Listed: d}})
		})
	case *messages.StoreRequest_Scan:
		r.scan(ctx, func(ctx actor.Context, q *messages.QueueScanned) {
			answer(ctx, &messages.StoreAnswer{What: &messages.StoreAnswer_Scanned{Scanned: q}})
		})
	default:
		panic(fmt.Sprintf("store request without a content from %v", from.pid))
	}
}

// readHeld lets those read whose time has come. They keep their order only among
// those of one file, which is all that was promised.
func (r *replicator) readHeld(ctx actor.Context) {
	held := r.held
	r.held = nil
	for _, h := range held {
		r.read(ctx, h)
	}
}

// isOpen: a proposal of that number, or an earlier one, is not on the disk yet.
func (r *replicator) isOpen(number uint64) bool {
	for r.oldest <= r.last && r.proposals[r.oldest] == nil {
		r.oldest++
	}
	return r.oldest <= number
}
