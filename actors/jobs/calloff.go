package jobs

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/messages"
)

// callOffMax is how long a CallOff waits for confirmed processes. One that begins an opcode
// reports it within milliseconds.
const callOffMax = time.Second

// callOff is an open CallOff.
type callOff struct {
	sender    *actor.PID
	request   uint64
	remaining map[int64]bool // jobs that may begin an opcode, as far as is known
	stop      func() bool    // stops the timer
}

type (
	// stopBeginning asks a job actor for beginSettled with the same number.
	stopBeginning struct{ number uint64 }
	// beginSettled: an opcode of the job executes, or the job begins none before it is permitted to.
	beginSettled struct {
		id     int64
		number uint64
	}
	// beginsNothing: the process of the job is being ended, or has ended.
	beginsNothing struct{ id int64 }
	// callOffExpired is a timer: the CallOff with this number is answered with what is known.
	callOffExpired struct{ number uint64 }
)

// callOff abandons or waits for the starts of some jobs. It answers when none of them may begin an opcode any longer, or when callOffMax
// has passed.
func (j *jobs) callOff(ctx actor.Context, m *messages.CallOff) {
	j.lastOrder++
	number := j.lastOrder
	c := &callOff{sender: ctx.Sender(), request: m.Request, remaining: map[int64]bool{}}
	c.stop = kit.SendAfter(j.config.Env.Clock(), ctx.ActorSystem(), callOffMax, ctx.Self(), &callOffExpired{number})
	j.callOffs[number] = c
	for _, id := range m.Ids {
		switch h := j.active[id]; {
		case h == nil: // the queue has its end
		case j.waitsForStart(id):
			j.returnWaiting(ctx, id)
		default:
			c.remaining[id] = true
			if h.pid != nil { // else its next actor is asked
				ctx.Send(h.pid, &stopBeginning{number})
			}
		}
	}
	if len(c.remaining) == 0 {
		j.answerCallOff(ctx, number)
	}
}

// repeatCallOffs asks a new actor of a job whose former one has not answered.
func (j *jobs) repeatCallOffs(ctx actor.Context, id int64) {
	for _, number := range slices.Sorted(maps.Keys(j.callOffs)) {
		if j.callOffs[number].remaining[id] {
			ctx.Send(j.active[id].pid, &stopBeginning{number})
		}
	}
}

// settleCallOffs takes a job off all CallOffs up to a number, and answers those that wait for no other job.
func (j *jobs) settleCallOffs(ctx actor.Context, id int64, upTo uint64) {
	for _, number := range slices.Sorted(maps.Keys(j.callOffs)) {
		if c := j.callOffs[number]; number <= upTo && c.remaining[id] {
			if delete(c.remaining, id); len(c.remaining) == 0 {
				j.answerCallOff(ctx, number)
			}
		}
	}
}

func (j *jobs) beginsNothing(id int64) {
	if h := j.active[id]; h != nil {
		h.beginsNothing = true
	}
}

func (j *jobs) answerCallOff(ctx actor.Context, number uint64) {
	c := j.callOffs[number]
	if c == nil {
		return
	}
	c.stop()
	delete(j.callOffs, number)
	answer := &messages.CallOffResult{Request: c.request}
	for _, id := range slices.Sorted(maps.Keys(c.remaining)) {
		if h := j.active[id]; h != nil && !h.beginsNothing {
			answer.MayBegin = append(answer.MayBegin, id)
		}
	}
	ctx.Send(c.sender, answer)
}

// stopBeginning abandons an attempt that is not confirmed. It is too late for a confirmed one, whose
// process reports the opcode that it begins, or asks for it and does not get the permission.
func (a *jobActor) stopBeginning(ctx actor.Context, m *stopBeginning) {
	a.callOff = m.number
	if a.start != nil {
		a.abandon(a.handshake.CallOff())
	}
	a.settleCallOff(ctx)
}

// settleCallOff settles an open CallOff, or asks the scheduler about a process that may act. During an adoption or before a confirmation
// it waits.
func (a *jobActor) settleCallOff(ctx actor.Context) {
	if a.callOff == 0 {
		return
	}
	switch a.handshake.Phase() {
	case handshake.Abandoning:
		ctx.Send(ctx.Parent(), &beginsNothing{a.id})
		if !a.processRecorded { // else a crash would fail the job
			a.settled(ctx)
		}
	case handshake.Gone:
		ctx.Send(ctx.Parent(), &beginsNothing{a.id}) // the return or the end of the job settles it
	case handshake.Confirming, handshake.Running:
		a.settleIfExecuting(ctx)
		a.askBeginWait(ctx)
	case handshake.Spawning, handshake.Saving: // the job is being adopted, or the process will be confirmed
	}
}

// settleIfExecuting settles an open CallOff if an opcode executes: the process asks before the next one.
func (a *jobActor) settleIfExecuting(ctx actor.Context) {
	if a.callOff == 0 || a.report == nil {
		return
	}
	if j, err := job.Decode(a.report); err == nil {
		if executing, _ := j.Progress(); executing >= 0 {
			a.settled(ctx)
		}
	}
}

// askBeginWait asks the scheduler whether the process waits for a permission that it does not get. The
// scheduler has the hold or the verdict, because it had it before the CallOff was sent.
func (a *jobActor) askBeginWait(ctx actor.Context) {
	if a.callOff != 0 {
		ctx.Request(a.config.Scheduler, &messages.GetBeginWait{Request: a.callOff, Id: a.id})
	}
}

func (a *jobActor) beginWaits(ctx actor.Context, m *messages.GetBeginWaitResult) {
	if m.Waits && m.Request == a.callOff {
		a.settled(ctx)
	}
}

// settled answers the open CallOff for this job, if there is one.
func (a *jobActor) settled(ctx actor.Context) {
	if a.callOff != 0 {
		ctx.Send(ctx.Parent(), &beginSettled{a.id, a.callOff})
		a.callOff = 0
	}
}
