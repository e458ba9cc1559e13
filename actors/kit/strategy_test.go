package kit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// TestRestartKeepsMailbox is pitfall P1: PID and queue outlive the instance, the message
// being handled does not.
func TestRestartKeepsMailbox(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", policy: &Policy{Backoff: second, Limit: 3, Window: time.Minute}, children: []spec{{name: "a"}}})
		settle()
		pid := r.env.PID("daemon/a")
		root := r.env.System().Root
		root.Send(pid, "1")
		root.Send(pid, "boom")
		root.Send(pid, "2")
		settle()
		root.Send(pid, "3")
		settle()
		require.Equal(t, []string{"a#1 started", "a#1 got 1", "a#1 got boom"}, r.of("a"), "nothing before the delay is over")
		r.clock.advance(second)
		settle()
		root.Send(pid, "4")
		settle()
		require.Equal(t, []string{
			"a#1 started", "a#1 got 1", "a#1 got boom", "a#1 restarting",
			"a#2 started", "a#2 got 2", "a#2 got 3", "a#2 got 4",
		}, r.of("a"))
		require.Equal(t, []string{"daemon/a restart 1 1s"}, r.failures())
		require.Empty(t, r.of("daemon")[1:], "the parent is not told of a restart")
	})
}

// TestRestartEndsChildrenFirst: all children of the failed instance have stopped, and their
// names are free, when the new instance gets Started. Messages wait for the new one.
func TestRestartEndsChildrenFirst(t *testing.T) {
	for _, scope := range []Scope{OneForOne, AllForOne} {
		t.Run(scope.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				deep := spec{name: "b", children: []spec{{name: "c"}}}
				r.root(spec{name: "daemon", policy: &Policy{Scope: scope, Limit: 1}, children: []spec{{name: "a", children: []spec{deep}}}})
				settle()
				release := make(chan struct{})
				r.send("daemon/a/b/c", do(func(actor.Context) { <-release }))
				settle()
				r.send("daemon/a", "boom", "x")
				settle()
				r.clock.advance(0)
				settle()
				require.Equal(t, []string{"a#1 started", "a#1 got boom", "a#1 restarting"}, r.of("a"), "waits for its children")
				r.forget()
				close(release)
				settle()
				require.Equal(t, []string{
					"c#1 stopping", "c#1 stopped", "b#1 terminated daemon/a/b/c", "b#1 stopped",
					"a#1 terminated daemon/a/b", "a#2 started",
				}, r.of()[:6])
				require.Equal(t, []string{"a#1 terminated daemon/a/b", "a#2 started", "a#2 got x"}, r.of("a"))
				require.Equal(t, []string{"b#2 started"}, r.of("b")[2:])
				require.Equal(t, []string{"c#2 started"}, r.of("c")[2:])
			})
		})
	}
}

// TestPanicInStarted is pitfall P6: the delays double and the restarts end; the parent gets
// Terminated and continues.
func TestPanicInStarted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		policy := &Policy{Backoff: second, BackoffMax: 3 * second, Limit: 4, Window: time.Hour}
		r.root(spec{name: "daemon", policy: policy, children: []spec{{name: "a", react: panicOn[*actor.Started]("no disk")}}})
		for range 20 {
			settle()
			r.clock.advance(second)
		}
		settle()
		require.Equal(t, []string{
			"daemon/a restart 1 1s", "daemon/a restart 2 2s", "daemon/a restart 3 3s", "daemon/a restart 4 3s",
			"daemon/a stop 5 0s",
		}, r.failures())
		require.Equal(t, []string{"a#5 started", "a#5 stopping", "a#5 stopped"}, r.of("a")[8:])
		require.Equal(t, []string{"daemon#1 started", "daemon#1 terminated daemon/a"}, r.of("daemon"))
		r.send("daemon", "x")
		settle()
		require.Equal(t, "daemon#1 got x", r.of("daemon")[2])
		require.Zero(t, r.clock.waiting())
	})
}

func TestJitterIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var random uint64
		r := newRig(t, func(o *Options) { o.Rand = func() uint64 { random += uint64(second); return random } })
		r.root(spec{name: "daemon", policy: &Policy{Backoff: 10 * second, Limit: 9}, children: []spec{{name: "a"}}})
		settle()
		for range 2 {
			r.send("daemon/a", "boom")
			settle()
			r.clock.advance(10 * second)
			settle()
		}
		require.Equal(t, []string{"daemon/a restart 1 6s", "daemon/a restart 2 7s"}, r.failures())
	})
}

