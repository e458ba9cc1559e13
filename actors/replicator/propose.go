package replicator

import (
	"maps"
	"path"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/store"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// entryMax is how much content an entry has, in bytes, unless one file is larger.
const entryMax = 1 << 20

// triesMax is how often an entry is offered that the log refuses: it may be busy, or
// handing the leadership over, for some seconds. Who asked is told then.
const triesMax = 100

// proposal is one entry on its way to a majority and to this node's disk.
//
// It is not offered to the log before those that it must come behind have a majority:
// former proposals about one of its files and, if it is the last part of its request, all
// other parts. The log may refuse any of them, which is then offered again and would come
// last; but the last part holds what makes the others count, like the serial of new jobs.
type proposal struct {
	number     uint64
	tries      int
	entry      []byte
	files      []string
	request    *changeRequest
	waitingFor int         // proposals that it waits for
	dependents []*proposal // that wait for this one
}

// changeRequest is a request of which each proposal is a part.
type changeRequest struct {
	parts            []*proposal
	remaining        int // that are not on this node's disk
	logged           int // parts that a majority has; see messages.WriteFiles
	answerWhenLogged bool
	failures         []*messages.FileFailure
	done             func(actor.Context, *messages.ChangeFilesResult)
}

// propose has changes made on all nodes, and answers when a majority has them and
// this node's disk.
func (r *replicator) propose(from requester, changes []*messages.FileChange) {
	r.proposeTo(changes, filesTo(from))
}

func (r *replicator) proposeTo(changes []*messages.FileChange, done func(actor.Context, *messages.ChangeFilesResult)) {
	r.proposeRequest(changes, &changeRequest{done: done})
}

func (r *replicator) proposeRequest(changes []*messages.FileChange, w *changeRequest) {
	pieces := replication.SplitChanges(changes, entryMax)
	w.remaining = len(pieces)
	for i, piece := range pieces {
		r.last++
		p := &proposal{number: r.last, request: w, entry: (&messages.LogEntry{Origin: r.config.Self.Node, Incarnation: r.config.Self.Incarnation, Number: r.last, Changes: piece}).Marshal()}
		for _, c := range piece {
			p.files = append(p.files, replication.ChangedPaths(c)...)
		}
		if i == len(pieces)-1 {
			for _, former := range w.parts {
				p.waitFor(former)
			}
		}
		for _, file := range p.files {
			r.touched[file]++
			if former := r.latest[file]; former != nil && former != p {
				p.waitFor(former)
			}
			r.latest[file] = p
		}
		w.parts = append(w.parts, p)
		r.proposals[p.number] = p
		r.offer(p)
	}
}

// waitFor has a proposal wait for a former one.
func (p *proposal) waitFor(former *proposal) {
	p.waitingFor++
	former.dependents = append(former.dependents, p)
}

// offer proposes what waits for nothing.
func (r *replicator) offer(p *proposal) {
	if p.waitingFor == 0 {
		r.config.Log.Propose(p.number, p.entry)
	}
}

// offerDependents offers what waits for this proposal, which a majority has, or nobody ever will.
func (r *replicator) offerDependents(p *proposal) {
	for _, file := range p.files {
		if r.latest[file] == p {
			delete(r.latest, file)
		}
	}
	ahead := p.dependents
	p.dependents = nil
	for _, next := range ahead {
		if next.waitingFor--; r.proposals[next.number] == next {
			r.offer(next)
		}
	}
}

// logged goes on with what waits for a proposal, which a majority has now, and answers
// a request that need not wait for this node's disk when a majority has all of it.
func (r *replicator) logged(ctx actor.Context, number uint64) {
	p := r.proposals[number]
	if p == nil {
		return
	}
	r.offerDependents(p)
	if !p.request.answerWhenLogged {
		return
	}
	if p.request.logged++; p.request.logged == len(p.request.parts) {
		done := p.request.done
		p.request.done = func(actor.Context, *messages.ChangeFilesResult) {} // it is answered
		done(ctx, &messages.ChangeFilesResult{})
	}
}

// finishProposal ends a proposal that is on this node's disk; failures are those that the
// changes have met there, by path.
func (r *replicator) finishProposal(ctx actor.Context, number uint64, failures map[string]*messages.FileFailure) {
	p := r.proposals[number]
	if p == nil {
		return // of a former incarnation, or of a former mastership
	}
	delete(r.proposals, number)
	for _, file := range p.files {
		if r.touched[file]--; r.touched[file] == 0 {
			delete(r.touched, file)
		}
		if f := failures[file]; f != nil {
			p.request.failures = append(p.request.failures, f)
		}
	}
	if p.request.remaining--; p.request.remaining == 0 {
		p.request.done(ctx, &messages.ChangeFilesResult{Failures: p.request.failures})
	}
}

// proposalRefused: an entry was not taken. One that certainly was not is offered again as
// long as this node leads, for a while: mostly it is a matter of moments. One whose outcome is
// unknown went down with the leadership: nobody is told that it succeeded, and who
// reads the disk next will see.
func (r *replicator) proposalRefused(ctx actor.Context, m *messages.LogRefused) {
	p := r.proposals[m.Number]
	if p == nil || m.Unknown || !r.leads {
		return
	}
	if p.tries++; p.tries > triesMax {
		r.failProposal(ctx, p, m.Failure)
		return
	}
	r.retryAfter(ctx, retryPause, func(actor.Context) {
		if r.leads && r.proposals[m.Number] == p {
			r.config.Log.Propose(m.Number, p.entry)
		}
	})
}

// failProposal fails a proposal, and the last part of its request, which has not been offered:
// it must not be there without the others.
func (r *replicator) failProposal(ctx actor.Context, p *proposal, why *messages.Failure) {
	failing := []*proposal{p}
	if last := p.request.parts[len(p.request.parts)-1]; last != p && r.proposals[last.number] == last {
		failing = append(failing, last)
	}
	for _, piece := range failing {
		failures := map[string]*messages.FileFailure{}
		for _, file := range piece.files {
			failures[file] = &messages.FileFailure{Path: file, Failure: why}
		}
		r.finishProposal(ctx, piece.number, failures)
	}
	for _, piece := range failing {
		r.offerDependents(piece)
	}
}

// dropProposals drops what is on its way: this node does not lead any more, and those who
// have asked for it go.
func (r *replicator) dropProposals() {
	clear(r.proposals)
	clear(r.touched)
	clear(r.latest)
	clear(r.jobFiles)
	clear(r.quarantining)
	r.deferredReads = nil
}

// quarantine chooses a name that is free here, and has the file renamed everywhere:
// nodes that have a good copy keep it under that name.
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
		r.proposeTo(replication.RenameChanges(move), func(ctx actor.Context, done *messages.ChangeFilesResult) {
			delete(r.quarantining, name)
			if len(done.Failures) > 0 {
				answer(ctx, "", done.Failures[0].Failure)
				return
			}
			answer(ctx, to, nil)
		})
	})
}
