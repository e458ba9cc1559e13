package kit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
)

func panicOn[M any](what string) func(actor.Context) {
	return func(c actor.Context) {
		if _, ok := c.Message().(M); ok {
			panic(what)
		}
	}
}

// TestPanicWhileStopping is pitfall P8: the library would restart the actor, or never send
// Terminated to its parent and watchers.
func TestPanicWhileStopping(t *testing.T) {
	for name, react := range map[string]func(actor.Context){
		"Stopping":   panicOn[*actor.Stopping]("oops"),
		"Stopped":    panicOn[*actor.Stopped]("oops"),
		"Terminated": panicOn[*actor.Terminated]("oops"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				restart := &Policy{Limit: 5}
				r.root(spec{name: "daemon", policy: restart, children: []spec{
					{name: "a", policy: restart, react: react, children: []spec{{name: "b"}}},
				}})
				settle()
				future := r.env.System().Root.StopFuture(r.env.PID("daemon/a"))
				settle()
				r.clock.advance(time.Minute)
				settle()
				_, err := future.Result()
				require.NoError(t, err)
				require.Equal(t, []string{
					"a#1 started", "a#1 stopping", "a#1 terminated daemon/a/b", "a#1 stopped",
				}, r.of("a"))
				require.Equal(t, []string{"daemon#1 started", "daemon#1 terminated daemon/a"}, r.of("daemon"))
				require.False(t, exists(r, "daemon/a"))
				require.Equal(t, []string{"daemon/a *actor." + name + " oops"}, r.panics("actor panicked while stopping"))
				require.Contains(t, r.logs.LastEntry().Data["stack"], "panicOn")
			})
		})
	}
}

func TestPanicInRestarting(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", policy: &Policy{Limit: 1}, children: []spec{
			{name: "a", react: panicOn[*actor.Restarting]("oops")},
		}})
		settle()
		r.send("daemon/a", "boom", "x")
		settle()
		r.clock.advance(0)
		settle()
		require.Equal(t, []string{"a#1 started", "a#1 got boom", "a#1 restarting", "a#2 started", "a#2 got x"}, r.of("a"))
		require.Equal(t, []string{"daemon/a restart 1 0s"}, r.failures())
	})
}

// TestTerminatedPanicIsSupervised: only panics of stopping instances are swallowed.
func TestTerminatedPanicIsSupervised(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", children: []spec{
			{name: "a", react: panicOn[*actor.Terminated]("oops"), children: []spec{{name: "b"}}},
		}})
		settle()
		r.env.System().Root.Stop(r.env.PID("daemon/a/b"))
		settle()
		require.Equal(t, []string{"daemon/a stop 1 0s"}, r.failures())
		require.False(t, exists(r, "daemon/a"))
	})
}

// TestRestartAfterStop: a stopped actor is not restarted, whether it still waits for its
// children or has stopped.
func TestRestartAfterStop(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		r.root(spec{name: "daemon", children: []spec{{name: "a", children: []spec{{name: "b"}}}}})
		settle()
		r.send("daemon/a/b", do(func(actor.Context) { <-release }))
		settle()
		process, _ := r.env.System().ProcessRegistry.GetLocal("daemon/a")
		r.env.System().Root.Stop(r.env.PID("daemon/a"))
		settle()
		process.SendSystemMessage(nil, &actor.Restart{})
		settle()
		close(release)
		settle()
		process.SendSystemMessage(nil, &actor.Restart{})
		settle()
		require.Equal(t, []string{"a#1 started", "a#1 stopping", "a#1 terminated daemon/a/b", "a#1 stopped"}, r.of("a"))
	})
}

// TestPanicIsLoggedWithoutTheMessage: the log has the stack and the type, not the content.
func TestPanicIsLoggedWithoutTheMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", children: []spec{{name: "a", react: func(c actor.Context) {
			if m, ok := c.Message().(*secret); ok {
				panic(m)
			}
		}}}})
		settle()
		r.env.System().Root.RequestFuture(r.env.PID("daemon/a"), &secret{"hunter2"}, -1)
		settle()
		require.Equal(t, []string{"daemon/a *kit.secret *kit.secret"}, r.panics("actor panicked"))
		for _, entry := range r.logs.AllEntries() {
			text, err := (&logrus.JSONFormatter{}).Format(entry)
			require.NoError(t, err)
			require.NotContains(t, string(text), "hunter2")
			if entry.Message == "actor panicked" {
				require.Equal(t, logrus.ErrorLevel, entry.Level)
				require.Equal(t, "kind-a", entry.Data["kind"])
				require.Contains(t, entry.Data["stack"], "TestPanicIsLoggedWithoutTheMessage.func")
				require.Equal(t, r.clock.Now(), entry.Time)
			}
		}
	})
}

