// Package clusterconfig is the actor of the cluster configuration (config.md 3 to 5).
//
// It owns the configuration in force, the temporary reservations, and settings.json. It executes the calls of WConfD (Call), one
// at a time, and lockstep's own changes (EditConfig). A call is applied in memory, then its record goes to the storage, and only
// when the record is durable the call is answered and the subscribers get ConfigPublished. Records of calls that arrive during a write
// form the next write. After a failed write memory returns to what is on the disk, and all calls since then fail.
//
// The lock manager tells it the holders of the configuration lock (locks.ConfigLocks). A call that takes this lock waits a moment
// while a client holds it, and is then answered that it is busy.
//
// After a crash the actor loads the state from the storage, which has all that was answered. Calls under way are lost without an
// answer: their senders repeat them. A repeated call that an incarnation has taken before has no effect and no second answer.
package clusterconfig

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/distributor"
	"lockstep/actors/conn"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/config/calls"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/messages"
)

// Owners watches, for this actor, the processes that own reservations and reports each death as a CallerDied.
type Owners interface {
	// Watch sends the actor CallerDied, once, when the process is dead, at once if it is dead already. A Known caller is dead when
	// its livelock is free, any other when its process has ended.
	Watch(c reserve.Caller)
}

// Config has the neighbours and ports of the actor that owns the cluster configuration.
type Config struct {
	Env   *kit.Env
	Store *actor.PID // has settings.json
	// ConfigStore keeps the configuration and the reservations: the actor of package configstore, or in a cluster the replicator.
	ConfigStore *actor.PID
	Locks       *actor.PID
	Subscribers []*actor.PID // of ConfigPublished
	// Distributor sends the configuration to node daemons. nil: no node has one.
	Distributor *actor.PID
	Owners      Owners
	Random      func(count int) []byte // unpredictable octets
	// Unlocked is called for each call that changes an object without its lock. It may be nil.
	Unlocked func(Unlocked)
	// Destruction is the daemon as the owner of the big lock after prepareClusterDestruction.
	Destruction lock.Owner
}

// Props describes the actor that owns the cluster configuration, for kit's spawn functions: each incarnation loads its state from
// ConfigStore.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "clusterconfig", func(incarnation uint32) actor.Actor {
		a := &clusterconfig{
			config:      c,
			incarnation: incarnation,
			store:       store.NewClient(c.Store, incarnation),
			storage:     configstore.NewClient(c.ConfigStore, incarnation),
			callers:     callers{port: c.Owners},
			lockCalls:   lockCalls{kit.NewAsker[*locks.OperateResult](c.Locks, incarnation)},
			distributor: distributor.NewClient(c.Distributor, incarnation),
		}
		a.locks.daemon = c.Destruction
		return a
	})
}

type clusterconfig struct {
	config      Config
	incarnation uint32
	store       *store.Client
	storage     *configstore.Client

	settings  settings
	commits   commits
	snapshot  *calls.Snapshot // of the durable configuration
	locks     heldLocks
	waiting   waiting
	callers   callers
	lockCalls lockCalls
	asking    int // calls that wait for the locks of their clients

	distributor *distributor.Client

	taken    conn.Taken        // the requests for changes
	deferred kit.Deferred[any] // messages to handle once the state is loaded
	tries    int
}

// retryLoad is a timer after a failed read.
type retryLoad struct{ incarnation uint32 }

func (c *clusterconfig) Receive(ctx actor.Context) {
	if c.storage.Handle(ctx) || c.store.Handle(ctx) || c.distributor.Handle(ctx) {
		return
	}
	if !c.isRepeated(ctx) {
		c.handle(ctx, ctx.Message(), ctx.Sender())
	}
}

// isRepeated reports whether the message is a request for a change that this incarnation has answered or works on: the sender gets
// one answer.
func (c *clusterconfig) isRepeated(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *Call:
		return c.taken.IsRepeated(ctx.Sender(), m.Request)
	case *messages.EditConfig:
		return c.taken.IsRepeated(ctx.Sender(), m.Request)
	case *ResolveForeign:
		return c.taken.IsRepeated(ctx.Sender(), m.Request)
	}
	return false
}

