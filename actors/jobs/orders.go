package jobs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// clientOrder is what a client wants of a job, from when it was passed to the job's actor
// until that has answered. The jobs actor keeps it: a wish may cross with the news
// that the job is out of hand, or with a crash of the job's actor, which does not
// answer it then.
type clientOrder struct {
	message any
	client  *actor.PID // nil: wants no answer
}

// ordersAnswered has answers to wishes; the requests are numbers of the jobs actor.
type ordersAnswered struct {
	id      int64
	answers []*messages.OrderJobResult
}

// passOrder passes a wish that has come to the job's actor, under a number.
func (j *jobs) passOrder(ctx actor.Context, h *activeJob) {
	j.lastOrder++
	if h.orders == nil {
		h.orders = map[uint64]*clientOrder{}
	}
	h.orders[j.lastOrder] = &clientOrder{ctx.Message(), ctx.Sender()}
	switch m := ctx.Message().(type) {
	case *messages.CancelJob:
		ctx.Send(h.pid, &messages.CancelJob{Request: j.lastOrder, Id: m.Id, Kill: m.Kill})
	case *messages.ChangePriority:
		ctx.Send(h.pid, &messages.ChangePriority{Request: j.lastOrder, Id: m.Id, Priority: m.Priority})
	default:
		panic(fmt.Sprintf("%T is not a client's wish", m))
	}
}

// answerOrders passes answers on to the clients. One to a wish that was answered or given
// back before is dropped.
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

// returnOrders passes the wishes that the job's actor has not answered to the
// queue, behind the news that the job is out of hand.
func (j *jobs) returnOrders(ctx actor.Context, h *activeJob) {
	for _, number := range slices.Sorted(maps.Keys(h.orders)) {
		ctx.RequestWithCustomSender(j.config.Queue, h.orders[number].message, h.orders[number].client)
	}
	h.orders = nil
}

// refuseOrders: the job's actor has crashed, and these with it.
func (j *jobs) refuseOrders(ctx actor.Context, h *activeJob, text string) {
	for _, number := range slices.Sorted(maps.Keys(h.orders)) {
		h.orders[number].answerClient(ctx, false, text)
	}
	h.orders = nil
}

func (w *clientOrder) answerClient(ctx actor.Context, done bool, text string) {
	if w.client != nil {
		ctx.Send(w.client, &messages.OrderJobResult{Request: requestNumber(w.message), Done: done, Text: text})
	}
}

func adoptingText(id int64) string { return fmt.Sprintf("Job %d is just being adopted; try again", id) }

func requestNumber(order any) uint64 {
	switch m := order.(type) {
	case *messages.CancelJob:
		return m.Request
	case *messages.ChangePriority:
		return m.Request
	default:
		panic(fmt.Sprintf("%T is not a client's wish", order))
	}
}
