package queue

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/messages"
)

// setDrain opens or closes the queue to submissions. The file is the flag, as in
// Ganeti's queue; to set what is set is no error.
func (q *queue) setDrain(ctx actor.Context, sender *actor.PID, m *messages.SetDrain) {
	done := func(ctx actor.Context, written *messages.FilesDone) {
		reply := &messages.DrainSet{Request: m.Request}
		if len(written.Failures) > 0 {
			reply.Failure = written.Failures[0].Failure
		} else {
			q.drained = m.Drained
		}
		ctx.Send(sender, reply)
	}
	if m.Drained {
		flag := &messages.FileWrite{Op: "drain", Path: layout.DrainPath}
		q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{flag}, Durable: true}, done)
		return
	}
	q.store.Remove(ctx, &messages.RemoveFiles{Op: "drain", Paths: []string{layout.DrainPath}}, done)
}

// status says how the queue stands. It looks at every job: it is for people.
func (q *queue) status(ctx actor.Context, sender *actor.PID, m *messages.AskStatus) {
	s := &messages.QueueStatus{Request: m.Request, Serial: q.serial, Drained: q.drained,
		Jobs: map[int32]int64{}, Quarantined: q.quarantined}
	for _, id := range q.order {
		e := q.entries[id]
		if e == nil {
			continue
		}
		s.Jobs[e.info.Status]++
		if e.place == pending && q.vault[id] != nil {
			s.WithSecrets++
		}
		if e.place == out {
			s.Out = append(s.Out, e.info)
		}
	}
	ctx.Send(sender, s)
}

func (e *entry) status() job.Status { return job.Status(e.info.Status) }
