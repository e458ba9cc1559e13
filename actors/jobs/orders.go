package jobs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// clientOrder is an order that the job's actor has not answered yet. The jobs actor keeps
// it, because the job can end, or its actor crash, before the answer.
type clientOrder struct {
	message *messages.OrderJob
	client  *actor.PID // nil: no answer is wanted
}

// ordersAnswered has answers to orders. Their request is the number that the jobs actor
// gave the order.
type ordersAnswered struct {
	id      int64
	answers []*messages.OrderJobResult
}

// passOrder sends an order to the job's actor under a new number, and keeps it until it is answered.
func (j *jobs) passOrder(ctx actor.Context, h *activeJob, m *messages.OrderJob) {
	j.lastOrder++
	if h.orders == nil {
		h.orders = map[uint64]*clientOrder{}
	}
	h.orders[j.lastOrder] = &clientOrder{m, ctx.Sender()}
	ctx.Send(h.pid, &messages.OrderJob{Request: j.lastOrder, Id: m.Id, Kind: m.Kind, Priority: m.Priority, Rejection: m.Rejection})
}

// answerOrders sends answers to the clients. It drops the answer to an order that was
// answered or returned before.
func (j *jobs) answerOrders(ctx actor.Context, h *activeJob, answers []*messages.OrderJobResult) {
	if h == nil {
		return
	}
	for _, a := range answers {
		w := h.orders[a.Request]
		if w == nil {
			continue
		}
		delete(h.orders, a.Request)
		w.answerClient(ctx, a.Done, a.Text)
	}
}

// returnOrders sends the unanswered orders to the queue, after JobEnded or JobReturned.
func (j *jobs) returnOrders(ctx actor.Context, h *activeJob) {
	for _, number := range slices.Sorted(maps.Keys(h.orders)) {
		ctx.RequestWithCustomSender(j.config.Queue, h.orders[number].message, h.orders[number].client)
	}
	h.orders = nil
}

// refuseOrders answers the orders that were lost in a crash of the job's actor.
func (j *jobs) refuseOrders(ctx actor.Context, h *activeJob, text string) {
	for _, number := range slices.Sorted(maps.Keys(h.orders)) {
		h.orders[number].answerClient(ctx, false, text)
	}
	h.orders = nil
}

func (w *clientOrder) answerClient(ctx actor.Context, done bool, text string) {
	if w.client != nil {
		ctx.Send(w.client, &messages.OrderJobResult{Request: w.message.Request, Done: done, Text: text})
	}
}

func adoptingText(id int64) string { return fmt.Sprintf("Job %d is just being adopted; try again", id) }
