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

// becomeLeader takes the mastership: the configuration is told who the master is, then the
// master part of the tree is started. What has happened to jobs on this node's disk
// while its daemon was down is told when the queue is read, see scan.
func (r *replicator) becomeLeader(ctx actor.Context, term uint64) {
	if r.leads && r.term == term {
		return
	}
	r.dropProposals()
	r.leads, r.term, r.master, r.leader = true, term, false, r.config.Name
	r.store.Read(ctx, "master", paths.ConfigPath, func(ctx actor.Context, f *messages.ReadFileResult) {
		if !r.leads || r.term != term {
			return
		}
		now := r.config.Env.Clock().Now()
		content, err := config.SetMaster(f.Content, float64(now.UnixMicro())/1e6, config.Master{Name: r.config.Name, UUID: r.config.Self.Node, IP: r.ip()})
		switch {
		case err != nil:
			r.config.Env.Log().WithField("err", err).Error("the configuration cannot be told who is the master")
			r.becomeMaster(ctx, term)
		case bytes.Equal(content, f.Content):
			r.becomeMaster(ctx, term)
		default:
			write := &messages.WriteFiles{Files: []*messages.FileWrite{{Path: paths.ConfigPath, Content: content}}}
			r.proposeTo(replication.WriteChanges(write), func(ctx actor.Context, _ *messages.ChangeFilesResult) { r.becomeMaster(ctx, term) })
		}
	})
}

// scan reads the queue for an actor that begins. First what the processes of this
// node's jobs have written is told to the others, and then the queue hears of that and
// not of more: whatever it takes for true must survive a failover.
func (r *replicator) scan(ctx actor.Context, done func(actor.Context, *messages.ScanQueueResult)) {
	ownJobs, term := r.running.StartedOn(r.config.Self.Node), r.term
	ownFiles := map[int64][]byte{}
	read := func(ctx actor.Context) {
		r.store.Scan(ctx, func(ctx actor.Context, q *messages.ScanQueueResult) {
			if r.master && r.term == term {
				done(ctx, r.asLogged(q, ownFiles))
			}
		})
	}
	remaining := len(ownJobs)
	var failure *messages.Failure
	for _, id := range ownJobs {
		r.store.Read(ctx, "settle", paths.JobPath(id), func(ctx actor.Context, f *messages.ReadFileResult) {
			switch {
			case f.Failure != nil:
				failure = f.Failure
			case !f.Missing:
				ownFiles[id] = f.Content
			}
			remaining--
			switch {
			case remaining > 0:
			case failure != nil:
				done(ctx, &messages.ScanQueueResult{Failure: failure})
			default:
				r.catchUp(ctx, ownJobs, ownFiles, read)
			}
		})
	}
	if remaining == 0 {
		read(ctx)
	}
}

