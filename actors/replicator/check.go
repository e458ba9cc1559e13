package replicator

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// check compares the files of all nodes with the master's. Those of running jobs are
// left out: their processes write them here first.
func (r *replicator) check(ctx actor.Context, m *messages.CheckNodes) {
	if !r.master || r.config.Peers == nil {
		ctx.Respond(&messages.CheckNodesResult{Request: m.Request, Failure: r.notMaster()})
		return
	}
	var leaveOut []string
	for id := range r.running {
		leaveOut = append(leaveOut, paths.JobPath(id))
	}
	slices.Sort(leaveOut)
	others := slices.DeleteFunc(slices.Clone(r.members), func(x *messages.Member) bool { return x.Name == r.config.Name })
	r.last++
	r.peerQueries[r.last] = peerQuery{requester{ctx.Sender(), m.Request}, m.Repair}
	r.config.Peers.Compare(r.last, others, leaveOut, ctx.Self())
}

func (r *replicator) filesCompared(ctx actor.Context, m *messages.NodesCompared) {
	q, known := r.peerQueries[m.Number]
	if !known {
		return
	}
	delete(r.peerQueries, m.Number)
	answer := &messages.CheckNodesResult{Request: q.request, Files: m.Files, Nodes: m.Nodes, Failure: m.Failure}
	var files []string
	for _, n := range m.Nodes {
		for _, f := range n.Files {
			files = append(files, f.Path)
		}
	}
	if !q.repair || len(files) == 0 || !r.master {
		ctx.Send(q.pid, answer)
		return
	}
	slices.Sort(files)
	r.repair(ctx, slices.Compact(files), func(ctx actor.Context) {
		answer.Nodes = nil
		for _, n := range m.Nodes {
			answer.Nodes = append(answer.Nodes, &messages.NodeDifferences{Name: n.Name, Answers: n.Answers, Error: n.Error, Files: n.Files, Repaired: int64(len(n.Files))})
		}
		ctx.Send(q.pid, answer)
	})
}

// repair has the master's files proposed anew, which puts them in place on all nodes;
// what the master does not have is removed. Each is proposed as soon as it is read, so
// that a change of it comes later in the log.
func (r *replicator) repair(ctx actor.Context, files []string, done func(actor.Context)) {
	remaining := len(files)
	repaired := func(ctx actor.Context) {
		if remaining--; remaining == 0 {
			done(ctx)
		}
	}
	for _, file := range files {
		r.store.Read(ctx, "repair", file, func(ctx actor.Context, f *messages.ReadFileResult) {
			var changes []*messages.FileChange
			switch {
			case r.isBusy(file) || f.Failure != nil: // it is on its way to all nodes, or the disk refuses
			case f.Missing:
				changes = replication.RemoveChanges(&messages.RemoveFiles{Op: "repair", Paths: []string{file}})
			default:
				changes = []*messages.FileChange{replication.ObservedChange(file, f.Content)}
			}
			if changes == nil || !r.master {
				repaired(ctx)
				return
			}
			r.proposeTo(changes, func(ctx actor.Context, _ *messages.ChangeFilesResult) { repaired(ctx) })
		})
	}
}

// isBusy: a change of the file is on its way, or its job's process writes it.
func (r *replicator) isBusy(file string) bool {
	id, isJob := replication.JobIDOf(file)
	return r.touched[file] > 0 || isJob && r.isRunning(id)
}

// isRunning: a process is at work on the job, or its end is not known yet.
func (r *replicator) isRunning(id int64) bool {
	_, begun := r.running[id]
	return begun
}
