package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepWhy takes [id]. The answer is an answer.Why: the reasons why the job is not running, or its end or progress.
func lockstepWhy(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	if err := wire.Arguments(args, &id); err != nil {
		return fmt.Errorf("LockstepWhy: %w", err)
	}
	c.AskRows(ctx, []int64{int64(id)}, func(ctx actor.Context, rows []*messages.JobRow) {
		if row := rows[0]; row.Unknown {
			explainArchived(c, ctx, int64(id))
		} else {
			(&explanation{request: c, info: row.Info}).explain(ctx)
		}
	})
	return nil
}

// explainArchived answers for a job that the queue does not know, from the archive. A job that is in neither is Ganeti's JobLost error.
func explainArchived(c *request, ctx actor.Context, id int64) {
	c.Session.StopResending() // all that follows is between this actor and the store
	c.Read(ctx, "query-job", paths.ArchivePath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
		j, err := job.Decode(m.Content)
		if m.Failure != nil || m.Missing || err != nil {
			c.Fail(ctx, messages.JobLostFailure(fmt.Sprintf("Job %d not found in queue, nor in the archive", id)))
			return
		}
		c.Read(ctx, "query-record", paths.ArchivedRecordPath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
			w := &explanation{request: c, info: archivedInfo(j, m.Content), archived: true}
			w.conclude(ctx, endedReason(w.info))
		})
	})
}

// explanation finds the reasons for one job. It asks the scheduler first, then the actor that knows more of the
// reason: the jobs, the queue or the lock manager.
type explanation struct {
	*request
	info     *messages.JobInfo // as of the first answer of the queue
	cycle    *messages.WaitCycle
	archived bool
}

// conclude answers with the reasons, the first of which is the most important: that the job's file cannot be written, or
// that it waits for itself.
func (w *explanation) conclude(ctx actor.Context, reasons ...answer.Reason) {
	if w.cycle != nil {
		reasons = slices.Insert(slices.Clone(reasons), 0, cycleReason(w.cycle))
	}
	if query.StatusOf(w.info).Final() {
		w.reply(ctx, reasons)
		return
	}
	w.askHindrances(ctx, func(ctx actor.Context, failing []answer.CannotWrite, readers []*messages.ReaderWait) {
		for _, r := range readers {
			if r.Id == w.info.Id {
				since := answer.TimeOf(r.SinceUs)
				reasons = slices.Insert(reasons, 0, answer.Reason{Kind: answer.WhyReader, Since: &since})
			}
		}
		for _, f := range failing {
			if f.Job == w.info.Id {
				reasons = slices.Insert(reasons, 0, answer.Reason{Kind: answer.WhyCannotWrite, By: f.By, Text: f.Text, Since: &f.Since})
			}
		}
		w.reply(ctx, reasons)
	})
}

func (w *explanation) reply(ctx actor.Context, reasons []answer.Reason) {
	var schedule *answer.DueTime
	if w.info.Schedule != "" {
		schedule = &answer.DueTime{Name: w.info.Schedule, Due: answer.TimeOf(w.info.ScheduleDueUs)}
	}
	w.Succeed(ctx, answer.Why{
		Schedule: schedule,
		ID:       w.info.Id,
		Name:     w.info.Name,
		Status:   query.ClientStatus(w.info).String(),
		Summary:  w.info.Summary,
		Progress: query.ProgressOf(w.info),
		Archived: w.archived,
		Reasons:  reasons,
	})
}

func (w *explanation) explain(ctx actor.Context) {
	if query.StatusOf(w.info).Final() {
		w.conclude(ctx, endedReason(w.info))
		return
	}
	w.askExplanations(ctx, []int64{w.info.Id}, func(ctx actor.Context, jobs []*messages.JobExplanation) {
		reasons := jobs[0].Reasons
		w.cycle = jobs[0].Cycle
		switch j, err := job.Decode(w.info.Encoded); {
		case err == nil && j.IsPending() && isNextInOrder(reasons):
			w.explainStart(ctx, Reasons(reasons))
		case err == nil && len(reasons) > 0 && runningReason(j).Since != nil: // it is held or paused before its next opcode
			w.conclude(ctx, whileRunning(runningReason(j), Reasons(reasons))...)
		case len(reasons) > 0 || err != nil:
			w.explainDependencies(ctx, reasons)
		case j.Status() == job.Running:
			w.conclude(ctx, runningReason(j))
		default:
			w.explainLocks(ctx)
		}
	})
}

