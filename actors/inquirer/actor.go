// Package inquirer is the actor that asks node daemons what only they know (live.md).
//
// It owns the inquiries without answer and the calls in progress. Connections of clients ask it on behalf of queries (Ask), and get all
// answers at once, those of silent nodes as errors. It tells its clients of each start (Started). core/inquiry decides which calls are
// made; the port Daemons makes them. The inquirer logs why a node's answer is missing.
//
// Nothing survives a crash. The clients ask the next incarnation again. Calls of an earlier incarnation end without effect.
package inquirer

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/inquiry"
)

// Daemons is the port through which the inquirer asks node daemons. Its methods do not block.
type Daemons interface {
	// Ask makes a call in the background. It calls done once, on any goroutine, never within Ask. late says that a time limit
	// has ended the call.
	Ask(q inquiry.Question, done func(answer inquiry.Answer, late bool)) Call
}

// Call is one call of a node daemon that was begun and may be given up. Its methods may be called from any goroutine, and after the end
// of the call.
type Call interface {
	// Sent reports whether the node daemon may have the request already.
	Sent() bool
	// GiveUp ends the call.
	GiveUp()
}

// Config has the neighbours and ports of the actor that asks node daemons.
type Config struct {
	Env     *kit.Env
	Daemons Daemons
	Places  int          // calls in progress at most
	Clients []*actor.PID // get Started
}

// Props describes the actor that asks node daemons for what only they know, such as free memory.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "inquirer", func(incarnation uint64) actor.Actor {
		return &inquirer{config: c, incarnation: incarnation, tracker: inquiry.New(c.Places), requesters: map[uint64]requester{},
			calls: map[uint64]Call{}, stopTimer: func() bool { return false }}
	})
}

type inquirer struct {
	config      Config
	incarnation uint64
	tracker     *inquiry.Tracker
	last        uint64               // id of the newest inquiry
	requesters  map[uint64]requester // by inquiry without answer
	calls       map[uint64]Call      // in progress
	stopTimer   func() bool
}

// requester is where the answer to an Ask goes: its sender and the sender's number.
type requester struct {
	pid     *actor.PID
	request uint64
}

func (i *inquirer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		kit.Publish(ctx, i.config.Clients, &Started{})
	case *Announce:
		ctx.Respond(&Started{})
	case *Ask:
		i.ask(ctx, m)
	case *callEnded:
		if m.incarnation == i.incarnation {
			i.callEnded(ctx, m)
		}
	case *wake:
		if m.incarnation == i.incarnation {
			i.next(ctx)
		}
	case *actor.Stopping, *actor.Restarting:
		i.stopTimer()
	default:
		kit.Unexpected(ctx)
	}
}

func (i *inquirer) now() time.Time { return i.config.Env.Clock().Now() }

func (i *inquirer) ask(ctx actor.Context, m *Ask) {
	for _, id := range i.tracker.Unsent() {
		if i.calls[id].Sent() {
			i.tracker.Sent(id)
		}
	}
	i.last++
	i.requesters[i.last] = requester{ctx.Sender(), m.Request}
	i.tracker.Ask(i.now(), i.last, m.Questions)
	i.next(ctx)
}

// next asks core/inquiry what to do now, begins and gives up calls, answers complete inquiries, and sets the timer.
func (i *inquirer) next(ctx actor.Context) {
	now := i.now()
	d := i.tracker.Next(now)
	for _, l := range d.Late {
		i.log(l.Question, l.Err, l.Report)
	}
	for _, id := range d.GiveUp {
		i.calls[id].GiveUp()
		delete(i.calls, id)
	}
	for _, s := range d.Starts {
		root, self, incarnation := ctx.ActorSystem().Root, ctx.Self(), i.incarnation
		i.calls[s.Call] = i.config.Daemons.Ask(s.Question, func(answer inquiry.Answer, late bool) {
			root.Send(self, &callEnded{incarnation, s.Call, s.Question, answer, late})
		})
	}
	for _, e := range d.Ended {
		to := i.requesters[e.Inquiry]
		delete(i.requesters, e.Inquiry)
		ctx.Send(to.pid, &AskResult{to.request, e.Answers})
	}
	i.stopTimer()
	if !d.Wake.IsZero() {
		i.stopTimer = kit.SendAfter(i.config.Env.Clock(), ctx.ActorSystem(), d.Wake.Sub(now), ctx.Self(), &wake{i.incarnation})
	}
}

func (i *inquirer) callEnded(ctx actor.Context, m *callEnded) {
	delete(i.calls, m.call)
	i.log(m.question, m.answer.Err, i.tracker.Done(m.call, m.answer, m.late))
	i.next(ctx)
}

// log writes why cells have no value, for a node that stays down at the first time only.
func (i *inquirer) log(q inquiry.Question, err error, r inquiry.Report) {
	log := i.config.Env.Log().WithFields(logrus.Fields{"node": q.Node.Name, "address": q.Node.Address, "op": string(q.Request.Procedure)})
	switch {
	case r.Recovered:
		log.Info("node answers queries again")
	case err == nil || !r.Asked:
	case r.New:
		log.WithField("err", err).Warn("node does not answer a query; its values are missing")
	default:
		log.WithField("err", err).Debug("node does not answer a query, for the same cause as before")
	}
}
