package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/core/answer"
	"lockstep/core/deadlock"
	"lockstep/core/paths"
	whywords "lockstep/core/why"
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
func (c *call) askParent(ctx actor.Context, then func(ctx actor.Context, parent int64)) {
	id, is := paths.JobIDOfLivelock(c.origin.marker)
	if !is || c.origin.parent != 0 {
		then(ctx, c.origin.parent)
		return
	}
	q := conn.Question{To: c.config.Jobs, LostBy: conn.QueueRestart, Message: func(number uint64) any {
		return &messages.IdentifyJob{Request: number, Id: id, Name: c.origin.marker}
	}}
	ask(c, ctx, q, func(ctx actor.Context, a *messages.IdentifyJobResult) {
		c.origin.parent = a.Id
		then(ctx, a.Id)
	})
}

// askMayWait asks whether a process of a job may wait. The client gets an error if the wait would close a cycle.
func (c *call) askMayWait(ctx actor.Context, m *messages.AwaitJobs, then func(actor.Context)) {
	q := toCore(c.config.Scheduler, func(number uint64) any {
		m.Request = number
		return m
	})
	ask(c, ctx, q, func(ctx actor.Context, a *messages.AwaitJobsResult) {
		if a.Cycle != nil {
			c.fail(ctx, messages.PrereqFailure("wrong_state", "The wait would never end: "+cycleText(cycleReason(a.Cycle))))
			return
		}
		then(ctx)
	})
}

// lockstepAwaitJobs takes [[id, ...]]. The client says that it waits for the ends of these jobs until its connection or its
// next call of this method ends that. The answer is null, or an error if the wait would close a cycle of waits. Only waits
// of processes of jobs are known.
func lockstepAwaitJobs(c *call, ctx actor.Context, args []json.RawMessage) error {
	var asked []jobID
	if err := arguments(args, &asked); err != nil {
		return fmt.Errorf("LockstepAwaitJobs: %w", err)
	}
	ids := make([]int64, len(asked))
	for i, id := range asked {
		ids[i] = int64(id)
	}
	c.askParent(ctx, func(ctx actor.Context, parent int64) {
		if parent == 0 {
			c.succeed(ctx, nil)
			return
		}
		c.askMayWait(ctx, &messages.AwaitJobs{Parent: parent, Ids: ids}, func(ctx actor.Context) {
			c.origin.awaited = &messages.AwaitJobs{Parent: parent, Ids: ids, Observed: true}
			c.succeed(ctx, nil)
		})
	})
	return nil
}

// observeWait tells the scheduler that a process of a job waits for a job, unless the client has said what it waits for. It
// reports whether it did.
func (c *call) observeWait(ctx actor.Context, parent, id int64) bool {
	if parent == 0 || c.origin.awaited != nil {
		return false
	}
	c.origin.awaited = &messages.AwaitJobs{Parent: parent, Ids: []int64{id}, Observed: true}
	ctx.Request(c.config.Scheduler, c.origin.awaited)
	return true
}

func (c *call) endObservedWait(ctx actor.Context) {
	ctx.Request(c.config.Scheduler, &messages.AwaitJobs{Parent: c.origin.awaited.Parent, Observed: true})
	c.origin.awaited = nil
}

// repeatWait sends what the client waits for to a scheduler that has started.
func (c *connection) repeatWait(ctx actor.Context) {
	if c.origin.awaited != nil {
		ctx.Request(c.config.Scheduler, c.origin.awaited)
	}
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

// cycleText names the waits of a cycle.
func cycleText(r answer.Reason) string {
	return whywords.Style{Clean: func(text string) string { return text }}.Waits(r).String()
}
