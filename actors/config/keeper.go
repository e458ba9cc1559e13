package config

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/configstore"
	"lockstep/core/config/calls"
	"lockstep/core/config/journal"
	"lockstep/messages"
)

// keeper keeps the state on the disk. Requests are carried out in their order.
type keeper interface {
	connect(ctx actor.Context)     // the first call of an incarnation
	handle(ctx actor.Context) bool // false: the message is not the keeper's
	load(ctx actor.Context, done func(actor.Context, *configstore.Loaded))
	// append makes records durable, all or none. after is the state after them. Refused means that the state must be loaded
	// again. With a failure nothing has changed, unless it is also refused.
	append(ctx actor.Context, records []*journal.Record, after calls.State, done func(actor.Context, *configstore.Appended))
	// flush writes config.data with all records before.
	flush(ctx actor.Context, done func(actor.Context, *messages.Failure))
	// resolve adopts the content that another program has written to config.data, or replaces it. The state must be loaded again.
	resolve(ctx actor.Context, adopt bool, done func(actor.Context, *messages.Failure))
}

// storage is the keeper that uses the actor of package configstore. It keeps unanswered requests and repeats them, in order, to a
// new incarnation of that actor.
type storage struct {
	to          *actor.PID
	incarnation uint64 // of the actor; 0: not known yet
	last        uint64 // number of the last request
	open        []*storageRequest
}

type storageRequest struct {
	number   uint64
	message  any
	answered func(ctx actor.Context, answer any)
}

func newStorage(to *actor.PID, incarnation uint32) *storage {
	return &storage{to: to, last: uint64(incarnation) << 32}
}

func (s *storage) connect(ctx actor.Context) { ctx.Request(s.to, &configstore.Announce{}) }

func (s *storage) handle(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *configstore.Started:
		if m.Incarnation > s.incarnation {
			s.incarnation = m.Incarnation
			for _, r := range s.open {
				ctx.Request(s.to, r.message)
			}
		}
	case *configstore.Loaded:
		s.answered(ctx, m.Request, m)
	case *configstore.Appended:
		s.answered(ctx, m.Request, m)
	case *configstore.Flushed:
		s.answered(ctx, m.Request, m)
	case *configstore.ForeignResolved:
		s.answered(ctx, m.Request, m)
	default:
		return false
	}
	return true
}

func (s *storage) answered(ctx actor.Context, number uint64, answer any) {
	for i, r := range s.open {
		if r.number == number {
			s.open = append(s.open[:i:i], s.open[i+1:]...)
			r.answered(ctx, answer)
			return
		}
	}
}

// ask sends a request; make makes it with its number.
func (s *storage) ask(ctx actor.Context, make func(number uint64) any, answered func(actor.Context, any)) {
	s.last++
	r := &storageRequest{s.last, make(s.last), answered}
	s.open = append(s.open, r)
	if s.incarnation != 0 {
		ctx.Request(s.to, r.message)
	}
}

func (s *storage) load(ctx actor.Context, done func(actor.Context, *configstore.Loaded)) {
	s.ask(ctx, func(number uint64) any { return &configstore.Load{Request: number} },
		func(ctx actor.Context, answer any) { done(ctx, answer.(*configstore.Loaded)) })
}

func (s *storage) append(ctx actor.Context, records []*journal.Record, _ calls.State, done func(actor.Context, *configstore.Appended)) {
	s.ask(ctx, func(number uint64) any { return &configstore.Append{Request: number, Records: records} },
		func(ctx actor.Context, answer any) { done(ctx, answer.(*configstore.Appended)) })
}

func (s *storage) flush(ctx actor.Context, done func(actor.Context, *messages.Failure)) {
	s.ask(ctx, func(number uint64) any { return &configstore.Flush{Request: number} },
		func(ctx actor.Context, answer any) { done(ctx, answer.(*configstore.Flushed).Failure) })
}

func (s *storage) resolve(ctx actor.Context, adopt bool, done func(actor.Context, *messages.Failure)) {
	s.ask(ctx, func(number uint64) any {
		if adopt {
			return &configstore.Adopt{Request: number}
		}
		return &configstore.Discard{Request: number}
	}, func(ctx actor.Context, answer any) { done(ctx, answer.(*configstore.ForeignResolved).Failure) })
}
