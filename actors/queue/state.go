package queue

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// setDrain opens or closes the queue to submissions. The file is the flag, as in
// Ganeti's queue; to set what is set is no error.
func (q *queue) setDrain(ctx actor.Context, sender *actor.PID, m *messages.SetDrain) {
	done := func(ctx actor.Context, written *messages.ChangeFilesResult) {
		reply := &messages.SetDrainResult{Request: m.Request}
		if len(written.Failures) > 0 {
			reply.Failure = written.Failures[0].Failure
		} else {
			q.drained = m.Drained
		}
		ctx.Send(sender, reply)
	}
	if m.Drained {
		flag := &messages.FileWrite{Op: "drain", Path: paths.DrainPath}
		q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{flag}, Durable: true}, done)
		return
	}
	q.store.Remove(ctx, &messages.RemoveFiles{Op: "drain", Paths: []string{paths.DrainPath}}, done)
}

// status says how the queue stands.
func (q *queue) status(ctx actor.Context, sender *actor.PID, m *messages.GetQueueStatus) {
	ctx.Send(sender, &messages.GetQueueStatusResult{Request: m.Request, Serial: q.serial, Drained: q.drained, Jobs: maps.Clone(q.tally.jobs),
		Quarantined: slices.Clone(q.quarantined), WithSecrets: q.tally.withSecrets, Active: q.tally.activeJobs()})
}

func (e *entry) status() job.Status { return query.StatusOf(e.info) }
