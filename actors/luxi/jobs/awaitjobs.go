package jobs

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/deadlock"
	"lockstep/core/paths"
	whywords "lockstep/core/why"
	"lockstep/core/wire"
	"lockstep/messages"
)

// origin is what a connection knows of the job of which its client is a process.
type origin struct {
	marker string // conn.Received.Marker
	parent int64  // the job; 0: it is not known, or there is none
	// awaited are the jobs whose ends the client waits for, as the scheduler knows them; nil: none. It is sent again to a scheduler that
	// has started.
	awaited *messages.AwaitJobs
}

// askParent asks for the job of which the client is a process, 0 if there is none. What a client has in its environment counts only if the
// job's process that may act has a lock file of that name.
func (c *request) askParent(ctx actor.Context, then func(ctx actor.Context, parent int64)) {
	id, is := paths.JobIDOfLivelock(c.client.origin.marker)
	if !is || c.client.origin.parent != 0 {
		then(ctx, c.client.origin.parent)
		return
	}
	q := conn.Question{To: c.Config.Jobs, LostBy: conn.QueueRestart, Message: func(number uint64) any {
		return &messages.IdentifyJob{Request: number, Id: id, Name: c.client.origin.marker}
	}}
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *messages.IdentifyJobResult) {
		c.client.origin.parent = a.Id
		then(ctx, a.Id)
	})
}

// askMayWait asks whether a process of a job may wait. The client gets an error if the wait would close a cycle.
func (c *request) askMayWait(ctx actor.Context, m *messages.AwaitJobs, then func(actor.Context)) {
	q := call.ToCore(c.Config.Scheduler, func(number uint64) any {
		m.Request = number
		return m
	})
	call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *messages.AwaitJobsResult) {
		if a.Cycle != nil {
			c.Fail(ctx, messages.PrereqFailure("wrong_state", "The wait would never end: "+cycleText(cycleReason(a.Cycle))))
			return
		}
		then(ctx)
	})
}

// lockstepAwaitJobs takes [[id, ...]]. The client says that it waits for the ends of these jobs until its connection or its
// next call of this method ends that. The answer is null, or an error if the wait would close a cycle of waits. Only waits
// of processes of jobs are known.
func lockstepAwaitJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var asked []jobID
	if err := wire.Arguments(args, &asked); err != nil {
		return fmt.Errorf("LockstepAwaitJobs: %w", err)
	}
	ids := make([]int64, len(asked))
	for i, id := range asked {
		ids[i] = int64(id)
	}
	c.askParent(ctx, func(ctx actor.Context, parent int64) {
		if parent == 0 {
			c.Succeed(ctx, nil)
			return
		}
		c.askMayWait(ctx, &messages.AwaitJobs{Parent: parent, Ids: ids}, func(ctx actor.Context) {
			c.client.origin.awaited = &messages.AwaitJobs{Parent: parent, Ids: ids, Observed: true}
			c.Succeed(ctx, nil)
		})
	})
	return nil
}

// observeWait tells the scheduler that a process of a job waits for a job, unless the client has said what it waits for. It
// reports whether it did.
func (c *request) observeWait(ctx actor.Context, parent, id int64) bool {
	if parent == 0 || c.client.origin.awaited != nil {
		return false
	}
	c.client.origin.awaited = &messages.AwaitJobs{Parent: parent, Ids: []int64{id}, Observed: true}
	ctx.Request(c.Config.Scheduler, c.client.origin.awaited)
	return true
}

func (c *request) endObservedWait(ctx actor.Context) {
	ctx.Request(c.Config.Scheduler, &messages.AwaitJobs{Parent: c.client.origin.awaited.Parent, Observed: true})
	c.client.origin.awaited = nil
}

// cycleReason is a cycle in the shape of the answer to a client.
func cycleReason(c *messages.WaitCycle) answer.Reason {
	r := answer.Reason{Kind: answer.WhyCycle, Slots: c.Slots, Steps: make([]answer.WaitStep, len(c.Steps))}
	for i, s := range c.Steps {
		r.Steps[i] = answer.WaitStep{Job: s.Job, For: s.On, By: waitCause(deadlock.Cause(s.By)), Lock: s.Lock}
	}
	return r
}

func waitCause(by deadlock.Cause) string {
	switch by {
	case deadlock.Process:
		return answer.WaitProcess
	case deadlock.Dependency:
		return answer.WaitDependency
	case deadlock.Lock:
		return answer.WaitLock
	default:
		panic(fmt.Sprintf("%d is no cause of a wait", by))
	}
}

// cycleText names the waits of a cycle, in one line.
func cycleText(r answer.Reason) string {
	return whywords.Style{Clean: func(text string) string { return text }}.Waits(r).String()
}
