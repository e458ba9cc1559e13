package replicator

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// lead takes the mastership: the configuration is told who the master is, then the
// master part of the tree is started. What has happened to jobs on this node's disk
// while its daemon was down is told when the queue is read, see scan.
func (r *replicator) lead(ctx actor.Context, term uint64) {
	if r.leads && r.term == term {
		return
	}
	r.forget()
	r.leads, r.term, r.master, r.leader = true, term, false, r.config.Name
	r.store.Read(ctx, "master", paths.ConfigPath, func(ctx actor.Context, f *messages.FileRead) {
		if !r.leads || r.term != term {
			return
		}
		now := r.config.Env.Clock().Now()
		content, err := config.SetMaster(f.Content, float64(now.UnixMicro())/1e6, config.Master{Name: r.config.Name, UUID: r.config.Self.Node, IP: r.ip()})
		switch {
		case err != nil:
			r.config.Env.Log().WithField("err", err).Error("the configuration cannot be told who is the master")
			r.become(ctx, term)
		case bytes.Equal(content, f.Content):
			r.become(ctx, term)
		default:
			write := &messages.WriteFiles{Files: []*messages.FileWrite{{Path: paths.ConfigPath, Content: content}}}
			r.proposeTo(replication.WriteChanges(write), func(ctx actor.Context, _ *messages.FilesDone) { r.become(ctx, term) })
		}
	})
}

// scan reads the queue for an actor that begins. First what the processes of this
// node's jobs have written is told to the others, and then the queue hears of that and
// not of more: whatever it takes for true must survive a failover.
func (r *replicator) scan(ctx actor.Context, then func(actor.Context, *messages.QueueScanned)) {
	own, term := r.running.StartedOn(r.config.Self.Node), r.term
	settled := map[int64][]byte{}
	read := func(ctx actor.Context) {
		r.store.Scan(ctx, func(ctx actor.Context, q *messages.QueueScanned) {
			if r.master && r.term == term {
				then(ctx, r.asLogged(q, settled))
			}
		})
	}
	left := len(own)
	var refused *messages.Failure
	for _, id := range own {
		r.store.Read(ctx, "settle", paths.JobPath(id), func(ctx actor.Context, f *messages.FileRead) {
			switch {
			case f.Failure != nil:
				refused = f.Failure
			case !f.Missing:
				settled[id] = f.Content
			}
			left--
			switch {
			case left > 0:
			case refused != nil:
				then(ctx, &messages.QueueScanned{Failure: refused})
			default:
				r.catchUp(ctx, own, settled, read)
			}
		})
	}
	if left == 0 {
		read(ctx)
	}
}

// catchUp proposes what the files of jobs say that run here. Meanwhile something newer
// may have been proposed about one, or even be on the disk.
func (r *replicator) catchUp(ctx actor.Context, own []int64, files map[int64][]byte, then func(actor.Context)) {
	var changes []*messages.FileChange
	for _, id := range own {
		if change := r.running.Reconcile(id, files[id]); change != nil && r.touched[paths.JobPath(id)] == 0 {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		then(ctx)
		return
	}
	r.proposeTo(changes, func(ctx actor.Context, _ *messages.FilesDone) { then(ctx) })
}

// asLogged is what was read, with jobs that run here as the log has them; where that
// is not known, as they were before.
func (r *replicator) asLogged(q *messages.QueueScanned, before map[int64][]byte) *messages.QueueScanned {
	as := &messages.QueueScanned{Serial: q.Serial, Drained: q.Drained, Failure: q.Failure, Orphans: q.Orphans}
	for _, j := range q.Jobs {
		content, known := r.contents[j.Id]
		if !known {
			content, known = before[j.Id]
		}
		if known && r.isRunning(j.Id) && j.Failure == nil {
			j = &messages.ScannedJob{Id: j.Id, Content: content, Record: j.Record}
		}
		as.Jobs = append(as.Jobs, j)
	}
	return as
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
	if r.running.StartedElsewhere(r.config.Self.Node) {
		fence = replication.Fence
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
	ctx.Send(r.config.Reception, m)
}

// observation is of one running job: what was observed while an entry about it was on
// its way, for the next one.
type observation struct {
	shape   string  // of the job as it was proposed last
	busy    bool    // an entry is on its way
	sent    []byte  // its content
	next    []byte  // content for the next one; nil: there is none
	waiting []asker // for the next one
	served  []asker // by the entry on its way
}

// observe proposes what a job's process has written. Log lines alone are not worth an
// entry (designs.md "Queue structure"); at most one about a job is on its
// way, and the latest content makes the next.
func (r *replicator) observe(ctx actor.Context, m *messages.ObserveJob) {
	if !r.master {
		return
	}
	if !r.isRunning(m.Id) { // it has ended meanwhile
		if m.Request != 0 {
			ctx.Respond(&messages.JobObserved{Request: m.Request})
		}
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
	late := r.isWritten(m.Id, o) || replication.Progress(j) < r.running[m.Id].Progress
	if m.Request == 0 && late {
		return
	}
	shape := replication.Fingerprint(j)
	asks := asker{ctx.Sender(), m.Request}
	// What is on its way to the others, or is with them, is not proposed once more.
	switch same := o.next == nil && m.Request != 0 && !r.isWritten(m.Id, o); {
	case same && o.busy && bytes.Equal(o.sent, m.Encoded):
		o.served = append(o.served, asks)
		return
	case same && !o.busy && bytes.Equal(r.contents[m.Id], m.Encoded):
		ctx.Respond(&messages.JobObserved{Request: m.Request})
		return
	}
	if m.Request != 0 {
		o.waiting = append(o.waiting, asks)
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
	change := replication.ObservedChange(paths.JobPath(id), o.next)
	o.sent, o.next = o.next, nil
	r.proposeTo([]*messages.FileChange{change}, func(ctx actor.Context, _ *messages.FilesDone) {
		o.busy, o.sent = false, nil
		for _, a := range o.served {
			ctx.Send(a.pid, &messages.JobObserved{Request: a.request})
		}
		if o.next == nil && len(o.served) > 0 && !r.isRunning(id) {
			delete(r.observed, id) // that was its end
		}
		o.served = nil
		r.observeNext(id, o)
	})
}

// isWritten: the daemon's own change of the job's file is on its way, and what the
// process has written is older.
func (r *replicator) isWritten(id int64, o *observation) bool {
	others := r.touched[paths.JobPath(id)]
	if o.busy {
		others--
	}
	return others > 0
}

// supersede drops what was observed of a job and has not been proposed yet: the daemon
// itself writes the job's file now, so that its process does not any more.
func (r *replicator) supersede(m *messages.WriteFiles) {
	for _, f := range m.Files {
		id, ok := replication.JobIDOf(f.Path)
		if o := r.observed[id]; ok && o != nil && len(o.waiting) == 0 {
			if o.next = nil; !o.busy {
				delete(r.observed, id)
			}
		}
	}
}