func endedReason(info *messages.JobInfo) answer.Reason {
	since := answer.TimeOf(info.EndUs)
	return answer.Reason{Kind: answer.WhyEnded, Since: &since, Result: info.Result}
}

func runningReason(j *job.Job) answer.Reason {
	for i := range j.Ops {
		if op := &j.Ops[i]; op.Status == job.Running {
			since := answer.TimeOf(op.Exec.Sec*1e6 + op.Exec.Usec)
			return answer.Reason{Kind: answer.WhyRunning, Opcode: i, Opcodes: len(j.Ops), Since: &since}
		}
	}
	return answer.Reason{Kind: answer.WhyRunning, Opcodes: len(j.Ops)}
}

// whileRunning are the reasons for a job whose opcode executes. A rule delays only opcodes that follow.
func whileRunning(running answer.Reason, reasons []answer.Reason) []answer.Reason {
	if running.Opcode+1 == running.Opcodes {
		reasons = slices.DeleteFunc(reasons, func(r answer.Reason) bool { return r.Kind == answer.WhyFilter || r.Kind == answer.WhyFilterLimit })
	}
	return slices.Insert(reasons, 0, running)
}

// isNextInOrder reports whether the job waits for a run slot or for its place in the order, and for nothing else.
func isNextInOrder(reasons []*messages.Reason) bool {
	return !slices.ContainsFunc(reasons, func(r *messages.Reason) bool { return r.GetSlots() == nil && r.GetOrder() == nil })
}

// explainStart answers for a job that starts when it is its turn. That no job process can be started is the first
// reason.
func (w *explanation) explainStart(ctx actor.Context, reasons []answer.Reason) {
	w.askStartError(ctx, w.info.Id, func(ctx actor.Context, startError *messages.GetStartErrorResult) {
		switch {
		case startError.Text != "":
			reasons = slices.Insert(reasons, 0, answer.Reason{Kind: answer.WhyCannotStart, By: startError.User, Text: startError.Text})
		case len(reasons) == 0:
			reasons = []answer.Reason{{Kind: answer.WhyStarting}}
		}
		w.conclude(ctx, reasons...)
	})
}

// explainDependencies answers with the reasons, and adds to each dependency the status of the job that it waits for; "" for an unknown
// job.
func (w *explanation) explainDependencies(ctx actor.Context, list []*messages.Reason) {
	reasons := Reasons(list)
	var ids []int64
	for _, r := range list {
		if on := r.GetDependency().GetJob(); on > 0 {
			ids = append(ids, on)
		}
	}
	if ids == nil {
		w.conclude(ctx, reasons...)
		return
	}
	w.AskRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		status, former := map[int64]string{}, map[int64]bool{}
		for _, row := range rows {
			if !row.Unknown {
				status[row.Id] = query.ClientStatus(row.Info).String()
				former[row.Id] = w.info.Schedule != "" && row.Info.Schedule == w.info.Schedule && row.Info.ScheduleDueUs != w.info.ScheduleDueUs
			}
		}
		for i, r := range list {
			if on := r.GetDependency().GetJob(); on > 0 {
				known := status[on]
				reasons[i].JobStatus, reasons[i].Former = &known, former[on]
			}
		}
		w.conclude(ctx, reasons...)
	})
}

// explainLocks answers for a job whose process has begun without a running opcode: it waits for locks, or is starting.
func (w *explanation) explainLocks(ctx actor.Context) {
	w.askLockWaits(ctx, func(ctx actor.Context, waits []answer.LockWait) {
		for _, wait := range waits {
			if !wait.Owner.Who.Named && wait.Owner.Who.Job == w.info.Id {
				w.explainBlockers(ctx, wait)
				return
			}
		}
		w.conclude(ctx, answer.Reason{Kind: answer.WhyStarting})
	})
}