func (c *clusterconfig) handle(ctx actor.Context, message any, sender *actor.PID) {
	switch m := message.(type) {
	case *actor.Started:
		c.store.Connect(ctx)
		c.storage.Connect(ctx)
		c.distributor.Connect(ctx)
		ctx.Send(c.config.Locks, &locks.PublishConfigLocks{})
		c.load(ctx)
	case *retryLoad:
		if m.incarnation == c.incarnation {
			c.load(ctx)
		}
	case *messages.PublishConfig:
		if c.ready(m, sender) {
			published := c.published(c.commits.durable.Config)
			published.Request = m.Request
			ctx.Send(sender, published)
		}
	case *Call:
		if c.ready(m, sender) {
			c.call(ctx, m, sender)
		}
	case *messages.EditConfig:
		if c.ready(m, sender) {
			c.edit(ctx, m, sender)
		}
	case *ResolveForeign:
		if c.ready(m, sender) {
			c.resolveForeign(ctx, m, sender)
		}
	case *foreignResolved:
		ctx.Send(sender, &ResolveForeignResult{Request: m.request, Foreign: true, Serial: c.commits.durable.Config.Serial})
	case *CheckForeign:
		c.storage.Check(ctx, func(ctx actor.Context, a *configstore.Checked) {
			ctx.Send(sender, &CheckForeignResult{m.Request, a.Foreign, a.Failure})
		})
	case *locks.ConfigLocks:
		c.locks.holders, c.locks.known = *m, true
		c.serveWaiting(ctx)
	case *patienceOver:
		c.patienceOver(ctx, m)
	case *Identified:
		c.callers.identify(m.PID, m.Owner)
	case *CallerDied:
		if c.ready(m, sender) {
			c.callerDied(ctx, m.Caller)
		}
	case *dropAgain:
		if m.incarnation == c.incarnation && c.ready(m, sender) {
			c.dropDead(ctx, m.dead...)
		}
	case *messages.LocksStarted:
		c.lockCalls.Repeat(ctx)
	case *locks.OperateResult:
		c.lockCalls.Answered(ctx, m.Request, m)
	default:
		kit.Unexpected(ctx)
	}
}

// ready reports whether the state is loaded; otherwise it defers the message.
func (c *clusterconfig) ready(message any, sender *actor.PID) bool {
	if c.snapshot == nil {
		c.deferred.Add(message, sender)
	}
	return c.snapshot != nil
}

// load reads the settings, if they are not known, and then the configuration. Both reads are repeated until they succeed.
func (c *clusterconfig) load(ctx actor.Context) {
	if !c.settings.known {
		c.readSettings(ctx)
		return
	}
	c.storage.Load(ctx, func(ctx actor.Context, m *configstore.Loaded) {
		f := m.Failure
		if f == nil && m.Missing {
			f = messages.ConfigurationFailure("there is no configuration")
		}
		if f == nil {
			_, err := config.ClusterOf(m.State.Config)
			f = messages.Generic(err)
		}
		if f != nil {
			c.retryLoadLater(ctx, "configuration cannot be loaded; loading it again", f)
			return
		}
		c.loaded(ctx, m)
	})
}

func (c *clusterconfig) retryLoadLater(ctx actor.Context, message string, f *messages.Failure) {
	delay := kit.Backoff(c.tries)
	c.tries++
	c.config.Env.Log().WithFields(logrus.Fields{"err": f.Text, "delay": delay}).Error(message)
	kit.SendAfter(c.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retryLoad{c.incarnation})
}

// loaded puts the loaded state in force: it publishes it, watches the callers in it, and handles the deferred messages.
func (c *clusterconfig) loaded(ctx actor.Context, m *configstore.Loaded) {
	c.tries = 0
	state := calls.NewState(m.State.Config, m.State.Reserved)
	state.ConcurrentChanges, state.Rules = m.State.Concurrent, m.State.Rules
	c.commits.reset(state, m.Number)
	c.publish(ctx)
	c.callers.watchAll(state.Reserved)
	c.deferred.HandleAll(ctx, c.handle)
}

// reload loads the state again because it is not what the actor took it for, and then handles messages again.
func (c *clusterconfig) reload(ctx actor.Context, again kit.Deferred[any]) {
	c.snapshot = nil
	c.deferred = append(again, c.deferred...)
	c.load(ctx)
}

// resolveForeign has the storage adopt or replace the foreign content of config.data, and loads the state that is then in force.
// Calls that were applied before the answer fail or are applied again, as after each refusal of the storage.
func (c *clusterconfig) resolveForeign(ctx actor.Context, m *ResolveForeign, sender *actor.PID) {
	c.storage.Resolve(ctx, m.Adopt, func(ctx actor.Context, a *configstore.ForeignResolved) {
		if a.Failure == nil && a.Foreign && c.snapshot != nil && c.commits.idle() {
			c.reload(ctx, kit.Deferred[any]{{Message: &foreignResolved{m.Request}, Sender: sender}})
			return
		}
		ctx.Send(sender, &ResolveForeignResult{m.Request, a.Foreign, c.commits.durable.Config.Serial, a.Failure})
	})
}

// foreignResolved is handled when the state is loaded.
type foreignResolved struct{ request uint64 }

// publish puts the durable configuration in force for readers, and sends it to the subscribers and to what distributes it.
func (c *clusterconfig) publish(ctx actor.Context) {
	if c.snapshot == nil || c.snapshot.Config != c.commits.durable.Config {
		c.snapshot = calls.NewSnapshot(c.commits.durable.Config)
		c.distributor.Distribute(ctx, c.snapshot.Config)
	}
	kit.Publish(ctx, c.config.Subscribers, c.published(c.snapshot.Config))
}

func (c *clusterconfig) published(config *model.Config) *ConfigPublished {
	return &ConfigPublished{Config: config, Rules: c.commits.durable.Rules, Settings: c.settings.content, SetAside: c.settings.setAside}
}
