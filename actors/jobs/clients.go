package jobs

import (
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// wish is what a client wants of a job, from when it was passed to the job's actor
// until that has answered. The jobs actor keeps it: a wish may cross with the news
// that the job is out of hand, or with a crash of the job's actor, which does not
// answer it then.
type wish struct {
	message any
	client  *actor.PID // nil: wants no answer
}

// answered has answers to wishes; the requests are numbers of the jobs actor.
type answered struct {
	id      int64
	answers []*messages.JobAnswered
}

// wish passes a wish that has come to the job's actor, under a number.
func (j *jobs) wish(ctx actor.Context, h *hand) {
	j.wished++
	if h.wishes == nil {
		h.wishes = map[uint64]*wish{}
	}
	h.wishes[j.wished] = &wish{ctx.Message(), ctx.Sender()}
	switch m := ctx.Message().(type) {
	case *messages.CancelJob:
		ctx.Send(h.pid, &messages.CancelJob{Request: j.wished, Id: m.Id, Kill: m.Kill})
	case *messages.ChangePriority:
		ctx.Send(h.pid, &messages.ChangePriority{Request: j.wished, Id: m.Id, Priority: m.Priority})
	default:
		panic(fmt.Sprintf("%T is not a client's wish", m))
	}
}

// answer passes answers on to the clients. One to a wish that was answered or given
// back before is dropped.
func (j *jobs) answer(ctx actor.Context, h *hand, answers []*messages.JobAnswered) {
	if h == nil {
		return
	}
	for _, a := range answers {
		w := h.wishes[a.Request]
		if w == nil {
			continue
		}
		delete(h.wishes, a.Request)
		w.answer(ctx, a.Done, a.Text)
	}
}

// giveBackWishes passes the wishes that the job's actor has not answered to the
// queue, behind the news that the job is out of hand.
func (j *jobs) giveBackWishes(ctx actor.Context, h *hand) {
	for _, number := range slices.Sorted(maps.Keys(h.wishes)) {
		ctx.RequestWithCustomSender(j.config.Queue, h.wishes[number].message, h.wishes[number].client)
	}
	h.wishes = nil
}

// refuseWishes: the job's actor has crashed, and these with it.
func (j *jobs) refuseWishes(ctx actor.Context, h *hand, text string) {
	for _, number := range slices.Sorted(maps.Keys(h.wishes)) {
		h.wishes[number].answer(ctx, false, text)
	}
	h.wishes = nil
}

func (w *wish) answer(ctx actor.Context, done bool, text string) {
	if w.client != nil {
		ctx.Send(w.client, &messages.JobAnswered{Request: requestOf(w.message), Done: done, Text: text})
	}
}

func beingAdopted(id int64) string { return fmt.Sprintf("Job %d is just being adopted; try again", id) }

func requestOf(wish any) uint64 {
	switch m := wish.(type) {
	case *messages.CancelJob:
		return m.Request
	case *messages.ChangePriority:
		return m.Request
	default:
		panic(fmt.Sprintf("%T is not a client's wish", wish))
	}
}
