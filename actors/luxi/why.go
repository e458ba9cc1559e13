package luxi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// lockstepWhy tells why a job is not running, for `lockstep why`: [id]. The
// answer is an answer.Why.
func (c *connection) lockstepWhy(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	if err := arguments(args, &id); err != nil {
		return fmt.Errorf("LockstepWhy: %w", err)
	}
	c.askRows(ctx, []int64{int64(id)}, func(ctx actor.Context, rows []*messages.JobRow) {
		if row := rows[0]; row.Unknown {
			c.whyArchived(ctx, int64(id))
		} else {
			c.whyUnfinished(ctx, row.Info)
		}
	})
	return nil
}

// askRows asks the queue for jobs.
func (c *connection) askRows(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobRow)) {
	c.askQueue(ctx, func(request uint64) any { return &messages.ListJobs{Request: request, Ids: ids} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.ListJobsResult); ok && a.Request == c.request {
				then(ctx, a.Rows)
			}
		})
}

// whyArchived looks for a job in the archive.
func (c *connection) whyArchived(ctx actor.Context, id int64) {
	c.resend = func(actor.Context) {} // the rest is between us and the store
	number := c.request
	c.store.Read(ctx, "query-job", paths.ArchivePath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
		if number != c.request {
			return
		}
		j, err := job.Decode(m.Content)
		if m.Failure != nil || m.Missing || err != nil {
			c.fail(ctx, messages.JobLostFailure(fmt.Sprintf("Job %d not found in queue, nor in the archive", id)))
			return
		}
		info := query.NewJobInfo(j, summaryOf, nil)
		c.answerWhy(ctx, info, true, []answer.Reason{endedReason(info)})
	})
}

func (c *connection) answerWhy(ctx actor.Context, info *messages.JobInfo, archived bool, reasons []answer.Reason) {
	c.succeed(ctx, answer.Why{ID: info.Id, Status: query.ClientStatus(info), Summary: info.Summary, Archived: archived, Reasons: reasons})
}

func endedReason(info *messages.JobInfo) answer.Reason {
	since := answer.TimeOf(info.EndUs)
	return answer.Reason{Kind: answer.WhyEnded, Since: &since}
}

func (c *connection) whyUnfinished(ctx actor.Context, info *messages.JobInfo) {
	if query.StatusOf(info).Final() {
		c.answerWhy(ctx, info, false, []answer.Reason{endedReason(info)})
		return
	}
	c.askWhy(ctx, []int64{info.Id}, func(ctx actor.Context, jobs []*messages.JobExplanation) {
		reasons := jobs[0].Reasons
		switch j, err := job.Decode(info.Encoded); {
		case err == nil && j.Status() == job.Queued && isNextInOrder(reasons):
			c.whyNotStarted(ctx, info, reasons)
		case len(reasons) > 0 || err != nil:
			c.addDependencyStatuses(ctx, info, reasons)
		case j.Status() == job.Running:
			c.answerWhy(ctx, info, false, []answer.Reason{runningReason(j)})
		default:
			c.whyLocks(ctx, info)
		}
	})
}

// isNextInOrder: nothing holds the job back but that others come first.
func isNextInOrder(reasons []*messages.Reason) bool {
	return !slices.ContainsFunc(reasons, func(r *messages.Reason) bool { return r.GetSlots() == nil && r.GetOrder() == nil })
}

// whyNotStarted tells of a job that is being started, or is to be in its turn. That
// no process can be started comes before all else.
func (c *connection) whyNotStarted(ctx actor.Context, info *messages.JobInfo, list []*messages.Reason) {
	reasons := Reasons(list)
	c.withStartError(ctx, func(ctx actor.Context, startError string) {
		switch {
		case startError != "":
			reasons = slices.Insert(reasons, 0, answer.Reason{Kind: answer.WhyCannotStart, Text: startError})
		case len(reasons) == 0:
			reasons = []answer.Reason{{Kind: answer.WhyStarting}}
		}
		c.answerWhy(ctx, info, false, reasons)
	})
}

func (c *connection) askWhy(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobExplanation)) {
	c.askCore(ctx, c.config.Scheduler,
		func(request uint64) any { return &messages.ExplainJobs{Request: request, Ids: ids} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.ExplainJobsResult); ok && a.Request == c.request {
				then(ctx, a.Jobs)
			}
		})
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

