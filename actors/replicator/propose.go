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
	number uint64
	tries  int
	entry  []byte
	files  []string
	whole  *whole
	behind int         // proposals that it waits for
	ahead  []*proposal // that wait for this one
}

// whole is a request of which each proposal is a part.
type whole struct {
	pieces   []*proposal
	left     int // that are not on this node's disk
	logged   int // parts that a majority has; see messages.WriteFiles
	early    bool
	failures []*messages.FileFailure
	done     func(actor.Context, *messages.FilesDone)
}

// propose has changes made on all nodes, and answers when a majority has them and
// this node's disk.
func (r *replicator) propose(from asker, changes []*messages.FileChange) {
	r.proposeTo(changes, filesTo(from))
}

func (r *replicator) proposeTo(changes []*messages.FileChange, done func(actor.Context, *messages.FilesDone)) {
	r.proposeWhole(changes, &whole{done: done})
}

func (r *replicator) proposeWhole(changes []*messages.FileChange, w *whole) {
	pieces := replication.SplitChanges(changes, entryMax)
	w.left = len(pieces)
	for i, piece := range pieces {
		r.last++
		p := &proposal{number: r.last, whole: w, entry: (&messages.LogEntry{Origin: r.config.Self.Node, Run: r.config.Self.Incarnation, Number: r.last, Changes: piece}).Marshal()}
		for _, c := range piece {
			p.files = append(p.files, replication.ChangedPaths(c)...)
		}
		if i == len(pieces)-1 {
			for _, former := range w.pieces {
				p.follow(former)
			}
		}
		for _, file := range p.files {
			r.touched[file]++
			if former := r.latest[file]; former != nil && former != p {
				p.follow(former)
			}
			r.latest[file] = p
		}
		w.pieces = append(w.pieces, p)
		r.proposals[p.number] = p
		r.offer(p)
	}
}

// follow has a proposal wait for a former one.
func (p *proposal) follow(former *proposal) {
	p.behind++
	former.ahead = append(former.ahead, p)
}

// offer proposes what waits for nothing.
func (r *replicator) offer(p *proposal) {
	if p.behind == 0 {
		r.config.Log.Propose(p.number, p.entry)
	}
}

// release offers what waits for this proposal, which a majority has, or nobody ever will.
func (r *replicator) release(p *proposal) {
	for _, file := range p.files {
		if r.latest[file] == p {
			delete(r.latest, file)
		}
	}
	ahead := p.ahead
	p.ahead = nil
	for _, next := range ahead {
		if next.behind--; r.proposals[next.number] == next {
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
	r.release(p)
	if !p.whole.early {
		return
	}
	if p.whole.logged++; p.whole.logged == len(p.whole.pieces) {
		done := p.whole.done
		p.whole.done = func(actor.Context, *messages.FilesDone) {} // it is answered
		done(ctx, &messages.FilesDone{})
	}
}

// settle ends a proposal that is on this node's disk; failures are those that the
// changes have met there, by path.
func (r *replicator) settle(ctx actor.Context, number uint64, failures map[string]*messages.FileFailure) {
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
			p.whole.failures = append(p.whole.failures, f)
		}
	}
	if p.whole.left--; p.whole.left == 0 {
		p.whole.done(ctx, &messages.FilesDone{Failures: p.whole.failures})
	}
}

// refused: an entry was not taken. One that certainly was not is offered again as
// long as this node leads, for a while: mostly it is a matter of moments. One whose outcome is
// unknown went down with the leadership: nobody is told that it succeeded, and who
// reads the disk next will see.
func (r *replicator) refused(ctx actor.Context, m *messages.LogRefused) {
	p := r.proposals[m.Number]
	if p == nil || m.Unknown || !r.leads {
		return
	}
	if p.tries++; p.tries > triesMax {
		r.giveUp(ctx, p, m.Failure)
		return
	}
	r.later(ctx, retryPause, func(actor.Context) {
		if r.leads && r.proposals[m.Number] == p {
			r.config.Log.Propose(m.Number, p.entry)
		}
	})
}

// giveUp fails a proposal, and the last part of its request, which has not been offered:
// it must not be there without the others.
func (r *replicator) giveUp(ctx actor.Context, p *proposal, why *messages.Failure) {
	left := []*proposal{p}
	if last := p.whole.pieces[len(p.whole.pieces)-1]; last != p && r.proposals[last.number] == last {
		left = append(left, last)
	}
	for _, piece := range left {
		failures := map[string]*messages.FileFailure{}
		for _, file := range piece.files {
			failures[file] = &messages.FileFailure{Path: file, Failure: why}
		}
		r.settle(ctx, piece.number, failures)
	}
	for _, piece := range left {
		r.release(piece)
	}
}

// forget drops what is on its way: this node does not lead any more, and those who
// have asked for it go.
func (r *replicator) forget() {
	clear(r.proposals)
	clear(r.touched)
	clear(r.latest)
	clear(r.observed)
	clear(r.aside)
	r.held = nil
}

// quarantine chooses a name that is free here, and has the file renamed everywhere:
// nodes that have a good copy keep it under that name.
func (r *replicator) quarantine(ctx actor.Context, from asker, m *messages.Quarantine) {
	answer := func(ctx actor.Context, to string, f *messages.Failure) {
		ctx.Send(from.pid, &messages.StoreAnswer{Request: from.request, What: &messages.StoreAnswer_Quarantined{
			Quarantined: &messages.Quarantined{Path: to, Failure: f}}})
	}
	if !replication.IsShared(m.Path) {
		r.store.Quarantine(ctx, m.Path, func(ctx actor.Context, q *messages.Quarantined) { answer(ctx, q.Path, q.Failure) })
		return
	}
	r.store.List(ctx, "quarantine", paths.QuarantineDir, func(ctx actor.Context, d *messages.DirListed) {
		if d.Failure != nil {
			answer(ctx, "", d.Failure)
			return
		}
		name := store.FreeName(path.Base(m.Path), slices.Concat(d.Names, slices.Sorted(maps.Keys(r.aside))))
		r.aside[name] = true
		to := paths.QuarantineDir + "/" + name
		move := &messages.MoveFiles{Files: []*messages.MoveFile{{Op: "quarantine", From: m.Path, To: to}}}
		r.proposeTo(replication.RenameChanges(move), func(ctx actor.Context, done *messages.FilesDone) {
			delete(r.aside, name)
			if len(done.Failures) > 0 {
				answer(ctx, "", done.Failures[0].Failure)
				return
			}
			answer(ctx, to, nil)
		})
	})
}
