package calendar

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/access"
	"lockstep/core/drafts"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/query"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// Accounts is the port that asks the node for the owners of schedules.
type Accounts interface {
	// FindOwner answers `to` with OwnerFound. It does not block.
	FindOwner(question uint64, owner schedule.Owner, to *actor.PID)
}

// OwnerFound answers Accounts.FindOwner.
type OwnerFound struct {
	Question   uint64
	Identity   access.Identity // with the groups of the account, or the role in the users file
	Refusal    string          // why no job may run for the owner; empty: one may
	Unanswered string          // why the node says nothing of the user now; empty: it does
}

// firing is a due time whose jobs are being submitted.
type firing struct {
	schedule.Fire
	owner access.Identity // as found for this firing
	next  *schedule.File  // the schedule with all that is decided before the firing
	then  func(actor.Context, *ChangeResult)
}

// fire submits the jobs of a due time: it finds the owner, looks at the jobs of former due times, and gives the drafts to the queue.
func (c *calendar) fire(ctx actor.Context, e *entry, f firing) {
	e.busy = true
	c.findOwner(ctx, e.File.Owner, func(ctx actor.Context, owner *OwnerFound) {
		if owner.Unanswered != "" {
			c.failed(ctx, e, owner.Unanswered)
			f.answer(ctx, messages.GenericFailure(owner.Unanswered))
			return
		}
		f.owner = owner.Identity
		jobs, refusal := c.drafts(e, owner)
		if refusal != "" {
			c.refuse(ctx, e, f, refusal)
			return
		}
		if e.File.Overlap == schedule.Allow && len(e.File.Open) < schedule.OpenMax || len(e.File.Open) == 0 {
			c.submit(ctx, e, f, jobs, nil)
			return
		}
		c.unfinished(ctx, e.File.Open, func(ctx actor.Context, open []int64) { c.overlap(ctx, e, f, jobs, open) })
	})
}

func (f firing) answer(ctx actor.Context, failure *messages.Failure) {
	if f.then != nil {
		f.then(ctx, &ChangeResult{Failure: failure})
	}
}

// findOwner finds the identity of the owner of a schedule. The daemon's user is not asked for.
func (c *calendar) findOwner(ctx actor.Context, owner schedule.Owner, then func(actor.Context, *OwnerFound)) {
	if owner.UID == c.config.Daemon.UID && owner.Remote == "" {
		then(ctx, &OwnerFound{Identity: access.DaemonItself(owner.UID)})
		return
	}
	c.request++
	c.finding[c.request] = then
	c.config.Accounts.FindOwner(c.request, owner, ctx.Self())
}

// drafts are the jobs of a schedule for the queue, or why its owner may not submit them now.
func (c *calendar) drafts(e *entry, owner *OwnerFound) (jobs []*messages.JobDraft, refusal string) {
	if owner.Refusal != "" {
		return nil, owner.Refusal
	}
	ops := make([][]json.RawMessage, len(e.File.Jobs))
	for i, j := range e.File.Jobs {
		ops[i] = j.Ops
	}
	checks := drafts.Checks{Catalogue: c.config.Catalogue, Policy: c.config.Policy, From: owner.Identity}
	made, mistakes, err := checks.Parse(ops, 1)
	switch {
	case mistakes != nil:
		return nil, drafts.Placed(ops, mistakes[0])
	case err != nil:
		return nil, err.Error()
	}
	for i := range made {
		if made[i].Name = e.File.Jobs[i].Name; made[i].Name == "" {
			made[i].Name = e.File.Name
		}
	}
	return made, ""
}

// unfinished asks the queue which of these jobs have not ended.
func (c *calendar) unfinished(ctx actor.Context, ids []int64, then func(actor.Context, []int64)) {
	c.lists.Ask(ctx, func(number uint64) any { return &messages.ListJobs{Request: number, Ids: ids} },
		func(ctx actor.Context, m *messages.ListJobsResult) {
			var open []int64
			for _, row := range m.Rows {
				if !row.Unknown && !query.StatusOf(row.Info).Final() {
					open = append(open, row.Id)
				}
			}
			then(ctx, open)
		})
}

