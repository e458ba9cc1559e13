package kit

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrStopping is the error of a spawn by an actor that has got Stopping or Restarting.
var ErrStopping = errors.New("spawn: parent is stopping or restarting")

// Option changes how the actors of one kind are spawned, such as their supervision.
type Option struct{ props actor.PropsOption }

// Supervise sets the strategy for the actor's children. Without it failed children are
// stopped. See [Env.Strategy].
func Supervise(s actor.SupervisorStrategy) Option {
	return Option{props: actor.WithSupervisor(s)}
}

// Props are the props of a kind of actor. kind appears in logs and metrics. Make them once
// per kind, and spawn children from them with ctx.SpawnNamed. That returns a nil PID and an
// error for a name in use (actor.ErrNameExists) and for a stopping parent ([ErrStopping]).
//
// producer makes one instance, for the spawn and for each restart. It runs on the goroutine
// of the parent or of the actor, and must have no side effects: those belong into the
// handling of Started.
func (e *Env) Props(kind string, producer func() actor.Actor, opts ...Option) *actor.Props {
	props := []actor.PropsOption{
		actor.WithMailbox(func() actor.Mailbox {
			return &trackedMailbox{safeMailbox: safeMailbox{Mailbox: e.mailbox()}, env: e, kind: kind, busy: e.busyOf(kind)}
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

// NumberedProps are Props of a kind of actor that numbers its requests, timers or children by its incarnation. The numbers of a
// kind count from 1 in the life of env, over restarts and over actors that have the same name one after the other: each
// mastership of a node has actors of the same names, and an answer to an actor of the former one must not be taken for an
// answer to its namesake.
func NumberedProps[N uint32 | uint64](e *Env, kind string, producer func(incarnation N) actor.Actor, opts ...Option) *actor.Props {
	count, _ := e.incarnations.LoadOrStore(kind, &atomic.Uint64{})
	return e.Props(kind, func() actor.Actor { return producer(N(count.(*atomic.Uint64).Add(1))) }, opts...)
}

// spawn refuses a parent that is stopping and a name in use. For the latter the library would run the producer, and return the PID of the
// actor that has the name.
func (e *Env) spawn(sys *actor.ActorSystem, id string, props *actor.Props, parent actor.SpawnerContext) (*actor.PID, error) {
	if host, ok := parent.Actor().(*guarded); ok && host.stopping {
		return nil, fmt.Errorf("%w: %s", ErrStopping, id)
	}
	if _, taken := sys.ProcessRegistry.GetLocal(id); taken {
		return nil, fmt.Errorf("%w: %s", actor.ErrNameExists, id)
	}
	if parent.Self() == nil {
		// Without a guardian the library would restart a root in real time.
		parent = e.root
	}
	pid, err := actor.DefaultSpawner(sys, id, props, parent)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, id)
	}
	return pid, nil
}

// SpawnRoot spawns the actor at the top of the tree. If it panics, it is stopped and never
// restarted. done is closed when it and all actors below it have stopped; its name is free
// by then.
func (e *Env) SpawnRoot(props *actor.Props, name string) (pid *actor.PID, done <-chan struct{}, err error) {
	notice := &deathWatch{env: e, done: make(chan struct{})}
	watcher, _ := e.sys.ProcessRegistry.Add(notice, "obituary"+e.sys.ProcessRegistry.NextId())
	// Watched before it starts: the library answers a watch that comes while the actor
	// stops before the actor has stopped.
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

// deathWatch is a process of the library that waits for one Terminated.
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