// addDependencyStatuses adds to dependencies how the jobs stand that are waited for.
func (c *connection) addDependencyStatuses(ctx actor.Context, info *messages.JobInfo, list []*messages.Reason) {
	reasons := Reasons(list)
	var ids []int64
	for _, r := range list {
		if on := r.GetDependency().GetJob(); on > 0 {
			ids = append(ids, on)
		}
	}
	if ids == nil {
		c.answerWhy(ctx, info, false, reasons)
		return
	}
	c.askRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		status := map[int64]string{}
		for _, row := range rows {
			if !row.Unknown {
				status[row.Id] = query.ClientStatus(row.Info)
			}
		}
		for i, r := range list {
			if on := r.GetDependency().GetJob(); on > 0 {
				known := status[on]
				reasons[i].JobStatus = &known
			}
		}
		c.answerWhy(ctx, info, false, reasons)
	})
}

// whyLocks tells what a job waits for that has begun: for locks, most likely.
func (c *connection) whyLocks(ctx actor.Context, info *messages.JobInfo) {
	c.askWaits(ctx, func(ctx actor.Context, waits []answer.LockWait) {
		for _, w := range waits {
			if !w.Owner.Who.Named && w.Owner.Who.Job == info.Id {
				c.addBlockerStartTimes(ctx, info, w)
				return
			}
		}
		c.answerWhy(ctx, info, false, []answer.Reason{{Kind: answer.WhyStarting}})
	})
}

// addBlockerStartTimes looks up since when each blocking job has been running, and tells
// what the job waits for.
func (c *connection) addBlockerStartTimes(ctx actor.Context, info *messages.JobInfo, w answer.LockWait) {
	var ids []int64
	for _, b := range w.Blockers {
		if !b.Who.Named {
			ids = append(ids, b.Who.Job)
		}
	}
	done := func(ctx actor.Context, since map[int64]answer.Time) {
		blockers := []answer.Blocker{}
		for i, b := range w.Blockers {
			blockers = append(blockers, answer.Blocker{Job: b.Who.Job, Owner: b.Who.Name, Since: since[b.Who.Job], Locks: w.Locks[i]})
		}
		c.answerWhy(ctx, info, false, []answer.Reason{{Kind: answer.WhyLock, Locks: w.Request, Seconds: w.Seconds, Blockers: blockers}})
	}
	if ids == nil {
		done(ctx, nil)
		return
	}
	c.askRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		since := map[int64]answer.Time{}
		for _, row := range rows {
			if j, err := job.Decode(row.Info.GetEncoded()); err == nil && j.Status() == job.Running {
				if started := runningReason(j).Since; started != nil {
					since[row.Id] = *started
				}
			}
		}
		done(ctx, since)
	})
}

// pendingMax bounds the jobs of one LockstepPending.
const pendingMax = 1000

// lockstepPending tells in a few words what holds jobs back: [[id, ...]]. The
// answer is a list of answer.PendingReason.
func (c *connection) lockstepPending(ctx actor.Context, args []json.RawMessage) error {
	var asked []jobID
	if err := arguments(args, &asked); err != nil {
		return fmt.Errorf("LockstepPending: %w", err)
	}
	if len(asked) > pendingMax {
		return fmt.Errorf("LockstepPending: %d jobs in one call, at most %d", len(asked), pendingMax)
	}
	ids := make([]int64, len(asked))
	for i, id := range asked {
		ids[i] = int64(id)
	}
	c.askWhy(ctx, ids, func(ctx actor.Context, jobs []*messages.JobExplanation) {
		c.askWaits(ctx, func(ctx actor.Context, waits []answer.LockWait) {
			lockWaits := make(map[int64]string, len(waits))
			for _, w := range waits {
				if !w.Owner.Who.Named {
					lockWaits[w.Owner.Who.Job] = briefWait(w)
				}
			}
			pending := make([]answer.PendingReason, len(jobs))
			for i, j := range jobs {
				text := briefReason(j.Reasons)
				if text == "" {
					text = lockWaits[j.Id]
				}
				pending[i] = answer.PendingReason{ID: j.Id, Text: text}
			}
			c.succeed(ctx, pending)
		})
	})
	return nil
}

// briefWait is a wait for locks in a few words.
func briefWait(w answer.LockWait) string {
	for i, b := range w.Blockers {
		if len(w.Locks[i]) > 0 {
			return fmt.Sprintf("waits for %s, which %s has", w.Locks[i][0], shownPrincipal(b.Who))
		}
	}
	return "waits for locks"
}

func shownPrincipal(p answer.Principal) string {
	if p.Named {
		return p.Name
	}
	return fmt.Sprintf("job %d", p.Job)
}

func (c *connection) askWaits(ctx actor.Context, then func(actor.Context, []answer.LockWait)) {
	askLocks(c, ctx, locks.ListWaits{}, then)
}
