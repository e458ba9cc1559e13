package jobs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// clientOrder is what a client wants of a job, from when it was passed to the job's actor
// until that has answered. The jobs actor keeps it: an order may cross with the news
// that the job is not active any longer, or with a crash of the job's actor, which does not
// answer it then.
type clientOrder struct {
	message *messages.OrderJob
	client  *actor.PID // nil: wants no answer
}

// ordersAnswered has answers to orders; the requests are numbers of the jobs actor.
type ordersAnswered struct {
	id      int64
	answers []*messages.OrderJobResult
}

// passOrder passes an order that has come to the job's actor, under a number.
func (j *jobs) passOrder(ctx actor.Context, h *activeJob, m *messages.OrderJob) {
	j.lastOrder++
	if h.orders == nil {
		h.orders = map[uint64]*clientOrder{}
	}
	h.orders[j.lastOrder] = &clientOrder{m, ctx.Sender()}
	ctx.Send(h.pid, &messages.OrderJob{Request: j.lastOrder, Id: m.Id, Kind: m.Kind, Priority: m.Priority})
}

// answerOrders passes answers on to the clients. One to an order that was answered or given
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

// returnOrders passes the orders that the job's actor has not answered to the
// queue, behind the news that the job is not active any longer.
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
		ctx.Send(w.client, &messages.OrderJobResult{Request: w.message.Request, Done: done, Text: text})
	}
}

func adoptingText(id int64) string { return fmt.Sprintf("Job %d is just being adopted; try again", id) }