// TestAllForOne: the group is restarted once, and handles no message meanwhile.
func TestAllForOne(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		policy := &Policy{Scope: AllForOne, Backoff: second, Limit: 2, Window: time.Minute}
		writers := []spec{{name: "writer"}}
		r.root(spec{name: "core", policy: policy, children: []spec{{name: "a"}, {name: "b", children: writers}, {name: "c"}}})
		settle()
		release := make(chan struct{})
		r.send("core/c", do(func(actor.Context) { <-release; panic("c too") }), "c1")
		settle()
		r.send("core/a", "boom", "a1")
		settle()
		r.send("core/b", "b1")
		close(release)
		settle()
		require.Equal(t, []string{"b#1 started"}, r.of("b"), "b waits")
		require.Equal(t, []string{"core/a restart 1 1s", "core/c ignore 1 0s"}, r.failures())
		require.Equal(t, 1, r.clock.waiting())

		r.clock.advance(second)
		settle()
		r.send("core/c", "c2")
		settle()
		require.Equal(t, []string{"a#1 started", "a#1 got boom", "a#1 restarting", "a#2 started", "a#2 got a1"}, r.of("a"))
		require.Equal(t, []string{"b#1 started", "b#1 restarting", "b#1 terminated core/b/writer", "b#2 started", "b#2 got b1"}, r.of("b"))
		require.Equal(t, []string{"c#1 started", "c#1 restarting", "c#2 started", "c#2 got c1", "c#2 got c2"}, r.of("c"))
		require.Equal(t, []string{"writer#1 started", "writer#1 stopping", "writer#1 stopped", "writer#2 started"}, r.of("writer"))
		require.Equal(t, []string{"core#1 started"}, r.of("core"))
		require.Zero(t, r.clock.waiting())
	})
}

// TestAllForOneCountsTogether: one failure of each of three children counts as three.
func TestAllForOneCountsTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		policy := &Policy{Scope: AllForOne, Backoff: second, Limit: 2, Window: time.Minute}
		r.root(spec{name: "core", policy: policy, children: []spec{{name: "a"}, {name: "b"}, {name: "c"}}})
		settle()
		for _, child := range []string{"core/a", "core/b", "core/c"} {
			r.send(child, "boom")
			settle()
			r.clock.advance(second)
			settle()
		}
		require.Equal(t, []string{"core/a restart 1 1s", "core/b restart 2 1s", "core/c stop 3 0s"}, r.failures())
		require.ElementsMatch(t, []string{"core#1 terminated core/a", "core#1 terminated core/b", "core#1 terminated core/c"}, r.of("core")[1:])

		// Children spawned later start with no failures.
		r.send("core", do(func(c actor.Context) { c.SpawnNamed(r.props(spec{name: "a"}), "a") }))
		settle()
		r.send("core/a", "boom")
		settle()
		require.Equal(t, "core/a restart 1 1s", r.failures()[3])
	})
}

func TestOneForOneCountsApart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", policy: &Policy{Limit: 1}, children: []spec{{name: "a"}, {name: "b"}}})
		settle()
		for _, child := range []string{"daemon/a", "daemon/b", "daemon/b"} {
			r.send(child, "boom")
			settle()
			r.clock.advance(0)
			settle()
		}
		require.Equal(t, []string{"daemon/a restart 1 0s", "daemon/b restart 1 0s", "daemon/b stop 2 0s"}, r.failures())
		r.send("daemon/a", "x")
		settle()
		require.Contains(t, r.of("a"), "a#2 got x")
	})
}

// TestEscalate: the supervisor fails and is restarted with all actors below it.
func TestEscalate(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", policy: &Policy{Limit: 1}, children: []spec{
			{name: "core", policy: &Policy{Scope: AllForOne, OnGiveUp: Escalate}, children: []spec{{name: "a"}, {name: "b"}}},
		}})
		settle()
		r.send("daemon/core/a", "boom", "lost with its actor")
		settle()
		r.send("daemon/core/b", "lost too")
		settle()
		require.Equal(t, []string{"daemon/core/a escalate 1 0s", "daemon/core restart 1 0s"}, r.failures())
		r.clock.advance(0)
		settle()
		require.Equal(t, []string{"core#1 started", "core#1 restarting"}, r.of("core")[:2])
		require.Equal(t, "core#2 started", r.of("core")[4])
		require.Equal(t, []string{"b#1 started", "b#1 stopping", "b#1 stopped", "b#2 started"}, r.of("b"))
		require.EqualValues(t, 2, r.env.DeadLetters(), "a queue does not outlive its actor")

		r.send("daemon/core/b", "boom")
		settle()
		require.Equal(t, []string{"daemon/core/b escalate 1 0s", "daemon/core stop 2 0s"}, r.failures()[2:])
		require.Equal(t, []string{"daemon#1 started", "daemon#1 terminated daemon/core"}, r.of("daemon"))
	})
}

