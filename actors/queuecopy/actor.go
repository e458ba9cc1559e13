// Package queuecopy is the actor that sends the queue to the master candidates of a Ganeti cluster, by their node
// daemons (noded.md 7).
//
// It owns what each candidate may lack, and the calls in progress. The store tells it of each change of a file (store.Changed), the
// job actors of the processes of Ganeti (ProcessBegan, ProcessEnded), the configuration's actor of the nodes. Connections ask it
// which candidates are behind (GetNodes) and, unless the operator wants no such wait, when candidates have a change (Await).
// core/queuecopy decides; the port Daemons reads the files and makes the calls. It tells its clients of each start (Started). An orderly
// stop (messages.Drain) sends the exact serial.
//
// Nothing survives a crash. The next incarnation compares the whole queue with each candidate.
package queuecopy

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/config/model"
	corecopy "lockstep/core/queuecopy"
	"lockstep/messages"
)

// Daemons is the port through which the actor reads files of the queue and sends them to node daemons.
type Daemons interface {
	// Call makes a call in the background: it reads the files of the units, calls the node daemon, and calls done once, on any
	// goroutine, never within Call. An AskMaster, which is the first call of an incarnation to a node, is made when all earlier calls to
	// that node have ended. Other calls are made at once.
	Call(call corecopy.Call, done func(corecopy.Result))
}

// Config has the neighbours and ports of the actor that copies the queue to Ganeti's master candidates.
type Config struct {
	Env           *kit.Env
	Daemons       Daemons
	Self          string // name of this node: the queue is sent while it is the master's; "": this node is the master
	ClusterConfig *actor.PID
	Clients       []*actor.PID // get Started
	Acknowledge   corecopy.Acknowledge
}

// Props describes the actor that copies the queue to the master candidates of a Ganeti cluster.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "queuecopy", func(incarnation uint64) actor.Actor {
		return &queuecopy{config: c, incarnation: incarnation, tracker: corecopy.New(c.Acknowledge), stopTimer: func() bool { return false }}
	})
}

// queuecopy is the actor.
type queuecopy struct {
	config      Config
	incarnation uint64
	tracker     *corecopy.Tracker
	known       *model.Config // nil: none yet

	questions []question // without answer
	last      uint64     // id of the newest question
	stopTimer func() bool
	draining  *actor.PID // gets DrainResult; nil: nobody
}

// question is an Await whose candidates do not all have the change yet, with the actor that asked.
type question struct {
	id     uint64
	sender *actor.PID
	*Await
}

func (c *queuecopy) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(c.config.ClusterConfig, &messages.PublishConfig{})
		kit.Publish(ctx, c.config.Clients, &Started{c.incarnation})
	case *clusterconfig.ConfigPublished:
		c.configured(m.Config)
		c.next(ctx)
	case *store.Changed:
		c.tracker.Changed(c.now(), m.Paths)
		c.next(ctx)
	case *ProcessBegan:
		c.tracker.ProcessBegan(c.now(), m.ID)
		c.next(ctx)
	case *ProcessEnded:
		c.tracker.ProcessEnded(c.now(), m.ID)
		c.next(ctx)
	case *Await:
		c.await(ctx, m)
	case *GetNodes:
		ctx.Respond(&GetNodesResult{m.Request, c.tracker.State()})
	case *callEnded:
		if m.incarnation == c.incarnation {
			c.callEnded(ctx, m)
		}
	case *wake:
		if m.incarnation == c.incarnation {
			c.next(ctx)
		}
	case *messages.Drain:
		c.draining = ctx.Sender()
		c.tracker.Stop(c.now())
		c.next(ctx)
	case *actor.Stopping, *actor.Restarting:
		c.stopTimer()
	default:
		kit.Unexpected(ctx)
	}
}

func (c *queuecopy) now() time.Time { return c.config.Env.Clock().Now() }

// configured makes the master candidates of a configuration the targets of copies. If this node is not its master there are none.
func (c *queuecopy) configured(current *model.Config) {
	if c.known != nil && c.known.Nodes == current.Nodes && c.known.Cluster == current.Cluster {
		return
	}
	if c.known == nil {
		defer c.awaitEarly()
	}
	c.known = current
	uuid := current.Cluster.Value.MasterNode
	master, hasMaster := current.Nodes.Get(uuid)
	// Without a master the cluster is being destroyed. With another master this node's queue is not the cluster's.
	if !hasMaster || c.config.Self != "" && master.Value.Name != c.config.Self {
		c.tracker.SetNodes(c.now(), "", nil)
		return
	}
	var candidates []corecopy.Node
	for id, n := range current.Nodes.All() {
		if id != uuid && n.Value.MasterCandidate && !n.Value.Offline {
			candidates = append(candidates, corecopy.Node{UUID: id, Name: n.Value.Name, Address: n.Value.PrimaryIP})
		}
	}
	c.tracker.SetNodes(c.now(), master.Value.Name, candidates)
}

// next asks core/queuecopy what to do now, makes the calls, answers what need not wait longer, and sets the timer.
func (c *queuecopy) next(ctx actor.Context) {
	now := c.now()
	decision := c.tracker.Next(now)
	for _, call := range decision.Calls {
		root, self, incarnation := ctx.ActorSystem().Root, ctx.Self(), c.incarnation
		c.config.Daemons.Call(call, func(r corecopy.Result) { root.Send(self, &callEnded{incarnation, call, r}) })
	}
	c.logCandidates(decision)
	c.answer(ctx, decision.Released)
	if decision.Stopped && c.draining != nil {
		ctx.Request(c.draining, &messages.DrainResult{})
		c.draining = nil
	}
	c.stopTimer()
	if !decision.Wake.IsZero() {
		c.stopTimer = kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), decision.Wake.Sub(now), ctx.Self(), &wake{c.incarnation})
	}
}

func (c *queuecopy) callEnded(ctx actor.Context, m *callEnded) {
	effect := c.tracker.Done(c.now(), m.call.Number, m.result)
	log := c.config.Env.Log().WithFields(logrus.Fields{"node": m.call.Node.Name, "address": m.call.Node.Address, "op": m.call.Op.String()})
	switch {
	case effect.Failures == 1:
		log.WithFields(logrus.Fields{"err": effect.Err, "delay": effect.Retry}).Warn("copy of the queue to a node failed; it is repeated")
	case effect.Failures > 1:
		log.WithFields(logrus.Fields{"err": effect.Err, "delay": effect.Retry, "attempt": effect.Failures}).
			Debug("copy of the queue to a node failed again; it is repeated")
	case effect.Recovered:
		log.Info("copy of the queue to a node succeeded after failures")
	}
	if effect.Repaired > 0 {
		log.WithField("jobs", effect.Repaired).Info("a node has other files of jobs; they are sent")
	}
	c.next(ctx)
}
