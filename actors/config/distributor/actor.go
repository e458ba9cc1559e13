// Package distributor is the actor that sends the configuration to the node daemons of other nodes (config.md 8).
//
// It owns what each node has acknowledged, and the calls in progress. The configuration's actor tells it of each durable
// configuration (Distribute) and asks it when an answer may leave (Await). Other actors ask it which nodes are behind and why
// (GetNodes). core/distribution decides; the port Daemons makes the calls. The distributor tells its clients of each start
// (Started).
//
// Nothing survives a crash. The next incarnation waits for Distribute, and then sends everything to all nodes once. Its clients
// send the newest configuration and their open questions again; Client does this for an actor.
package distributor

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/distribution"
)

// Daemons is the port through which the distributor calls node daemons. Its methods do not block.
type Daemons interface {
	// Send makes a call in the background. It calls done once, on any goroutine, never within Send. Calls of one kind to one
	// node, also those of an earlier incarnation of the actor, are made one after the other, in the order of Send.
	Send(call distribution.Send, done func(distribution.Result))
}

// Config has the neighbours and ports of the actor that sends the configuration to node daemons.
type Config struct {
	Env      *kit.Env
	Daemons  Daemons
	Clients  []*actor.PID // get Started
	Software string       // version of Ganeti that the nodes run, for ssconf release_version: 3.0.2
	Self     string       // name of this node: a configuration that names another master is not sent; "": this node is the master
}

// Props describes the actor that sends the configuration to the node daemons of other nodes.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "distributor", func(incarnation uint64) actor.Actor {
		return &distributor{
			config:      c,
			incarnation: incarnation,
			tracker:     distribution.New(c.Software, c.Self),
			stopTimer:   func() bool { return false },
		}
	})
}

type distributor struct {
	config      Config
	incarnation uint64
	tracker     *distribution.Tracker

	questions []question // without answer
	last      uint64     // id of the newest question
	stopTimer func() bool
}

// question is an Await whose answer must wait for the nodes, with the actor that asked.
type question struct {
	id      uint64
	sender  *actor.PID
	request uint64
}

func (d *distributor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		kit.Publish(ctx, d.config.Clients, &Started{d.incarnation})
	case *Announce:
		ctx.Respond(&Started{d.incarnation})
	case *Distribute:
		d.tracker.Distribute(m.Config)
		d.next(ctx)
	case *Await:
		d.await(ctx, m)
	case *GetNodes:
		nodes, serial := d.tracker.State()
		ctx.Respond(&GetNodesResult{m.Request, serial, nodes})
	case *callEnded:
		if m.incarnation == d.incarnation {
			d.callEnded(ctx, m)
		}
	case *wake:
		if m.incarnation == d.incarnation {
			d.next(ctx)
		}
	case *actor.Stopping, *actor.Restarting:
		d.stopTimer()
	default:
		kit.Unexpected(ctx)
	}
}

func (d *distributor) now() time.Time { return d.config.Env.Clock().Now() }

// await keeps a question until the nodes of its group, or all nodes, have the newest configuration, at the latest for AwaitMax of the
// tracker. A repetition of an open one changes nothing.
func (d *distributor) await(ctx actor.Context, m *Await) {
	if slices.ContainsFunc(d.questions, func(q question) bool { return q.request == m.Request && q.sender.Equal(ctx.Sender()) }) {
		return
	}
	d.last++
	d.questions = append(d.questions, question{d.last, ctx.Sender(), m.Request})
	d.tracker.Await(d.now(), d.last, m.Group, m.Force)
	d.next(ctx)
}

// next asks core/distribution what to do now, makes the calls, answers what need not wait longer, and sets the timer.
func (d *distributor) next(ctx actor.Context) {
	now := d.now()
	decision := d.tracker.Next(now)
	for _, key := range decision.TooLong {
		d.config.Env.Log().WithField("path", "ssconf_"+key).Error("value is too long for node daemons; nodes keep the former file")
	}
	for _, s := range decision.Sends {
		root, self, incarnation := ctx.ActorSystem().Root, ctx.Self(), d.incarnation
		d.config.Daemons.Send(s, func(r distribution.Result) { root.Send(self, &callEnded{incarnation, s, r}) })
	}
	for _, id := range decision.Released {
		i := slices.IndexFunc(d.questions, func(q question) bool { return q.id == id })
		ctx.Send(d.questions[i].sender, &AwaitResult{d.questions[i].request})
		d.questions = slices.Delete(d.questions, i, i+1)
	}
	d.stopTimer()
	if !decision.Wake.IsZero() {
		d.stopTimer = kit.SendAfter(d.config.Env.Clock(), ctx.ActorSystem(), decision.Wake.Sub(now), ctx.Self(), &wake{d.incarnation})
	}
}

func (d *distributor) callEnded(ctx actor.Context, m *callEnded) {
	effect := d.tracker.Done(d.now(), m.send.Call, m.result)
	log := d.config.Env.Log().WithFields(logrus.Fields{"node": m.send.Node.Name, "address": m.send.Node.Address,
		"op": m.send.Content.Kind.String(), "serial": m.send.Content.Serial})
	switch {
	case effect.Failures == 1:
		log.WithFields(logrus.Fields{"err": m.result.Err, "delay": effect.Retry}).Warn("distribution to a node failed; it is repeated")
	case effect.Failures > 1:
		log.WithFields(logrus.Fields{"err": m.result.Err, "delay": effect.Retry, "attempt": effect.Failures}).
			Debug("distribution to a node failed again; it is repeated")
	case effect.Recovered:
		log.Info("distribution to a node succeeded after failures")
	}
	d.next(ctx)
}