// TestEscalateToTheTop stops the root and closes done.
func TestEscalateToTheTop(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, done := r.root(spec{name: "daemon", policy: &Policy{OnGiveUp: Escalate}, children: []spec{{name: "a"}}})
		settle()
		r.send("daemon/a", "boom")
		settle()
		require.True(t, isClosed(done))
		require.Equal(t, []string{"daemon/a escalate 1 0s", "daemon stop 1 0s"}, r.failures())
	})
}

// TestChildStoppedWhileRestartIsDue: neither the stopped child nor a later child of its
// name is restarted.
func TestChildStoppedWhileRestartIsDue(t *testing.T) {
	for _, scope := range []Scope{OneForOne, AllForOne} {
		t.Run(scope.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.root(spec{name: "daemon", policy: &Policy{Scope: scope, Backoff: second, Limit: 5}, children: []spec{{name: "a"}},
					react: func(c actor.Context) {
						if _, ok := c.Message().(*actor.Terminated); ok {
							c.SpawnNamed(r.props(spec{name: "a"}), "a")
						}
					}})
				settle()
				r.send("daemon/a", "boom")
				settle()
				r.send("daemon", do(func(c actor.Context) { c.Stop(c.Children()[0]) }))
				settle()
				r.clock.advance(time.Minute)
				settle()
				r.send("daemon/a", "x")
				settle()
				require.Equal(t, []string{
					"a#1 started", "a#1 got boom", "a#1 stopping", "a#1 stopped", "a#2 started", "a#2 got x",
				}, r.of("a"))
			})
		})
	}
}

// TestSupervisorGoneWhileRestartIsDue: a due restart is dropped when the supervisor stops,
// or restarts with children of the same names.
func TestSupervisorGoneWhileRestartIsDue(t *testing.T) {
	for _, scope := range []Scope{OneForOne, AllForOne} {
		tree := spec{name: "daemon", policy: &Policy{Limit: 1}, children: []spec{
			{name: "core", policy: &Policy{Scope: scope, Backoff: second, Limit: 5}, children: []spec{{name: "a"}}},
		}}
		t.Run("restarted "+scope.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.root(tree)
				settle()
				r.send("daemon/core/a", "boom")
				settle()
				r.send("daemon/core", "boom")
				settle()
				r.clock.advance(0)
				settle()
				r.clock.advance(time.Minute)
				settle()
				r.send("daemon/core/a", "x")
				settle()
				require.Equal(t, []string{
					"a#1 started", "a#1 got boom", "a#1 stopping", "a#1 stopped", "a#2 started", "a#2 got x",
				}, r.of("a"))
			})
		})
		t.Run("stopped "+scope.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				_, done := r.root(tree)
				settle()
				r.send("daemon/core/a", "boom")
				settle()
				r.env.System().Root.Stop(r.env.PID("daemon"))
				settle()
				require.True(t, isClosed(done))
				r.clock.advance(time.Minute)
				settle()
				require.Equal(t, []string{"a#1 started", "a#1 got boom", "a#1 stopping", "a#1 stopped"}, r.of("a"))
				require.Equal(t, []string{"core#1 started", "core#1 stopping", "core#1 terminated daemon/core/a", "core#1 stopped"}, r.of("core"))
			})
		})
	}
}

// TestChildStoppingWhileGroupRestarts: the stopping child stops, the others restart.
func TestChildStoppingWhileGroupRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		policy := &Policy{Scope: AllForOne, Backoff: second, Limit: 5}
		r.root(spec{name: "core", policy: policy, children: []spec{{name: "a"}, {name: "b", children: []spec{{name: "slow"}}}}})
		settle()
		release := make(chan struct{})
		r.send("core/b/slow", do(func(actor.Context) { <-release }))
		settle()
		r.send("core", do(func(c actor.Context) { c.Stop(r.env.PID("core/b")) }))
		settle()
		r.send("core/a", "boom")
		settle()
		r.clock.advance(second)
		settle()
		close(release)
		settle()
		require.Equal(t, []string{"a#1 started", "a#1 got boom", "a#1 restarting", "a#2 started"}, r.of("a"))
		require.Equal(t, []string{"b#1 started", "b#1 stopping", "b#1 terminated core/b/slow", "b#1 stopped"}, r.of("b"))
	})
}

