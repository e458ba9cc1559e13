package replicator

import (
	"maps"
	"path"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/layout"
	"lockstep/actors/core/repl"
	"lockstep/actors/store"
	"lockstep/messages"
)

// entryMax is how much content an entry has, in bytes, unless one file is larger.
const entryMax = 1 << 20

// triesMax is how often an entry is offered that the log refuses: it may be busy, or
// handing the leadership over, for some seconds. Who asked is told then.
const triesMax = 100

// proposal is one entry on its way to a majority and to this node's disk.
type proposal struct {
	tries int
	entry []byte
	files []string
	whole *whole
}

// whole is a request of which each proposal is a part.
type whole struct {
	parts    int
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
	pieces := repl.Pieces(changes, entryMax)
	w.left, w.parts = len(pieces), len(pieces)
	for _, piece := range pieces {
		r.last++
		p := &proposal{whole: w, entry: (&messages.LogEntry{Origin: r.config.Self.Node, Run: r.config.Self.Run, Number: r.last, Changes: piece}).Marshal()}
		for _, c := range piece {
			p.files = append(p.files, repl.Files(c)...)
		}
		for _, file := range p.files {
			r.touched[file]++
		}
		r.proposals[r.last] = p
		r.config.Log.Propose(r.last, p.entry)
	}
}

// logged answers a request that need not wait for this node's disk, when a majority
// has all of it.
func (r *replicator) logged(ctx actor.Context, number uint64) {
	p := r.proposals[number]
	if p == nil || !p.whole.early {
		return
	}
	if p.whole.logged++; p.whole.logged == p.whole.parts {
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
		failures := map[string]*messages.FileFailure{}
		for _, file := range p.files {
			failures[file] = &messages.FileFailure{Path: file, Failure: m.Failure}
		}
		r.settle(ctx, m.Number, failures)
		return
	}
	r.later(ctx, retryPause, func(actor.Context) {
		if r.leads && r.proposals[m.Number] == p {
			r.config.Log.Propose(m.Number, p.entry)
		}
	})
}

// forget drops what is on its way: this node does not lead any more, and those who
// have asked for it go.
func (r *replicator) forget() {
	clear(r.proposals)
	clear(r.touched)
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
	if !repl.Shared(m.Path) {
		r.store.Quarantine(ctx, m.Path, func(ctx actor.Context, q *messages.Quarantined) { answer(ctx, q.Path, q.Failure) })
		return
	}
	r.store.List(ctx, "quarantine", layout.QuarantineDir, func(ctx actor.Context, d *messages.DirListed) {
		if d.Failure != nil {
			answer(ctx, "", d.Failure)
			return
		}
		name := store.FreeName(path.Base(m.Path), slices.Concat(d.Names, slices.Sorted(maps.Keys(r.aside))))
		r.aside[name] = true
		to := layout.QuarantineDir + "/" + name
		move := &messages.MoveFiles{Files: []*messages.MoveFile{{Op: "quarantine", From: m.Path, To: to}}}
		r.proposeTo(repl.Renames(move), func(ctx actor.Context, done *messages.FilesDone) {
			delete(r.aside, name)
			if len(done.Failures) > 0 {
				answer(ctx, "", done.Failures[0].Failure)
				return
			}
			answer(ctx, to, nil)
		})
	})
}