// overlap decides about a due time while jobs of former ones have not ended.
func (c *calendar) overlap(ctx actor.Context, e *entry, f firing, jobs []*messages.JobDraft, open []int64) {
	perDue := len(e.File.Jobs)
	switch {
	case len(open) == 0:
		c.submit(ctx, e, f, jobs, nil)
	case e.File.Overlap == schedule.Skip:
		c.skip(ctx, e, f, fmt.Sprintf("job %d has not ended", open[0]))
	case e.File.Overlap == schedule.Allow && len(open) < schedule.OpenMax:
		c.submit(ctx, e, f, jobs, nil)
	case e.File.Overlap == schedule.Allow || len(open) >= schedule.OpenMax:
		c.skip(ctx, e, f, fmt.Sprintf("%d of its jobs have not ended", len(open)))
	case e.File.Overlap == schedule.Queue && len(open) > perDue:
		c.skip(ctx, e, f, fmt.Sprintf("job %d waits already", open[len(open)-1]))
	default:
		c.submit(ctx, e, f, jobs, open)
	}
}

// skip notes a due time at which no job is submitted because of former ones.
func (c *calendar) skip(ctx actor.Context, e *entry, f firing, why string) {
	if f.By != "" { // a client is told, and the history says nothing
		f.answer(ctx, messages.PrereqFailure(messages.WrongState, "The schedule does not run now: "+why))
		c.goOn(ctx, e)
		return
	}
	c.write(ctx, e, f.next.Skipped(f.Fire, why), nil)
}

// refuse notes a due time whose jobs may not be submitted.
func (c *calendar) refuse(ctx actor.Context, e *entry, f firing, why string) {
	if f.Missed != "" && f.DueUs <= e.File.LastUs { // it is owed, and stays so
		c.goOn(ctx, e)
		return
	}
	if n := len(e.File.History); n == 0 || e.File.History[n-1].Missed != why { // once, not at each due time
		c.config.Env.Log().WithFields(logrus.Fields{"schedule": e.File.Name, "err": why}).Warn("the jobs of a schedule are refused")
	}
	if f.By != "" {
		f.answer(ctx, messages.PrereqFailure(messages.WrongState, why))
		c.goOn(ctx, e)
		return
	}
	c.write(ctx, e, f.next.Refused(f.Fire, why), nil)
}

// submit gives the jobs of a due time to the queue, which records them together with the file. They wait for the ends of the jobs after.
func (c *calendar) submit(ctx actor.Context, e *entry, f firing, jobs []*messages.JobDraft, after []int64) {
	var depends []opcode.Dependency
	for _, id := range after {
		depends = append(depends, opcode.Dependency{Job: id, Statuses: []string{"success", "error", "canceled"}}) // any end
	}
	if depends != nil {
		for _, draft := range jobs {
			draft.Ops[0].Input = opcode.WithDepends(draft.Ops[0].Input, depends)
		}
	}
	c.request++
	c.submitting[c.request], c.sent[c.request] = e, true
	e.firing, e.after = f, after
	next := f.next.Fired(f.Fire, e.File)
	ctx.Request(c.config.Queue, &messages.SubmitJobs{Request: c.request, Jobs: jobs,
		By: userOf(e.File.Owner), Submitter: c.config.Policy.SubmitterOf(f.owner),
		Firing: &messages.ScheduleFiring{Schedule: e.File.Name, DueUs: f.DueUs, By: f.By,
			File: next.Encode(), Before: e.File.Encode()}})
	e.fired = next
}

// userOf names the owner as gateways name the user of a request.
func userOf(owner schedule.Owner) string {
	if owner.Remote != "" {
		return "user=" + owner.Remote
	}
	return fmt.Sprintf("uid=%d(%s)", owner.UID, owner.Name)
}