// TestLateSpawnJoinsGroupRestart: a child spawned between failure and restart is restarted
// too.
func TestLateSpawnJoinsGroupRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "core", policy: &Policy{Scope: AllForOne, Backoff: second, Limit: 5}, children: []spec{{name: "a"}}})
		settle()
		r.send("core/a", "boom")
		settle()
		late := spec{name: "b", children: []spec{{name: "slow"}}}
		r.send("core", do(func(c actor.Context) { c.SpawnNamed(r.props(late), "b") }))
		settle()
		release := make(chan struct{})
		r.send("core/b/slow", do(func(actor.Context) { <-release }))
		settle()
		r.clock.advance(second)
		settle()
		r.send("core/b", "x")
		settle()
		require.Equal(t, []string{"b#1 started", "b#1 restarting"}, r.of("b"))
		close(release)
		settle()
		require.Equal(t, []string{"b#1 terminated core/b/slow", "b#2 started", "b#2 got x"}, r.of("b")[2:])
	})
}

// TestFailureBelowLeavingSupervisor: the failure is ignored; escalation would restart
// actors without a fault.
func TestFailureBelowLeavingSupervisor(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		everything := &Policy{Scope: AllForOne, Limit: 5}
		r.root(spec{name: "daemon", policy: everything, children: []spec{
			{name: "innocent"},
			{name: "core", policy: &Policy{OnGiveUp: Escalate}, children: []spec{{name: "a"}}},
		}})
		settle()
		release := make(chan struct{})
		r.send("daemon/core/a", do(func(actor.Context) { <-release; panic("late") }))
		settle()
		r.env.System().Root.Stop(r.env.PID("daemon/core"))
		settle()
		close(release)
		settle()
		r.clock.advance(time.Minute)
		settle()
		require.Equal(t, []string{"daemon/core/a ignore 0 0s"}, r.failures())
		require.Equal(t, []string{"core#1 started", "core#1 stopping", "core#1 terminated daemon/core/a", "core#1 stopped"}, r.of("core"))
		require.Equal(t, []string{"innocent#1 started"}, r.of("innocent"))
	})
}

// TestChildFailedIsPublished: metrics subscribe to ChildFailed.
func TestChildFailedIsPublished(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var events []*ChildFailed
		r.env.System().EventStream.Subscribe(func(e any) {
			if failed, ok := e.(*ChildFailed); ok {
				events = append(events, failed)
			}
		})
		r.root(spec{name: "daemon", policy: &Policy{Backoff: second, Limit: 1}, children: []spec{{name: "a"}}})
		settle()
		r.send("daemon/a", "boom")
		settle()
		require.Len(t, events, 1)
		require.Equal(t, "daemon/a", events[0].Child.Id)
		require.Equal(t, "panic of a#1", events[0].Reason)
		require.Equal(t, ChildFailed{Child: events[0].Child, Reason: events[0].Reason, Directive: Restart, Attempt: 1, Delay: second}, *events[0])
	})
}

// eagerClock runs timers at once.
type eagerClock struct{ *fakeClock }

func (eagerClock) AfterFunc(_ time.Duration, f func()) (stop func() bool) {
	go f()
	return func() bool { return false }
}

// TestGroupUnderFire: after many failures during traffic no actor is suspended, lost or
// doubled, and each message was handled or lost in a panic.
func TestGroupUnderFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *Options) { o.Clock = eagerClock{newFakeClock()} })
		group := &Policy{Scope: AllForOne, Limit: 1 << 30}
		leaf := []spec{{name: "leaf"}}
		r.root(spec{name: "core", policy: group, children: []spec{
			{name: "a", children: leaf}, {name: "b", children: leaf}, {name: "c"},
		}})
		settle()
		const rounds = 60
		for _, child := range []string{"core/a", "core/b", "core/c"} {
			go func() {
				for i := range rounds {
					r.send(child, fmt.Sprintf("%d", 2*i), fmt.Sprintf("boom%d", 2*i+1))
				}
			}()
		}
		settle()
		for _, child := range []string{"a", "b", "c"} {
			var got []string
			for _, line := range r.of(child) {
				if _, m, ok := strings.Cut(line, " got "); ok {
					got = append(got, strings.TrimPrefix(m, "boom"))
				}
			}
			var want []string
			for i := range 2 * rounds {
				want = append(want, fmt.Sprint(i))
			}
			require.Equal(t, want, got, "in order, nothing lost, nothing twice")
			answer, err := r.env.System().Root.RequestFuture(r.env.PID("core/"+child), "x", -1).Result()
			require.NoError(t, err)
			require.Equal(t, "re x", answer)
		}
		require.Len(t, r.env.Mailboxes(), 6)
		require.Zero(t, r.env.DeadLetters())
	})
}
