package queue

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// tryEnded notes a try of an active job that has ended, and makes the job pending until its next try: its record gets the try and the time
// of the next one, and its file names no process any more. Both are durable before the scheduler gets the job. If the daemon dies before
// that, the next one finds the file of an ended try, and the jobs actor reports it again.
func (q *queue) tryEnded(ctx actor.Context, m *messages.JobTryEnded) {
	e := q.index.get(m.Id)
	if e == nil || e.stage != active {
		return
	}
	j := decodeKnown(m.Id, m.Encoded)
	if !j.TryEnded() {
		panic("the jobs actor ended a try that has not ended")
	}
	recorded := record.EndTry(q.records.get(m.Id), j, q.config.GanetiJobs, q.now())
	q.records.set(m.Id, recorded)
	q.index.setStage(e, changing)
	q.writeTry(ctx, e, j, 0)
}

// retryTry is the timer message after the end of a try could not be written.
type retryTry struct {
	incarnation uint32 // of the queue; the message of an earlier one is ignored
	job         *job.Job
	tries       int // writes that have failed
}

// writeTry writes the file and the record of a job that waits for its next try. It repeats that until it succeeds.
func (q *queue) writeTry(ctx actor.Context, e *entry, j *job.Job, tries int) {
	id := e.info.Id
	encoded := job.Encode(j)
	write := &messages.WriteFiles{Durable: true, Files: []*messages.FileWrite{recordFile("try-record", id, q.records.get(id))},
		// After the record: a job whose file names no process, and whose record lacks the try, would be tried once too often.
		CommitRecord: &messages.FileWrite{Op: "end-try", Path: paths.JobPath(id), Content: encoded}}
	q.store.Write(ctx, write, func(ctx actor.Context, written *messages.ChangeFilesResult) {
		if len(written.Failures) > 0 {
			delay := kit.Backoff(tries)
			q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": written.Failures[0].Failure.Text, "delay": delay}).
				Error("the end of a try cannot be written; the job is not tried again before it is")
			kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryTry{q.incarnation, j, tries + 1})
			return
		}
		q.index.setInfo(e, q.nextInfo(e, j, encoded))
		// No process is left: its locks and its slot are free before the job is a candidate again.
		ctx.Send(q.config.Locks, &messages.JobCleanedUp{Id: id})
		ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
		q.enqueue(ctx, e)
		q.publishChanges(ctx, &messages.JobStatesChanged{EndedTries: 1})
		q.notifySubscribers(ctx, e.info, encoded)
	})
}

func (q *queue) retryTry(ctx actor.Context, m *retryTry) {
	if e := q.index.get(int64(m.job.ID)); e != nil && m.incarnation == q.incarnation {
		q.writeTry(ctx, e, m.job, m.tries)
	}
}