// submitted takes the answer of the queue.
func (c *calendar) submitted(ctx actor.Context, m *messages.SubmitJobsResult) {
	delete(c.sent, m.Request)
	e := c.submitting[m.Request]
	if e == nil { // of a former incarnation
		c.loadSettled(ctx)
		return
	}
	delete(c.submitting, m.Request)
	f := e.firing
	switch {
	case m.Failure == nil:
		content, err := schedule.WithJobs(e.fired.Encode(), m.Ids[0])
		if err != nil {
			panic(fmt.Errorf("the file of a firing: %w", err)) // this actor has made it
		}
		next, _ := schedule.Decode(content)
		after := e.after
		c.settle(ctx, e, next)
		if e.File.Overlap == schedule.Replace {
			c.kill(ctx, after, e.File.Name)
		}
		if f.then != nil {
			f.then(ctx, &ChangeResult{Changed: true, Jobs: m.Ids})
		}
		c.goOn(ctx, e)
	case isRefusal(m.Failure):
		c.refuse(ctx, e, f, m.Failure.Text)
	default:
		c.failed(ctx, e, m.Failure.Text)
		f.answer(ctx, m.Failure)
	}
}

// isRefusal reports whether the queue has refused jobs. Otherwise it has failed to record them.
func isRefusal(f *messages.Failure) bool {
	return f.Class == messages.ClassQueueDrained || f.Class == messages.ClassQueueFull || f.Class == messages.ClassPrereq
}

// outcomeUnknown reads the file of a schedule whose submission the queue does not have: it was recorded by a former incarnation, or never.
func (c *calendar) outcomeUnknown(ctx actor.Context, request uint64) {
	delete(c.sent, request)
	e := c.submitting[request]
	if e == nil { // of a former incarnation
		c.loadSettled(ctx)
		return
	}
	delete(c.submitting, request)
	e.firing.answer(ctx, messages.GenericFailure("It is not known whether the schedule has run: look at its history"))
	c.reread(ctx, e)
}

// kill ends jobs in whose place others were submitted.
func (c *calendar) kill(ctx actor.Context, ids []int64, name string) {
	if len(ids) > 0 {
		c.kills.Ask(ctx, func(number uint64) any {
			return &messages.OrderJobs{Request: number, Ids: ids, Kind: messages.OrderJob_KILL, By: "schedule " + name}
		}, func(actor.Context, *messages.OrderJobsResult) {})
	}
}

// askOpen asks for the jobs that are open as far as the file knows, and calls then. Those that the schedule was to replace are killed: the
// daemon may have ended before it could.
func (c *calendar) askOpen(ctx actor.Context, e *entry, then func(actor.Context)) {
	ids := slices.Clone(e.File.Open)
	if len(ids) == 0 {
		then(ctx)
		return
	}
	c.lists.Ask(ctx, func(number uint64) any { return &messages.ListJobs{Request: number, Ids: ids} },
		func(ctx actor.Context, m *messages.ListJobsResult) {
			for _, row := range m.Rows {
				if row.Unknown {
					c.ended(ctx, e, func(f *schedule.File) *schedule.File { return f.Forget(row.Id) })
				} else {
					c.jobChanged(ctx, e, row.Info)
				}
			}
			if kept := len(ids) - len(e.File.Jobs); e.File.Overlap == schedule.Replace && kept > 0 {
				c.kill(ctx, ids[:kept], e.File.Name)
			}
			then(ctx)
		})
}

// jobsChanged takes the ends of jobs.
func (c *calendar) jobsChanged(ctx actor.Context, m *messages.JobStatesChanged) {
	for _, info := range m.Jobs {
		if e := c.jobs[info.Id]; e != nil {
			c.jobChanged(ctx, e, info)
		}
	}
}

func (c *calendar) jobChanged(ctx actor.Context, e *entry, info *messages.JobInfo) {
	status := query.StatusOf(info)
	if !status.Final() {
		return
	}
	end := schedule.Ended{Job: info.Id, AtUs: info.EndUs, Result: info.Result}
	if end.Result == "" {
		end.Result = status.String()
	}
	c.ended(ctx, e, func(f *schedule.File) *schedule.File { return f.JobEnded(end, status == job.Success) })
}

// ended notes the end of a job in the file.
func (c *calendar) ended(ctx actor.Context, e *entry, change func(*schedule.File) *schedule.File) {
	c.inTurn(ctx, e, func(ctx actor.Context) {
		if !e.removed {
			c.write(ctx, e, change(e.File), nil)
		}
	})
}
