package jobs

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/audit"
	"lockstep/actors/calendar"
	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/locks"
	"lockstep/actors/luxi/call"
	"lockstep/actors/scheduler"
	"lockstep/core/answer"
	"lockstep/core/config"
	"lockstep/messages"
)

// The questions of calls to other actors about jobs, one function each. then gets the answer; a failure becomes the
// answer to the client. Each question may be sent twice.

// askStartError asks why job processes cannot be started, or why that of the job cannot; id 0: of no job. Without a text they can.
func (c *request) askStartError(ctx actor.Context, id int64, then func(actor.Context, *messages.GetStartErrorResult)) {
	q := conn.Question{To: c.Config.Jobs, LostBy: conn.QueueRestart,
		Message: func(number uint64) any { return &messages.GetStartError{Request: number, Id: id} }}
	call.Ask(c.Call, ctx, q, then)
}

// askRunSlots asks how many run slots are taken. A job that is held between two opcodes has a process and no slot.
func (c *request) askRunSlots(ctx actor.Context, then func(ctx actor.Context, taken int)) {
	call.Ask(c.Call, ctx, call.ToCore(c.Config.Scheduler, func(number uint64) any { return &messages.GetRunSlots{Request: number} }),
		func(ctx actor.Context, a *messages.GetRunSlotsResult) { then(ctx, int(a.Taken)) })
}

// askReaders asks which jobs' output waits for its reader.
func (c *request) askReaders(ctx actor.Context, then func(actor.Context, []*messages.ReaderWait)) {
	call.Ask(c.Call, ctx, failingWrites(c.Config.Jobs),
		func(ctx actor.Context, ofJobs *messages.GetFailingWritesResult) { then(ctx, ofJobs.Readers) })
}

func failingWrites(to *actor.PID) conn.Question {
	return conn.Question{To: to, LostBy: conn.QueueRestart | conn.CoreRestart,
		Message: func(number uint64) any { return &messages.GetFailingWrites{Request: number} }}
}

// askHindrances asks which files cannot be written now, those of jobs by id and then one of the daemon's others, and which jobs' output
// waits for its reader.
func (c *request) askHindrances(ctx actor.Context, then func(actor.Context, []answer.CannotWrite, []*messages.ReaderWait)) {
	call.Ask(c.Call, ctx, failingWrites(c.Config.Jobs), func(ctx actor.Context, ofJobs *messages.GetFailingWritesResult) {
		call.Ask(c.Call, ctx, failingWrites(c.Config.Store), func(ctx actor.Context, others *messages.GetFailingWritesResult) {
			failing := []answer.CannotWrite{}
			for _, w := range append(slices.Clone(ofJobs.Writes), others.Writes...) {
				known := w.Id == 0 && slices.ContainsFunc(failing, func(f answer.CannotWrite) bool { return f.Text == w.Text })
				if !known { // the daemon cannot write the file of a job
					failing = append(failing, cannotWrite(w))
				}
			}
			then(ctx, failing, ofJobs.Readers)
		})
	})
}

// askAuditFailure adds the audit log to the files that cannot be written now, if it is one of them.
func (c *request) askAuditFailure(ctx actor.Context, failing []answer.CannotWrite, then func(actor.Context, []answer.CannotWrite)) {
	if c.Config.Audit == nil {
		then(ctx, failing)
		return
	}
	q := conn.Question{To: c.Config.Audit, LostBy: conn.AuditRestart, Message: func(number uint64) any { return &audit.Look{Request: number} }}
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *audit.LookResult) {
		known := a.Failure == nil || slices.ContainsFunc(failing, func(f answer.CannotWrite) bool { return f.Text == a.Failure.Text })
		if !known { // in a cluster, or since then another file could be written
			failing = append(failing, answer.CannotWrite{By: answer.ByDaemon, Text: a.Failure.Text, Since: answer.TimeOf(a.Since.UnixMicro())})
		}
		then(ctx, failing)
	})
}

// askScheduleSummary asks for the number of schedules; nil: it is not known yet.
func (c *request) askScheduleSummary(ctx actor.Context, then func(actor.Context, *answer.ScheduleSummary)) {
	if c.Config.Calendar == nil {
		then(ctx, nil)
		return
	}
	q := conn.Question{To: c.Config.Calendar, LostBy: conn.QueueRestart,
		Message: func(number uint64) any { return &calendar.Summarize{Request: number} }}
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *calendar.SummarizeResult) { then(ctx, a.Summary) })
}

func cannotWrite(w *messages.FailingWrite) answer.CannotWrite {
	by := answer.ByDaemon
	if w.ByProcess {
		by = answer.ByProcess
	}
	return answer.CannotWrite{Job: w.Id, By: by, Text: w.Text, Since: answer.TimeOf(w.SinceUs)}
}

// askExplanations asks the scheduler what holds these jobs back, in the order of ids.
func (c *request) askExplanations(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobExplanation)) {
	call.Ask(c.Call, ctx, call.ToCore(c.Config.Scheduler, func(number uint64) any { return &messages.ExplainJobs{Request: number, Ids: ids} }),
		func(ctx actor.Context, a *messages.ExplainJobsResult) { then(ctx, a.Jobs) })
}

// askSnapshot asks the scheduler for what estimates are computed from.
func (c *request) askSnapshot(ctx actor.Context, m scheduler.TakeSnapshot, then func(actor.Context, *scheduler.Snapshot)) {
	q := call.ToCore(c.Config.Scheduler, func(number uint64) any {
		asked := m
		asked.Request = number
		return &asked
	})
	call.Ask(c.Call, ctx, q, then)
}

// askLockWaits asks which lock owners wait, and for which others.
func (c *request) askLockWaits(ctx actor.Context, then func(actor.Context, []answer.LockWait)) {
	call.AskLocks(c.Call, ctx, locks.ListWaits{}, then)
}

// askStatusOfConfig asks for what the status needs: the cluster, and the damaged settings in the quarantine.
func (c *request) askStatusOfConfig(ctx actor.Context, then func(actor.Context, config.Cluster, []string)) {
	call.Ask(c.Call, ctx, call.ToCore(c.Config.ClusterConfig, func(number uint64) any { return &messages.PublishConfig{Request: number} }),
		func(ctx actor.Context, a *clusterconfig.ConfigPublished) {
			cluster, err := config.ClusterOf(a.Config)
			if err != nil {
				c.Fail(ctx, messages.ConfigurationFailure(err.Error()))
				return
			}
			then(ctx, cluster, a.SetAside)
		})
}

// askForeign asks what another program has changed in config.data. "" means nothing.
func (c *request) askForeign(ctx actor.Context, then func(ctx actor.Context, foreign string)) {
	q := call.ToCore(c.Config.ClusterConfig, func(number uint64) any { return &clusterconfig.CheckForeign{Request: number} })
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *clusterconfig.CheckForeignResult) { then(ctx, a.Foreign.GetText()) })
}
