package kit

import (
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrStopping is returned by a spawn from an actor that has been told Stopping or
// Restarting.
var ErrStopping = errors.New("spawn: parent is stopping or restarting")

// Option changes the props of an actor kind.
type Option struct{ props actor.PropsOption }

// Supervise has s decide about the actor's children that fail; without it they
// are stopped at once. See [Env.Strategy].
func Supervise(s actor.SupervisorStrategy) Option {
	return Option{props: actor.WithSupervisor(s)}
}

// Props are the props of a kind of actor; kind appears in logs and metrics. Make
// them once per kind and spawn children from them with ctx.SpawnNamed, which
// returns actor.ErrNameExists for a name in use and [ErrLeaving], with a nil PID.
//
// producer makes one instance, for the spawn and for each restart. It runs on the
// parent's goroutine or the actor's and must have no effects beyond that: those
// belong into the handling of Started.
func (e *Env) Props(kind string, producer func() actor.Actor, opts ...Option) *actor.Props {
	props := []actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox {
			return &trackedMailbox{safeMailbox: safeMailbox{Mailbox: e.mailbox()}, env: e, kind: kind}
		}),
		actor.WithSpawnFunc(e.spawn),
		actor.WithSupervisor(e.Strategy(Policy{})),
	}
	for _, option := range opts {
		props = append(props, option.props)
	}
	return actor.PropsFromProducer(func() actor.Actor {
		return &guarded{inner: producer(), env: e, kind: kind}
	}, props...)
}

// spawn checks the name before the library does, which would run the producer
// first and then return the PID of the actor that has the name.
func (e *Env) spawn(sys *actor.ActorSystem, id string, props *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
	if host, ok := parent.Actor().(*guarded); ok && host.stopping {
		return nil, fmt.Errorf("%w: %s", ErrStopping, id)
	}
	if _, taken := sys.ProcessRegistry.GetLocal(id); taken {
		return nil, fmt.Errorf("%w: %s", actor.ErrNameExists, id)
	}
	if parent.Self() == nil {
		// Without a guardian the library would restart a root on real time.
		parent = e.root
	}
	pid, err := actor.DefaultSpawner(sys, id, props, parent)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, id)
	}
	return pid, nil
}

// SpawnRoot starts the actor at the top of the tree. If it panics it is stopped,
// never restarted. done is closed when it and all below it have stopped, for
// whatever reason; its name is free again by then.
func (e *Env) SpawnRoot(props *actor.Props, name string) (pid *actor.PID, done <-chan struct{}, err error) {
	notice := &deathWatch{env: e, done: make(chan struct{})}
	watcher, _ := e.sys.ProcessRegistry.Add(notice, "obituary"+e.sys.ProcessRegistry.NextId())
	// Watched from before it starts: a watch that arrived while the actor stops
	// would be answered before it has.
	watched := props.Clone(actor.WithOnInit(func(ctx actor.Context) {
		e.sendSystem(ctx.Self(), &actor.Watch{Watcher: watcher})
	}))
	pid, err = e.root.SpawnNamed(watched, name)
	if err != nil {
		e.sys.ProcessRegistry.Remove(watcher)
		return nil, nil, err
	}
	return pid, notice.done, nil
}

// deathWatch is a process, in the library's sense, that waits for one Terminated.
type deathWatch struct {
	env  *Env
	once sync.Once
	done chan struct{}
}

func (o *deathWatch) SendUserMessage(*actor.PID, any) {}

func (o *deathWatch) SendSystemMessage(self *actor.PID, msg any) {
	if _, ok := msg.(*actor.Terminated); ok {
		o.once.Do(func() {
			o.env.sys.ProcessRegistry.Remove(self)
			close(o.done)
		})
	}
}

func (o *deathWatch) Stop(*actor.PID) {}