// explainBlockers answers with the wait for locks, and adds to each blocker that is a job the time since when the job has been running.
func (w *explanation) explainBlockers(ctx actor.Context, wait answer.LockWait) {
	var ids []int64
	for _, b := range wait.Blockers {
		if !b.Who.Named {
			ids = append(ids, b.Who.Job)
		}
	}
	if ids == nil {
		w.conclude(ctx, lockReason(wait, nil))
		return
	}
	w.AskRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		since := map[int64]answer.Time{}
		for _, row := range rows {
			if j, err := job.Decode(row.Info.GetEncoded()); err == nil && j.Status() == job.Running {
				if started := runningReason(j).Since; started != nil {
					since[row.Id] = *started
				}
			}
		}
		w.conclude(ctx, lockReason(wait, since))
	})
}

// lockReason is the reason of a wait for locks. since has the start of each running job among the blockers.
func lockReason(wait answer.LockWait, since map[int64]answer.Time) answer.Reason {
	blockers := []answer.Blocker{}
	for i, b := range wait.Blockers {
		blockers = append(blockers, answer.Blocker{Job: b.Who.Job, Owner: b.Who.Name, Since: since[b.Who.Job], Locks: wait.Locks[i]})
	}
	return answer.Reason{Kind: answer.WhyLock, Locks: wait.Request, Seconds: wait.Seconds, Blockers: blockers}
}

// pendingMax bounds the jobs of one LockstepPending.
const pendingMax = 1000

// lockstepPending takes [[id, ...]]. The answer is a list of answer.PendingReason: for each job, in a few words, what
// holds it back.
func lockstepPending(c *request, ctx actor.Context, args []json.RawMessage) error {
	var asked []jobID
	if err := wire.Arguments(args, &asked); err != nil {
		return fmt.Errorf("LockstepPending: %w", err)
	}
	if len(asked) > pendingMax {
		return fmt.Errorf("LockstepPending: %d jobs in one call, at most %d", len(asked), pendingMax)
	}
	ids := make([]int64, len(asked))
	for i, id := range asked {
		ids[i] = int64(id)
	}
	c.askExplanations(ctx, ids, func(ctx actor.Context, jobs []*messages.JobExplanation) {
		c.askLockWaits(ctx, func(ctx actor.Context, waits []answer.LockWait) {
			c.Succeed(ctx, pendingReasons(jobs, waits, c.Config.Env.Clock().Now()))
		})
	})
	return nil
}

// pendingReasons returns a few words for each job: a cycle of waits, else the scheduler's reason, else the wait for locks, else "".
func pendingReasons(jobs []*messages.JobExplanation, waits []answer.LockWait, now time.Time) []answer.PendingReason {
	lockWaits := make(map[int64]string, len(waits))
	for _, w := range waits {
		if !w.Owner.Who.Named {
			lockWaits[w.Owner.Who.Job] = briefWait(w)
		}
	}
	pending := make([]answer.PendingReason, len(jobs))
	for i, j := range jobs {
		text := briefReason(j.Reasons, now)
		if j.Cycle != nil {
			text = "cannot end: " + cycleText(cycleReason(j.Cycle))
		}
		if text == "" {
			text = lockWaits[j.Id]
		}
		pending[i] = answer.PendingReason{ID: j.Id, Text: text}
	}
	return pending
}

// briefWait describes a wait for locks in a few words: the first lock that another owner has.
func briefWait(w answer.LockWait) string {
	for i, b := range w.Blockers {
		if len(w.Locks[i]) > 0 {
			return awaits(w.Locks[i][0], b.Who, true)
		}
	}
	return "waits for locks"
}

// awaits names a lock and its owner, or the owner that gets it first.
func awaits(lock string, who answer.Principal, holds bool) string {
	verb := "gets first"
	if holds {
		verb = "has"
	}
	return fmt.Sprintf("waits for %s, which %s %s", lock, shownPrincipal(who), verb)
}

func shownPrincipal(p answer.Principal) string {
	if p.Named {
		return p.Name
	}
	return fmt.Sprintf("job %d", p.Job)
}
