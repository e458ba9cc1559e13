package scheduler

import (
	"maps"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/messages"
)

// answeredBegins are, for each active job, the last BeginOp that was answered. A connection repeats an open BeginOp, with
// its number, after a restart of the queue or of this actor. On its way, which may take a read and a replication of the
// job's file, the repetition can be overtaken by the answer to the first one. It must not be taken for a new one: the opcode
// may run, and its job would give its slot back.
//
// They survive a crash of this actor, because a repetition may still be on its way.
type answeredBegins map[job.ID]answeredBegin

type answeredBegin struct {
	requester *actor.PID // a connection, which gives no number twice
	request   uint64
}

func (a answeredBegins) add(id job.ID, requester *actor.PID, request uint64) {
	a[id] = answeredBegin{requester, request}
}

// has reports whether a BeginOp is the one that was answered last.
func (a answeredBegins) has(m *messages.BeginOp, requester *actor.PID) bool {
	last, known := a[job.ID(m.Id)]
	return known && last.request == m.Request && last.requester.Equal(requester)
}

// keepOnly drops what is known of other jobs than these.
func (a answeredBegins) keepOnly(jobs map[job.ID]*scheduledJob) {
	maps.DeleteFunc(a, func(id job.ID, _ answeredBegin) bool { return jobs[id] == nil })
}
