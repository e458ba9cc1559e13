package queue

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/messages"
)

// Limits bound what the queue accepts. In each field 0 means that there is no limit.
type Limits struct {
	Unfinished int // jobs that are not final
	Ops        int // opcodes of one job
	JobBytes   int // bytes of the opcodes of one job
}

// admission decides whether a submission is accepted.
type admission struct {
	limits Limits
	// drained is true while the drain flag is on the disk: an operator has closed the queue.
	drained bool
	// unfinished is the number of jobs that are not final, with those that are being committed.
	unfinished int
	// stopping is the actor that waits for the drain of this daemon; nil while the daemon is not stopping.
	stopping *actor.PID
	// stopped is true after stopping has received its answer.
	stopped bool
	// asGaneti: a drained queue refuses with the class and text of Ganeti's daemon.
	asGaneti bool
}

// refusal returns why a submission is not accepted; nil if it is. Of several jobs the first refused one decides.
func (a *admission) refusal(m *messages.SubmitJobs) *messages.Failure {
	switch {
	case a.stopping != nil:
		return messages.GenericFailure("The daemon is stopping; submit again when it is back")
	case a.drained && !m.IgnoreDrain:
		if a.asGaneti && m.Firing == nil {
			return messages.GenericFailure("Queue drained")
		}
		return messages.DrainedFailure("Job queue is drained, refusing job")
	}
	if most := a.limits.Unfinished; most > 0 && a.unfinished+len(m.Jobs) > most {
		return messages.QueueFullFailure(fmt.Sprintf(
			"The queue holds %d jobs that have not ended, and may hold %d: submit again when some have", a.unfinished, most))
	}
	for i, draft := range m.Jobs {
		text := a.mistakeOfJob(draft)
		if text == "" {
			continue
		}
		mistake := answer.Mistake{Job: i + 1, Text: text}
		if len(m.Jobs) > 1 {
			text = fmt.Sprintf("Job %d of %d: %s", i+1, len(m.Jobs), text)
		}
		return mistaken(text, []answer.Mistake{mistake})
	}
	return nil
}

// mistakeOfJob is why the queue takes no job like this one, "" if it does.
func (a *admission) mistakeOfJob(draft *messages.JobDraft) string {
	size := inputBytes(draft)
	switch {
	case len(draft.Ops) == 0:
		return "A job needs at least one opcode"
	case a.limits.Ops > 0 && len(draft.Ops) > a.limits.Ops:
		return fmt.Sprintf("A job of %d opcodes is more than the %d that one may have", len(draft.Ops), a.limits.Ops)
	case a.limits.JobBytes > 0 && size > a.limits.JobBytes:
		return fmt.Sprintf("A job of %d bytes is more than the %d that one may have", size, a.limits.JobBytes)
	}
	return ""
}

func wrongInput(text string) *messages.Failure {
	return messages.PrereqFailure(messages.WrongInput, text)
}

// mistaken refuses a submission with mistakes.
func mistaken(text string, mistakes []answer.Mistake) *messages.Failure {
	f := wrongInput(text)
	f.Details = answer.EncodeMistakes(mistakes)
	return f
}

// setDrain opens or closes the queue for submissions. The existence of a file is the
// flag, as in Ganeti's queue. It is no error if the flag has that value already.
func (q *queue) setDrain(ctx actor.Context, sender *actor.PID, m *messages.SetDrain) {
	done := func(ctx actor.Context, written *messages.ChangeFilesResult) {
		reply := &messages.SetDrainResult{Request: m.Request}
		if len(written.Failures) > 0 {
			reply.Failure = written.Failures[0].Failure
		} else {
			q.admission.drained = m.Drained
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

// status answers how many jobs there are in each status, and what an operator should know.
func (q *queue) status(ctx actor.Context, sender *actor.PID, m *messages.GetQueueStatus) {
	ctx.Send(sender, &messages.GetQueueStatusResult{Request: m.Request, Serial: q.submissions.serial, Drained: q.admission.drained,
		Jobs: maps.Clone(q.index.byStatus), Marked: q.index.marked, BetweenTries: q.index.betweenTries,
		NotDue: q.index.countNotDue(q.config.Env.Clock().Now()), Quarantined: slices.Clone(q.quarantined),
		WithSecrets: q.index.withSecrets, Active: q.index.activeJobs(),
		Settings: q.archiver.content, AutoArchived: q.archiver.archived})
}

// drain refuses new submissions and answers when all commits and writes that have
// begun are over. Each Drain message is answered.
func (q *queue) drain(ctx actor.Context, sender *actor.PID) {
	q.admission.stopping, q.admission.stopped = sender, false
	q.sendDrained(ctx)
}

func (q *queue) sendDrained(ctx actor.Context) {
	a := &q.admission
	if a.stopping != nil && !a.stopped && q.submissions.idle() && q.store.Idle() {
		ctx.Request(a.stopping, &messages.DrainResult{})
		a.stopped = true
	}
}
