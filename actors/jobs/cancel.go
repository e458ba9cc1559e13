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

// cancelWaitMax is how long a cancel waits for the process to accept it before it is
// answered (queue.md 4.7).
const cancelWaitMax = 44 * time.Second

// reportWaitMax is how long a cancel waits if the job executes an opcode. The process
// reports within milliseconds; without a report it is taken to be still executing.
const reportWaitMax = time.Second

// clientOrders are the client orders of one active job.
type clientOrders struct {
	// startCanceled: a client canceled the start, so that the job ends as canceled and not
	// as failed.
	startCanceled bool
	killed        bool              // a client has ended the job: it is not queued again
	cancels       []*cancelOrder    // unanswered
	deferred      []Order           // orders to send when the process is confirmed
	priority      *int              // the last one that a client has set; nil: none
	rejection     *messages.Verdict // of the last cancel, by a rule; nil: a client's
}

// cancelOrder is an unanswered cancel.
type cancelOrder struct {
	request uint64 // number of the order
	kill    bool
	stop    func() bool // stops the timer
}

// cancelTimeout is a timer: the cancel is answered with what is known.
type cancelTimeout struct{ order *cancelOrder }

// ordered handles a client order that the queue has passed on: a priority, or a cancel or kill.
func (a *jobActor) ordered(ctx actor.Context, m *messages.OrderJob) {
	if m.Kind == messages.OrderJob_SET_PRIORITY {
		a.changePriority(ctx, m)
		return
	}
	a.orders.rejection = m.Rejection
	a.cancel(ctx, m.Request, m.Kind == messages.OrderJob_KILL)
}

// cancel abandons a start, or sends the order to the process in any status, because the
// process may be further than its last report. The answer leaves when the outcome is known.
func (a *jobActor) cancel(ctx actor.Context, request uint64, kill bool) {
	limit := cancelWaitMax
	if !kill && a.status() == job.Running {
		limit = reportWaitMax
	}
	order := &cancelOrder{request: request, kill: kill}
	order.stop = kit.SendAfter(a.config.Env.Clock(), ctx.ActorSystem(), limit, ctx.Self(), &cancelTimeout{order})
	a.orders.cancels = append(a.orders.cancels, order)
	switch {
	case a.handshake.Phase() < handshake.Confirming && a.start != nil:
		a.orders.startCanceled = true
		a.abandon(a.handshake.Failed("canceled"))
	case kill:
		a.orders.killed = true
		a.sendOrder(Order{Kind: EndNow})
	default:
		a.sendOrder(Order{Kind: StopBeforeNext})
	}
}

const tooLate = "Job no longer waiting, can't cancel"

// status is the last known status of the job.
func (a *jobActor) status() job.Status { return a.lastKnown().Status() }

// lastKnown is the job as its process has reported it last, or as the job actor has written it.
func (a *jobActor) lastKnown() *job.Job {
	if a.report != nil {
		if j, err := job.Decode(a.report); err == nil {
			return j
		}
	}
	return a.job
}

// answerIfTooLate answers cancels once the process reports that it executes an opcode: they
// are refused like cancels that come later.
func (a *jobActor) answerIfTooLate(ctx actor.Context) {
	if len(a.orders.cancels) == 0 || a.status() != job.Running {
		return
	}
	a.sendAnswers(ctx, a.answerCancels(func(w *cancelOrder) (bool, string, bool) { return false, tooLate, !w.kill }))
}

func (a *jobActor) cancelTimeout(ctx actor.Context, m *cancelTimeout) {
	a.sendAnswers(ctx, a.answerCancels(func(w *cancelOrder) (bool, string, bool) {
		switch {
		case w.kill:
			return false, fmt.Sprintf("Job %d is being ended, but has not ended yet", a.id), w == m.order
		case a.status() == job.Running:
			return false, tooLate, w == m.order
		}
		return false, "Job could not be canceled, status " + a.status().String(), w == m.order
	}))
}

// cancelAnswersAtEnd returns the answers to all open cancels, by the job's final status, and forgets the cancels.
func (a *jobActor) cancelAnswersAtEnd(status job.Status) []*messages.OrderJobResult {
	return a.answerCancels(func(w *cancelOrder) (bool, string, bool) {
		switch {
		case a.orders.startCanceled && status == job.Canceled:
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

// answerCancels returns the answers to those cancels for which answerTo returns now, and stops their timers. It keeps the others.
func (a *jobActor) answerCancels(answerTo func(*cancelOrder) (done bool, text string, now bool)) []*messages.OrderJobResult {
	var replies []*messages.OrderJobResult
	var kept []*cancelOrder
	for _, w := range a.orders.cancels {
		done, text, now := answerTo(w)
		if !now {
			kept = append(kept, w)
			continue
		}
		w.stop()
		replies = append(replies, &messages.OrderJobResult{Request: w.request, Done: done, Text: text})
	}
	a.orders.cancels = kept
	return replies
}

// sendAnswers sends answers to clients through the jobs actor.
func (a *jobActor) sendAnswers(ctx actor.Context, answers []*messages.OrderJobResult) {
	if len(answers) > 0 {
		ctx.Send(ctx.Parent(), &ordersAnswered{a.id, answers})
	}
}

// changePriority tells the process, unless no opcode is left that takes a priority: a running one keeps its own.
func (a *jobActor) changePriority(ctx actor.Context, m *messages.OrderJob) {
	if !a.lastKnown().TakesPriority() {
		a.sendAnswers(ctx, []*messages.OrderJobResult{{Request: m.Request,
			Text: fmt.Sprintf("Job %d executes its last opcode, which keeps its priority: nothing has changed", a.id)}})
		return
	}
	priority := int(m.Priority)
	a.orders.priority = &priority
	a.sendOrder(Order{Kind: TakePriority, Priority: priority})
	a.sendAnswers(ctx, []*messages.OrderJobResult{{Request: m.Request, Done: true,
		Text: fmt.Sprintf("Job %d has been told to take priority %d", a.id, m.Priority)}})
}

// sendOrder sends an order to the process, or keeps it until the process is confirmed,
// because an earlier signal would end the process.
func (a *jobActor) sendOrder(order Order) {
	if a.handshake.Phase() == handshake.Running {
		a.config.Processes.Tell(a.attempt, order)
		return
	}
	a.orders.deferred = append(a.orders.deferred, order)
}

func (a *jobActor) sendDeferredOrders() {
	for _, order := range a.orders.deferred {
		a.config.Processes.Tell(a.attempt, order)
	}
	a.orders.deferred = nil
}
