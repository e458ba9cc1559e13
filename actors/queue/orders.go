package queue

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

const (
	// ordersPerSlice is the number of orders of one request between two messages.
	ordersPerSlice = 100
	// ordersPatience is how long a request waits for the processes of jobs. One order takes 44 s at most.
	ordersPatience = 50 * time.Second
)

// orderBatches are the requests for several orders that are not answered yet. Nothing of them survives a crash: their clients ask again.
type orderBatches struct {
	number  uint64 // of the latest order
	waiting map[uint64]awaitedOrder
	gather  *gatheredWrites // of the request whose orders are being handled; nil: writes go to the store at once
}

// awaitedOrder is an order whose answer is awaited.
type awaitedOrder struct {
	batch *orderBatch
	index int // in the request
}

// orderBatch is a request for the same order to several jobs.
type orderBatch struct {
	from    requester
	request *messages.OrderJobs
	results []*messages.OrderJobResult // nil: no answer yet
	numbers []uint64                   // of the orders that have begun
	left    int
	writes  gatheredWrites
}

// gatheredWrites are the writes of the orders of one request: the store gets them together, so that they share their syncs. In a cluster
// they are one entry of the log.
type gatheredWrites struct {
	files []*messages.FileWrite
	done  []gatheredWrite
}

// gatheredWrite is the part of one order.
type gatheredWrite struct {
	files int
	done  func(actor.Context, *messages.ChangeFilesResult)
}

// moreOrders is sent by the queue to itself for the next slice of a request; ordersOverdue comes when its time is up.
type (
	moreOrders struct {
		incarnation uint32
		batch       *orderBatch
	}
	ordersOverdue moreOrders
)

// orderSeveral gives the same order to several jobs, or to none if the sender may not give it to one of them. The
// answers are in the order of the request. A check ends there.
func (q *queue) orderSeveral(ctx actor.Context, sender *actor.PID, m *messages.OrderJobs) {
	b := &orderBatch{from: requester{sender, m.Request}, request: m, results: make([]*messages.OrderJobResult, len(m.Ids)), left: len(m.Ids)}
	if b.left == 0 {
		b.answer(ctx)
		return
	}
	// All are checked before the first is ordered.
	for _, id := range m.Ids {
		if f := q.orderRefusal(&messages.OrderJob{Id: id, Kind: m.Kind, By: m.By, OnlyOf: m.OnlyOf}); f != nil {
			ctx.Send(sender, &messages.OrderJobsResult{Request: m.Request, Refused: f})
			return
		}
	}
	if m.Check {
		ctx.Send(sender, &messages.OrderJobsResult{Request: m.Request})
		return
	}
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), ordersPatience, ctx.Self(), &ordersOverdue{q.incarnation, b})
	q.nextOrders(ctx, b)
}

// handleOrders handles a message about orders of clients.
func (q *queue) handleOrders(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *messages.OrderJob:
		q.ordered(ctx, sender, m)
	case *messages.OrderJobs:
		q.orderSeveral(ctx, sender, m)
	case *messages.OrderJobResult:
		q.orderAnswered(ctx, m)
	case *moreOrders:
		if m.incarnation == q.incarnation {
			q.nextOrders(ctx, m.batch)
		}
	case *ordersOverdue:
		if m.incarnation == q.incarnation {
			q.ordersOverdue(ctx, m.batch)
		}
	}
}

// nextOrders handles a slice of the orders of a request. After the last one their writes begin: a job is not changed by others meanwhile.
func (q *queue) nextOrders(ctx actor.Context, b *orderBatch) {
	q.orders.gather = &b.writes
	for range ordersPerSlice {
		at := len(b.numbers)
		if at == len(b.request.Ids) {
			break
		}
		q.orders.number++
		b.numbers = append(b.numbers, q.orders.number)
		q.orders.waiting[q.orders.number] = awaitedOrder{b, at}
		q.ordered(ctx, ctx.Self(), &messages.OrderJob{Request: q.orders.number, Id: b.request.Ids[at], Kind: b.request.Kind,
			Priority: b.request.Priority, By: b.request.By, OnlyOf: b.request.OnlyOf, AtUs: b.request.AtUs})
	}
	q.orders.gather = nil
	if len(b.numbers) < len(b.request.Ids) {
		ctx.Send(ctx.Self(), &moreOrders{q.incarnation, b})
		return
	}
	w := b.writes
	b.writes = gatheredWrites{}
	if len(w.files) > 0 {
		q.store.Write(ctx, &messages.WriteFiles{Files: w.files, Durable: true},
			func(ctx actor.Context, written *messages.ChangeFilesResult) { w.written(ctx, written) })
	}
}

// written passes the result of the common write on to each order.
func (w gatheredWrites) written(ctx actor.Context, all *messages.ChangeFilesResult) {
	failures := map[string]*messages.FileFailure{}
	for _, f := range all.Failures {
		failures[f.Path] = f
	}
	files := w.files
	for _, part := range w.done {
		result := &messages.ChangeFilesResult{}
		for _, file := range files[:part.files] {
			if f := failures[file.Path]; f != nil {
				result.Failures = append(result.Failures, f)
			}
		}
		files = files[part.files:]
		part.done(ctx, result)
	}
}

// write writes files durably, together with those of the other orders of a request.
func (q *queue) write(ctx actor.Context, files []*messages.FileWrite, done func(actor.Context, *messages.ChangeFilesResult)) {
	if w := q.orders.gather; w != nil {
		w.files, w.done = append(w.files, files...), append(w.done, gatheredWrite{len(files), done})
		return
	}
	q.store.Write(ctx, &messages.WriteFiles{Files: files, Durable: true}, done)
}

// orderAnswered takes the answer to an order of a request for several.
func (q *queue) orderAnswered(ctx actor.Context, m *messages.OrderJobResult) {
	o, awaited := q.orders.waiting[m.Request]
	if !awaited {
		return
	}
	delete(q.orders.waiting, m.Request)
	o.batch.results[o.index] = &messages.OrderJobResult{Done: m.Done, Text: m.Text}
	if o.batch.left--; o.batch.left == 0 {
		o.batch.answer(ctx)
	}
}

// ordersOverdue answers a request without the answers that have not come, such as those that were lost with another actor.
func (q *queue) ordersOverdue(ctx actor.Context, b *orderBatch) {
	for at, number := range b.numbers {
		if b.results[at] == nil {
			q.orderAnswered(ctx, &messages.OrderJobResult{Request: number,
				Text: fmt.Sprintf("Job %d has not answered in time; the order may take effect later", b.request.Ids[at])})
		}
	}
}

func (b *orderBatch) answer(ctx actor.Context) {
	ctx.Send(b.from.pid, &messages.OrderJobsResult{Request: b.from.request, Results: b.results})
}
