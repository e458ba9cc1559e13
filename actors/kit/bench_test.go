package kit

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

func countDown(n int) (producer func() actor.Actor, done chan struct{}) {
	done = make(chan struct{})
	left := n
	return func() actor.Actor {
		return actor.ReceiveFunc(func(c actor.Context) {
			if _, ok := c.Message().(string); ok {
				if left--; left == 0 {
					close(done)
				}
			}
		})
	}, done
}

func benchmarkTell(b *testing.B, spawn func(*actor.ActorSystem, *Env, func() actor.Actor) *actor.PID) {
	env := New(Options{})
	producer, done := countDown(b.N)
	pid := spawn(env.System(), env, producer)
	var msg any = "message"
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		env.System().Root.Send(pid, msg)
	}
	<-done
}

// BenchmarkTell sends and handles one message through mailbox, gate and guard.
func BenchmarkTell(b *testing.B) {
	benchmarkTell(b, func(_ *actor.ActorSystem, e *Env, producer func() actor.Actor) *actor.PID {
		pid, _, err := e.SpawnRoot(e.Props("bench", producer), "bench")
		if err != nil {
			b.Fatal(err)
		}
		return pid
	})
}

// BenchmarkTellBare does the same without this package.
func BenchmarkTellBare(b *testing.B) {
	benchmarkTell(b, func(sys *actor.ActorSystem, _ *Env, producer func() actor.Actor) *actor.PID {
		return sys.Root.Spawn(actor.PropsFromProducer(producer))
	})
}

// BenchmarkSpawn spawns a root and waits until it has stopped.
func BenchmarkSpawn(b *testing.B) {
	env := New(Options{})
	props := env.Props("bench", func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
	b.ReportAllocs()
	for b.Loop() {
		pid, done, err := env.SpawnRoot(props, "bench")
		if err != nil {
			b.Fatal(err)
		}
		env.System().Root.Stop(pid)
		<-done
	}
}
