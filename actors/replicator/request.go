package replicator

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/store"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// request handles a request to the store, which only actors of the master part send. A
// request to another incarnation of the store is dropped: its sender stops, or repeats
// it after StoreStarted.
func (r *replicator) request(ctx actor.Context, m *messages.AccessStore) {
	if m.Incarnation != *r.storeIncarnation || !r.mastership.master {
		return
	}
	from := requester{ctx.Sender(), m.Request}
	switch what := m.What.(type) {
	case *messages.AccessStore_Write:
		if changes := replication.WriteChanges(what.Write); changes != nil {
			r.observations.supersede(what.Write)
			r.proposals.add(changes, &changeRequest{answerWhenLogged: what.Write.Logged, done: filesTo(from)})
			return
		}
		r.store.Write(ctx, what.Write, filesTo(from))
	case *messages.AccessStore_Move:
		if changes := replication.RenameChanges(what.Move); changes != nil {
			r.propose(changes, filesTo(from))
			return
		}
		r.store.Move(ctx, what.Move, filesTo(from))
	case *messages.AccessStore_Remove:
		if changes := replication.RemoveChanges(what.Remove); changes != nil {
			r.propose(changes, filesTo(from))
			return
		}
		r.store.Remove(ctx, what.Remove, filesTo(from))
	case *messages.AccessStore_Quarantine:
		r.quarantine(ctx, from, what.Quarantine)
	case *messages.AccessStore_Append:
		r.store.Append(ctx, what.Append, filesTo(from))
	default:
		r.read(ctx, from, m)
	}
}

func filesTo(to requester) func(actor.Context, *messages.ChangeFilesResult) {
	return func(ctx actor.Context, done *messages.ChangeFilesResult) {
		ctx.Send(to.pid, &messages.AccessStoreResult{Request: to.request, What: &messages.AccessStoreResult_Files{Files: done}})
	}
}

// propose has changes made on all nodes. done is called when a majority and this
// node's disk have them.
func (r *replicator) propose(changes []*messages.FileChange, done func(actor.Context, *messages.ChangeFilesResult)) {
	r.proposals.add(changes, &changeRequest{done: done})
}

// proposalRefused offers an entry again that the log has not taken, while this node leads; after triesMax tries the request fails. If the
// outcome is unknown, the leadership was lost and the request is not answered: the next master reads from the disk whether the change was
// made.
func (r *replicator) proposalRefused(ctx actor.Context, m *messages.LogRefused) {
	if m.Unknown || !r.mastership.leads {
		return
	}
	p := r.proposals.refused(m.Number)
	switch {
	case p == nil:
	case p.tries > triesMax:
		r.proposals.fail(ctx, p, m.Failure)
	default:
		r.retryAfter(ctx, retryPause, func(actor.Context) {
			if r.mastership.leads && r.proposals.has(p) {
				r.config.Log.Propose(p.number, p.entry)
			}
		})
	}
}

// dropProposals drops everything that is on its way: the leadership has changed, and
// the actors that wait for answers are stopped.
func (r *replicator) dropProposals() {
	r.proposals.clear()
	clear(r.observations)
	clear(r.quarantining)
	r.deferred = nil
	r.configuration.holds = 0
}

// deferred is a request that waits until changes before it are on the disk.
type deferred struct {
	waits   func() bool
	perform func(actor.Context)
}

// perform carries out a request, as soon as it need not wait.
func (r *replicator) perform(ctx actor.Context, d deferred) {
	if d.waits() {
		r.deferred = append(r.deferred, d)
		return
	}
	d.perform(ctx)
}

// performDeferred carries out the requests that need not wait any longer. Requests about one file keep their order;
// those about different files may not.
func (r *replicator) performDeferred(ctx actor.Context) {
	all := r.deferred
	r.deferred = nil
	for _, d := range all {
		r.perform(ctx, d)
	}
}

// read reads from the disk: a file, when no change of it is on its way; anything else,
// when all earlier proposals are on the disk.
func (r *replicator) read(ctx actor.Context, from requester, m *messages.AccessStore) {
	after := r.numbers.last
	waits := func() bool { return r.proposals.isOpen(after) }
	if file := m.GetRead(); file != nil {
		waits = func() bool { return r.proposals.touches(file.Path) }
	}
	r.perform(ctx, deferred{waits: waits, perform: func(ctx actor.Context) { r.readNow(ctx, from, m) }})
}

func (r *replicator) readNow(ctx actor.Context, from requester, m *messages.AccessStore) {
	answer := func(ctx actor.Context, a *messages.AccessStoreResult) {
		ctx.Send(from.pid, &messages.AccessStoreResult{Request: from.request, What: a.What})
	}
	switch what := m.What.(type) {
	case *messages.AccessStore_Read:
		r.store.Read(ctx, what.Read.Op, what.Read.Path, func(ctx actor.Context, f *messages.ReadFileResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Read{Read: f}})
		})
	case *messages.AccessStore_List:
		r.store.List(ctx, what.List.Op, what.List.Dir, func(ctx actor.Context, d *messages.ListDirResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_List{List: d}})
		})
	case *messages.AccessStore_Identify:
		r.store.Identify(ctx, what.Identify.Op, what.Identify.Path, func(ctx actor.Context, id *messages.IdentifyFileResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Identify{Identify: id}})
		})
	case *messages.AccessStore_Scan:
		r.scan(ctx, func(ctx actor.Context, q *messages.ScanQueueResult) {
			answer(ctx, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Scan{Scan: q}})
		})
	default:
		panic(fmt.Sprintf("store request without a content from %v", from.pid))
	}
}

// quarantine chooses a name that is free on this node and has the file renamed on all nodes, or on this node alone if the others do not
// share it. A node with an intact copy keeps the copy under that name.
func (r *replicator) quarantine(ctx actor.Context, from requester, m *messages.QuarantineFile) {
	answer := func(ctx actor.Context, to string, f *messages.Failure) {
		ctx.Send(from.pid, &messages.AccessStoreResult{Request: from.request, What: &messages.AccessStoreResult_Quarantine{
			Quarantine: &messages.QuarantineFileResult{Path: to, Failure: f}}})
	}
	if !replication.IsShared(m.Path) {
		r.store.Quarantine(ctx, m.Path, func(ctx actor.Context, q *messages.QuarantineFileResult) { answer(ctx, q.Path, q.Failure) })
		return
	}
	r.store.List(ctx, "quarantine", paths.QuarantineDir, func(ctx actor.Context, d *messages.ListDirResult) {
		if d.Failure != nil {
			answer(ctx, "", d.Failure)
			return
		}
		name := store.FreeName(path.Base(m.Path), slices.Concat(d.Names, slices.Sorted(maps.Keys(r.quarantining))))
		r.quarantining[name] = true
		to := paths.QuarantineDir + "/" + name
		move := &messages.MoveFiles{Files: []*messages.MoveFile{{Op: "quarantine", From: m.Path, To: to}}}
		r.propose(replication.RenameChanges(move), func(ctx actor.Context, done *messages.ChangeFilesResult) {
			delete(r.quarantining, name)
			if len(done.Failures) > 0 {
				answer(ctx, "", done.Failures[0].Failure)
				return
			}
			answer(ctx, to, nil)
		})
	})
}