// catchUp proposes what the files of jobs say that run here. Meanwhile something newer
// may have been proposed about one, or even be on the disk.
func (r *replicator) catchUp(ctx actor.Context, ownJobs []int64, files map[int64][]byte, done func(actor.Context)) {
	var changes []*messages.FileChange
	for _, id := range ownJobs {
		if change := r.running.Reconcile(id, files[id]); change != nil && r.touched[paths.JobPath(id)] == 0 {
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		done(ctx)
		return
	}
	r.proposeTo(changes, func(ctx actor.Context, _ *messages.ChangeFilesResult) { done(ctx) })
}

// asLogged is what was read, with jobs that run here as the log has them; where that
// is not known, as they were before.
func (r *replicator) asLogged(q *messages.ScanQueueResult, before map[int64][]byte) *messages.ScanQueueResult {
	as := &messages.ScanQueueResult{Serial: q.Serial, Drained: q.Drained, Failure: q.Failure, Orphans: q.Orphans}
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

func (r *replicator) becomeMaster(ctx actor.Context, term uint64) {
	if !r.leads || r.term != term {
		return
	}
	r.master = true
	*r.storeIncarnation++
	fence := time.Duration(0)
	if r.running.StartedElsewhere(r.config.Self.Node) {
		fence = replication.Fence
	}
	r.config.Env.Log().WithFields(logrus.Fields{"term": term, "fence": fence}).Info("this node is the master")
	for _, pid := range r.config.Clients {
		ctx.Send(pid, &messages.StoreStarted{Incarnation: *r.storeIncarnation})
	}
	ctx.Send(r.config.Master, &messages.BecomeMaster{Term: term, FenceMs: fence.Milliseconds()})
}

// becomeFollower ends a mastership. What is on its way may still be committed, but nobody
// here will say that it was.
func (r *replicator) becomeFollower(ctx actor.Context, m *messages.LogLeaderChanged) {
	if r.leads {
		r.config.Env.Log().WithField("leader", m.Leader).Warn("this node is not the master any more")
	}
	r.leads, r.master, r.leader, r.address = false, false, m.Leader, m.Address
	r.dropProposals()
	clear(r.joinRequests)
	ctx.Send(r.config.Master, &messages.ResignMaster{})
	ctx.Send(r.config.Standby, m)
}

// pendingJobFile is of one running job: what was observed while an entry about it was on
// its way, for the next one.
type pendingJobFile struct {
	shape           string      // of the job as it was proposed last
	inFlight        bool        // an entry is on its way
	sent            []byte      // its content
	next            []byte      // content for the next one; nil: there is none
	waiting         []requester // for the next one
	waitingInFlight []requester // by the entry on its way
}

// replicateJobFile proposes what a job's process has written. Log lines alone are not worth an
// entry (designs.md "Queue structure"); at most one about a job is on its
// way, and the latest content makes the next.
func (r *replicator) replicateJobFile(ctx actor.Context, m *messages.ReplicateJobFile) {
	if !r.master {
		return
	}
	if !r.isRunning(m.Id) { // it has ended meanwhile
		if m.Request != 0 {
			ctx.Respond(&messages.ReplicateJobFileResult{Request: m.Request})
		}
		return
	}
	o := r.jobFiles[m.Id]
	if o == nil {
		o = &pendingJobFile{}
		r.jobFiles[m.Id] = o
	}
	j, err := job.Decode(m.Encoded)
	if err != nil {
		return // reports are hints
	}
	late := r.daemonWriting(m.Id, o) || replication.Progress(j) < r.running[m.Id].Progress
	if m.Request == 0 && late {
		return
	}
	shape := replication.Fingerprint(j)
	asks := requester{ctx.Sender(), m.Request}
	// What is on its way to the others, or is with them, is not proposed once more.
	switch same := o.next == nil && m.Request != 0 && !r.daemonWriting(m.Id, o); {
	case same && o.inFlight && bytes.Equal(o.sent, m.Encoded):
		o.waitingInFlight = append(o.waitingInFlight, asks)
		return
	case same && !o.inFlight && bytes.Equal(r.contents[m.Id], m.Encoded):
		ctx.Respond(&messages.ReplicateJobFileResult{Request: m.Request})
		return
	}
	if m.Request != 0 {
		o.waiting = append(o.waiting, asks)
	} else if shape == o.shape {
		return
	}
	o.shape, o.next = shape, m.Encoded
	r.proposeJobFile(m.Id, o)
}

func (r *replicator) proposeJobFile(id int64, o *pendingJobFile) {
	if o.inFlight || o.next == nil {
		return
	}
	o.inFlight, o.waitingInFlight, o.waiting = true, o.waiting, nil
	change := replication.ObservedChange(paths.JobPath(id), o.next)
	o.sent, o.next = o.next, nil
	r.proposeTo([]*messages.FileChange{change}, func(ctx actor.Context, _ *messages.ChangeFilesResult) {
		o.inFlight, o.sent = false, nil
		for _, a := range o.waitingInFlight {
			ctx.Send(a.pid, &messages.ReplicateJobFileResult{Request: a.request})
		}
		if o.next == nil && len(o.waitingInFlight) > 0 && !r.isRunning(id) {
			delete(r.jobFiles, id) // that was its end
		}
		o.waitingInFlight = nil
		r.proposeJobFile(id, o)
	})
}

// daemonWriting: the daemon's own change of the job's file is on its way, and what the
// process has written is older.
func (r *replicator) daemonWriting(id int64, o *pendingJobFile) bool {
	others := r.touched[paths.JobPath(id)]
	if o.inFlight {
		others--
	}
	return others > 0
}

// supersede drops what was observed of a job and has not been proposed yet: the daemon
// itself writes the job's file now, so that its process does not any more.
func (r *replicator) supersede(m *messages.WriteFiles) {
	for _, f := range m.Files {
		id, ok := replication.JobIDOf(f.Path)
		if o := r.jobFiles[id]; ok && o != nil && len(o.waiting) == 0 {
			if o.next = nil; !o.inFlight {
				delete(r.jobFiles, id)
			}
		}
	}
}