// TestContinuationPanicIsLogged: continuations do not pass through Receive.
func TestContinuationPanicIsLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", children: []spec{{name: "a"}}})
		settle()
		r.send("daemon/a", do(func(c actor.Context) {
			future := actor.NewFuture(c.ActorSystem(), -1)
			c.ReenterAfter(future, func(any, error) { panic("later") })
			c.Send(future.PID(), "done")
		}))
		settle()
		require.Equal(t, []string{"daemon/a *actor.continuation later"}, r.panics("actor panicked"))
		require.Equal(t, []string{"daemon/a stop 1 0s"}, r.failures())
	})
}

// TestQueueOfStoppedActor is pitfall P4: the library silently drops the queue of a stopping
// actor, and keeps that of a failed one for ever.
func TestQueueOfStoppedActor(t *testing.T) {
	for name, last := range map[string]any{
		"stopped": do(func(c actor.Context) { c.Stop(c.Self()) }),
		"failed":  "boom",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.root(spec{name: "daemon", children: []spec{{name: "a"}}})
				settle()
				release := make(chan struct{})
				r.send("daemon/a", do(func(actor.Context) { <-release }), last)
				settle()
				future := r.env.System().Root.RequestFuture(r.env.PID("daemon/a"), "ask", -1)
				r.send("daemon/a", &secret{"hunter2"})
				settle()
				close(release)
				settle()
				_, err := future.Result()
				require.ErrorIs(t, err, actor.ErrDeadLetter)
				require.EqualValues(t, 2, r.env.DeadLetters())
				for _, entry := range r.logs.AllEntries() {
					text, err := entry.String()
					require.NoError(t, err)
					require.NotContains(t, text, "hunter2")
				}
			})
		})
	}
}

func TestDeadLetters(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var answers []string
		r.root(spec{name: "daemon", react: func(c actor.Context) {
			if m, ok := c.Message().(*actor.DeadLetterResponse); ok {
				answers = append(answers, m.Target.Id)
			}
		}})
		r.send("nobody", &secret{"hunter2"})
		_, err := r.env.System().Root.RequestFuture(r.env.PID("nobody"), &secret{"hunter2"}, -1).Result()
		require.ErrorIs(t, err, actor.ErrDeadLetter)
		r.send("daemon", do(func(c actor.Context) {
			c.Watch(r.env.PID("nobody"))
			c.Request(r.env.PID("nobody"), &secret{"hunter2"})
		}))
		settle()
		require.Equal(t, []string{"daemon#1 started", "daemon#1 terminated nobody"}, r.of())
		require.Equal(t, []string{"nobody"}, answers)
		require.EqualValues(t, 3, r.env.DeadLetters())
		var letters []*logrus.Entry
		for _, entry := range r.logs.AllEntries() {
			text, err := entry.String()
			require.NoError(t, err)
			require.NotContains(t, text, "hunter2")
			if strings.Contains(entry.Message, "stopped actor") {
				letters = append(letters, entry)
			}
		}
		require.Len(t, letters, 3)
		require.Equal(t, logrus.DebugLevel, letters[0].Level)
		require.Equal(t, logrus.Fields{"actor": "nobody", "op": "*kit.secret"}, letters[0].Data)
	})
}

func TestReasonText(t *testing.T) {
	require.Equal(t, "oops", reasonText(errors.New("oops")))
	require.Equal(t, "oops", reasonText("oops"))
	require.Equal(t, "*kit.secret", reasonText(&secret{"hunter2"}))
	require.Equal(t, "kit.panickyError", reasonText(panickyError{}))
	require.Equal(t, "<nil>", reasonText(nil))
}
