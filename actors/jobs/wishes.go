package jobs

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/messages"
)

// cancelMax is how long the answer to a cancel may wait for the process to have
// taken it (queue.md 4.7).
const cancelMax = 44 * time.Second

// heardMax is how long the answer to a cancel of a job that executes an opcode may
// wait: the process says within milliseconds that it does, and a process that says
// nothing is taken to execute still.
const heardMax = time.Second

// wishes are what clients want of a job in hand.
type wishes struct {
	// calledOff: the start was stopped for a client; the job is canceled, not
	// failed.
	calledOff bool
	cancels   []*cancelWish // not answered yet
	deferred  []Order       // for a process that is not confirmed yet
}

// priority is the last one that the process has not been told; nil if there is
// none.
func (w *wishes) priority() *int {
	for i := len(w.deferred) - 1; i >= 0; i-- {
		if w.deferred[i].Kind == TakePriority {
			return &w.deferred[i].Priority
		}
	}
	return nil
}

// cancelWish is one client that waits to hear what has become of its cancel.
type cancelWish struct {
	request uint64 // number of the jobs actor's
	kill    bool
	stop    func() bool // its timer
}

// cancelOverdue answers a cancel that takes long.
type cancelOverdue struct{ wish *cancelWish }

// cancel calls off a start, or tells the process, whatever the daemon believes of
// the job: the last report may be older than what the process does. The answer says
// what has happened, and comes when it has.
func (a *jobActor) cancel(ctx actor.Context, m *messages.CancelJob) {
	limit := cancelMax
	if !m.Kill && a.status() == job.Running {
		limit = heardMax
	}
	wish := &cancelWish{request: m.Request, kill: m.Kill}
	wish.stop = kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), limit, ctx.Self(), &cancelOverdue{wish})
	a.wishes.cancels = append(a.wishes.cancels, wish)
	switch {
	case a.start.Phase() < handshake.Confirming && a.order != nil:
		a.wishes.calledOff = true
		a.abandon(a.start.Failed("canceled"))
	case m.Kill:
		a.tell(Order{Kind: EndNow})
	default:
		a.tell(Order{Kind: StopBeforeNext})
	}
}

const tooLate = "Job no longer waiting, can't cancel"

// status is the job's as last heard of.
func (a *jobActor) status() job.Status {
	if a.report != nil {
		if j, err := job.Decode(a.report); err == nil {
			return j.Status()
		}
	}
	return a.job.Status()
}

// answerIfTooLate: a cancel that came while the job began its opcode is refused
// like one that came a moment later.
func (a *jobActor) answerIfTooLate(ctx actor.Context) {
	if len(a.wishes.cancels) == 0 || a.status() != job.Running {
		return
	}
	a.send(ctx, a.takeCancels(func(w *cancelWish) (bool, string, bool) { return false, tooLate, !w.kill }))
}

func (a *jobActor) cancelOverdue(ctx actor.Context, m *cancelOverdue) {
	a.send(ctx, a.takeCancels(func(w *cancelWish) (bool, string, bool) {
		switch {
		case w.kill:
			return false, fmt.Sprintf("Job %d is being ended, but has not ended yet", a.id), w == m.wish
		case a.status() == job.Running:
			return false, tooLate, w == m.wish
		}
		return false, "Job could not be canceled, status " + a.status().String(), w == m.wish
	}))
}

// answersAtEnd are those for all who wanted the job canceled: how it has ended.
func (a *jobActor) answersAtEnd(status job.Status) []*messages.JobAnswered {
	return a.takeCancels(func(w *cancelWish) (bool, string, bool) {
		switch {
		case a.wishes.calledOff && status == job.Canceled:
			return true, fmt.Sprintf("Dequeued job %d", a.id), true
		case status == job.Canceled:
			return true, "Job successfully cancelled", true
		case w.kill && status == job.Error:
			return true, fmt.Sprintf("Job %d was ended", a.id), true
		default:
			return false, "Job exited before it could have been canceled, status " + status.String(), true
		}
	})
}

// takeCancels makes the answers to those whom say is for now, and keeps the
// others.
func (a *jobActor) takeCancels(say func(*cancelWish) (done bool, text string, now bool)) []*messages.JobAnswered {
	var replies []*messages.JobAnswered
	var kept []*cancelWish
	for _, w := range a.wishes.cancels {
		done, text, now := say(w)
		if !now {
			kept = append(kept, w)
			continue
		}
		w.stop()
		replies = append(replies, &messages.JobAnswered{Request: w.request, Done: done, Text: text})
	}
	a.wishes.cancels = kept
	return replies
}

// send answers clients, by way of the jobs actor.
func (a *jobActor) send(ctx actor.Context, answers []*messages.JobAnswered) {
	if len(answers) > 0 {
		ctx.Send(ctx.Parent(), &answered{a.id, answers})
	}
}

func (a *jobActor) changePriority(ctx actor.Context, m *messages.ChangePriority) {
	a.tell(Order{Kind: TakePriority, Priority: int(m.Priority)})
	a.send(ctx, []*messages.JobAnswered{{Request: m.Request, Done: true,
		Text: fmt.Sprintf("Job %d has been told to take priority %d", a.id, m.Priority)}})
}

// tell passes an order on, or keeps it until the process has its permission:
// before that a signal would end it.
func (a *jobActor) tell(order Order) {
	if a.start.Phase() == handshake.Running {
		a.config.Processes.Tell(a.number, order)
		return
	}
	a.wishes.deferred = append(a.wishes.deferred, order)
}

func (a *jobActor) tellDeferred() {
	for _, order := range a.wishes.deferred {
		a.config.Processes.Tell(a.number, order)
	}
	a.wishes.deferred = nil
}
