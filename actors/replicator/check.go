package replicator

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// check compares the shared files of all nodes with the master's. The files of running
// jobs are left out: the job processes write them on one node first.
func (r *replicator) check(ctx actor.Context, m *messages.CheckNodes) {
	if !r.mastership.master || r.config.Peers == nil {
		ctx.Respond(&messages.CheckNodesResult{Request: m.Request, Failure: r.mastership.notMaster()})
		return
	}
	r.compare(ctx, peerQuery{requester: requester{ctx.Sender(), m.Request}, repair: m.Repair})
}

// compare asks the other nodes for what differs from the master's files. The files of running jobs are left out.
func (r *replicator) compare(ctx actor.Context, q peerQuery) {
	var leaveOut []string
	for id := range r.replica.running {
		leaveOut = append(leaveOut, paths.JobPath(id))
	}
	slices.Sort(leaveOut)
	number := r.numbers.next()
	r.peerQueries[number] = q
	r.config.Peers.Compare(number, r.membership.others(), leaveOut, ctx.Self())
}

// filesCompared answers with the differences, after their repair if that is wanted and this node is the master.
func (r *replicator) filesCompared(ctx actor.Context, m *messages.NodesCompared) {
	q, known := r.takeQuery(m.Number)
	if !known {
		return
	}
	if q.ofMaster {
		r.comparedByItself(ctx, q, m)
		return
	}
	answer := &messages.CheckNodesResult{Request: q.request, Files: m.Files, Nodes: m.Nodes, Failure: m.Failure}
	var files []string
	for _, n := range m.Nodes {
		for _, f := range n.Files {
			files = append(files, f.Path)
		}
	}
	if !q.repair || len(files) == 0 || !r.mastership.master {
		ctx.Send(q.pid, answer)
		return
	}
	slices.Sort(files)
	r.repair(ctx, slices.Compact(files), func(ctx actor.Context) {
		answer.Nodes = nil
		for _, n := range m.Nodes {
			answer.Nodes = append(answer.Nodes, &messages.NodeDifferences{
				Name:     n.Name,
				Answers:  n.Answers,
				Error:    n.Error,
				Files:    n.Files,
				Repaired: int64(len(n.Files)),
			})
		}
		ctx.Send(q.pid, answer)
	})
}

// repair proposes the master's files, which replaces the differing ones on all nodes; a
// file that the master lacks is removed. Each file is proposed as soon as it is read,
// so that a later change of it comes later in the log. The files of the configuration are one
// change.
func (r *replicator) repair(ctx actor.Context, files []string, done func(actor.Context)) {
	ofConfig := slices.ContainsFunc(files, replication.IsConfig)
	files = slices.DeleteFunc(files, replication.IsConfig)
	remaining := len(files)
	if ofConfig {
		remaining++
	}
	repaired := func(ctx actor.Context) {
		if remaining--; remaining == 0 {
			done(ctx)
		}
	}
	if ofConfig {
		r.proposeState(ctx, false, func(ctx actor.Context, _ *messages.Failure) { repaired(ctx) })
	}
	for _, file := range files {
		r.store.Read(ctx, "repair", file, func(ctx actor.Context, f *messages.ReadFileResult) {
			var changes []*messages.FileChange
			switch {
			case r.isBusy(file) || f.Failure != nil:
			case f.Missing:
				changes = replication.RemoveChanges(&messages.RemoveFiles{Op: "repair", Paths: []string{file}})
			default:
				changes = []*messages.FileChange{replication.ObservedChange(file, f.Content)}
			}
			if changes == nil || !r.mastership.master {
				repaired(ctx)
				return
			}
			r.propose(changes, func(ctx actor.Context, _ *messages.ChangeFilesResult) { repaired(ctx) })
		})
	}
}

// isBusy reports whether a change of the file is on its way, or its job is running.
func (r *replicator) isBusy(file string) bool {
	id, isJob := replication.JobIDOf(file)
	return r.proposals.touches(file) || isJob && r.replica.isRunning(id)
}
