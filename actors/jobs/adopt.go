package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// adopt takes over a job from its file after the daemon, or the former actor of the job, has died. By the file it watches the process,
// ends the job, or returns a job that has not begun to the queue.
func (a *jobActor) adopt(ctx actor.Context) {
	a.store.Read(ctx, "adopt-job", paths.JobPath(a.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.retryLater(ctx, m.Failure, a.adopt)
			return
		}
		if a.reportMissed { // the file may have been read before the process wrote what it reported
			a.reportMissed = false
			a.adopt(ctx)
			return
		}
		j, err := job.Decode(m.Content)
		usable := !m.Missing && err == nil
		if usable {
			a.job = j
		} else {
			j = a.job // the content that the queue sent; the process may be alive
		}
		switch {
		case !usable && !paths.IsJobLivelock(j.Livelock):
			a.repair(ctx, m.Missing)
		case paths.IsJobLivelock(j.Livelock):
			// This is also right for a final file: its process may still be alive.
			a.handshake, a.processRecorded, a.number = handshake.Adopted(), true, paths.StartOfLivelock(j.Livelock)
			a.copyByProcess(ctx)
			if usable && !j.Status().Final() {
				a.progress(ctx, m.Content) // earlier reports had no receiver
			}
			// From here on the port reports the end of the process, at once if it has come already.
			a.config.Processes.Adopt(a.attempt, Job{ID: a.id, Program: a.program}, int64(j.ProcessID), j.Livelock, ctx.Self())
			// Adopt has opened the process, so that orders reach it.
			a.sendDeferredOrders()
			a.settleCallOff(ctx)
		case j.Status().Final():
			a.ended(ctx, j, m.Content)
		case j.IsPending() && a.config.Replicator != nil:
			// The former actor has crashed, and the name of its process may be on its way through the log.
			a.processRecorded, a.number = true, paths.StartOfLivelock(j.Livelock)+1
			a.undoStart(ctx)
		case j.IsPending():
			// No process ever had the permission to act on the job.
			ctx.Send(ctx.Parent(), &jobReleased{id: a.id, event: &messages.JobReturned{Id: a.id, Encoded: m.Content}})
		default:
			a.handshake = handshake.Adopted()
			a.handshake.Gone("")
			a.exitText = "it has begun, but names no process"
			a.finalize(ctx)
		}
	})
}
