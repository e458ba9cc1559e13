package jobs

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/messages"
)

// triesAgain reports whether a job whose process has gone is tried again: its process has written the end of a try, or has died, and the
// policy of the opcode permits another try. An order that ends the job, and was not answered as too late, prevents that.
func (a *jobActor) triesAgain(j *job.Job) bool {
	if a.handshake.StartFailure() != "" || a.orders.killed || a.orders.startCanceled || a.canceled || len(a.orders.cancels) > 0 {
		return false
	}
	return j.TryEnded() || !j.Status().Final() && slices.Contains(a.retryLost, int32(j.FirstUnfinished()))
}

// tryEnded gives the job back to the queue, which notes the try. A try whose process has died ends here.
func (a *jobActor) tryEnded(ctx actor.Context, j *job.Job) {
	if !j.TryEnded() {
		handshake.EndTry(j, handshake.Death{Exit: a.exitText, GanetiLog: a.config.GanetiLog, Used: a.used}, a.now())
	}
	a.copyEnd(ctx)
	ctx.Send(ctx.Parent(), &jobReleased{id: a.id, event: &messages.JobTryEnded{Id: a.id, Encoded: job.Encode(j)}})
}
