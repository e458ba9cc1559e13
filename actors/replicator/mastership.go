package replicator

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/core/config"
	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/repl"
	"lockstep/messages"
)

// lead takes the mastership: what has happened on this node's disk while its daemon
// was down is told first, before anything else (DESIGN section 9), then who the
// master is; then the master part of the tree is started.
func (r *replicator) lead(ctx actor.Context, term uint64) {
	if r.leads && r.term == term {
		return
	}
	r.forget()
	r.leads, r.term, r.master, r.leader = true, term, false, r.config.Name
	own := r.running.On(r.config.Self.Node)
	left := len(own)
	var changes []*messages.FileChange
	for _, id := range own {
		r.store.Read(ctx, "settle", layout.JobPath(id), func(ctx actor.Context, f *messages.FileRead) {
			if _, err := job.Decode(f.Content); err == nil {
				changes = append(changes, repl.Observed(layout.JobPath(id), f.Content))
			}
			if left--; left == 0 {
				r.tellMaster(ctx, term, changes)
			}
		})
	}
	if left == 0 {
		r.tellMaster(ctx, term, changes)
	}
}

// tellMaster has the configuration name this node, beside what was found.
func (r *replicator) tellMaster(ctx actor.Context, term uint64, changes []*messages.FileChange) {
	r.store.Read(ctx, "settle", layout.ConfigPath, func(ctx actor.Context, f *messages.FileRead) {
		now := r.config.Env.Clock().Now()
		content, err := config.SetMaster(f.Content, float64(now.UnixMicro())/1e6, config.Master{Name: r.config.Name, UUID: r.config.Self.Node, IP: r.ip()})
		switch {
		case err != nil:
			r.config.Env.Log().WithField("err", err).Error("the configuration cannot be told who is the master")
		case !bytes.Equal(content, f.Content):
			changes = append(changes, repl.Writes(&messages.WriteFiles{Files: []*messages.FileWrite{{Path: layout.ConfigPath, Content: content}}})...)
		}
		if !r.leads || r.term != term {
			return
		}
		if len(changes) == 0 {
			r.become(ctx, term)
			return
		}
		r.proposeTo(changes, func(ctx actor.Context, _ *messages.FilesDone) { r.become(ctx, term) })
	})
}

func (r *replicator) ip() string {
	for _, m := range r.members {
		if address, err := netip.ParseAddrPort(m.Address); err == nil && m.Name == r.config.Name {
			return address.Addr().String()
		}
	}
	return "127.0.0.1"
}

func (r *replicator) become(ctx actor.Context, term uint64) {
	if !r.leads || r.term != term {
		return
	}
	r.master = true
	*r.epoch++
	fence := time.Duration(0)
	if r.running.Elsewhere(r.config.Self.Node) {
		fence = repl.Fence
	}
	r.config.Env.Log().WithFields(logrus.Fields{"term": term, "fence": fence}).Info("this node is the master")
	for _, pid := range r.config.Clients {
		ctx.Send(pid, &messages.StoreStarted{Epoch: *r.epoch})
	}
	ctx.Send(r.config.Master, &messages.BecomeMaster{Term: term, FenceMs: fence.Milliseconds()})
}

// follow ends a mastership. What is on its way may still be committed, but nobody
// here will say that it was.
func (r *replicator) follow(ctx actor.Context, m *messages.LogFollows) {
	if r.leads {
		r.config.Env.Log().WithField("leader", m.Leader).Warn("this node is not the master any more")
	}
	r.leads, r.master, r.leader, r.address = false, false, m.Leader, m.Address
	r.forget()
	clear(r.wishes)
	ctx.Send(r.config.Master, &messages.ResignMaster{})
}

// observation is of one running job: what was observed while an entry about it was on
// its way, for the next one.
type observation struct {
	shape   string  // of the job as it was proposed last
	busy    bool    // an entry is on its way
	next    []byte  // content for the next one; nil: there is none
	waiting []asker // for the next one
	served  []asker // by the entry on its way
}

// observe proposes what a job's process has written. Log lines alone are not worth an
// entry (designs/job-queue.txt, "Queue structure"); at most one about a job is on its
// way, and the latest content makes the next.
func (r *replicator) observe(ctx actor.Context, m *messages.ObserveJob) {
	if !r.master {
		return
	}
	o := r.observed[m.Id]
	if o == nil {
		o = &observation{}
		r.observed[m.Id] = o
	}
	j, err := job.Decode(m.Encoded)
	if err != nil {
		return // reports are hints
	}
	shape := repl.Shape(j)
	if m.Request != 0 {
		o.waiting = append(o.waiting, asker{ctx.Sender(), m.Request})
	} else if shape == o.shape {
		return
	}
	o.shape, o.next = shape, m.Encoded
	r.observeNext(m.Id, o)
}

func (r *replicator) observeNext(id int64, o *observation) {
	if o.busy || o.next == nil {
		return
	}
	o.busy, o.served, o.waiting = true, o.waiting, nil
	change := repl.Observed(layout.JobPath(id), o.next)
	o.next = nil
	r.proposeTo([]*messages.FileChange{change}, func(ctx actor.Context, _ *messages.FilesDone) {
		o.busy = false
		for _, a := range o.served {
			ctx.Send(a.pid, &messages.JobObserved{Request: a.request})
		}
		if o.next == nil && len(o.served) > 0 {
			delete(r.observed, id) // who waits does so for its end
		}
		o.served = nil
		r.observeNext(id, o)
	})
}

// supersede drops what was observed of a job and has not been proposed yet: the daemon
// itself writes the job's file now, so that its process does not any more.
func (r *replicator) supersede(m *messages.WriteFiles) {
	for _, f := range m.Files {
		id, ok := repl.JobOf(f.Path)
		if o := r.observed[id]; ok && o != nil && len(o.waiting) == 0 {
			if o.next = nil; !o.busy {
				delete(r.observed, id)
			}
		}
	}
}
