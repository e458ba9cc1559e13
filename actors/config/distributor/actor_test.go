package distributor_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/distributor"
	"lockstep/actors/kittest"
	"lockstep/core/distribution"
)

// all are the calls after a change of ssconf, with the newest serial number.
var all = []string{"n1 ssconf 0", "n2 config.data 0", "n2 ssconf 0"}

func TestAChangeIsSentAndAwaited(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.distribute()
		require.Equal(t, all, b.calls())
		number := b.await()
		b.end("n1", nil)
		b.client.Quiet()
		b.end("n2", nil)
		b.requireAnswered(number)
		b.requireAnswered(b.await())
		b.number--
		b.requireAnswered(b.await()) // the number is free after the answer

		m := b.nodes()
		require.Equal(t, b.config.Serial, m.Serial)
		has := distribution.FileState{Wanted: true, Serial: b.config.Serial}
		require.Equal(t, []distribution.NodeState{
			{UUID: "n1", Name: "n1", Address: "192.0.2.1", Role: distribution.Master, Ssconf: has},
			{UUID: "n2", Name: "n2", Address: "192.0.2.2", Role: distribution.Candidate, ConfigFile: has, Ssconf: has},
		}, m.Nodes)
	})
}

// During calls only the newest state is kept for later.
func TestNewestWins(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.distribute()
		for range 3 {
			b.change()
			b.distribute()
		}
		require.Equal(t, []string{"n1 ssconf -3", "n2 config.data -3", "n2 ssconf -3"}, b.calls())
		b.Advance(time.Second)
		b.end("", nil)
		require.Equal(t, all, b.calls())
	})
}

// A node daemon that restarts gets the change, and the answer waits for that.
func TestARestartingNodeDaemon(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.distribute()
		b.end("", nil)
		b.Advance(time.Minute)
		b.change()
		b.distribute()
		number := b.await()
		b.end("n1", nil)
		b.end("n2", errLost)
		require.Empty(t, b.calls())
		n2 := b.nodes().Nodes[1]
		require.Equal(t, errLost, n2.Ssconf.Err)
		require.Equal(t, uint64(1), n2.Ssconf.Behind)
		require.Equal(t, b.Clock.Now().Add(200*time.Millisecond), n2.Ssconf.RetryAt)
		b.Advance(200 * time.Millisecond)
		b.client.Quiet()
		b.end("n2", nil)
		b.requireAnswered(number)
		require.Len(t, b.Logged("distribution to a node failed; it is repeated"), 2)
		require.Len(t, b.Logged("distribution to a node succeeded after failures"), 2)
	})
}

// An answer waits 5 s for a node daemon that does not return, and the distribution goes on.
func TestADeadNodeDaemon(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.distribute()
		number := b.await()
		b.end("n1", nil)
		for range 25 {
			b.end("n2", errLost)
			b.Advance(199 * time.Millisecond)
			b.client.Quiet()
		}
		b.Advance(100 * time.Millisecond)
		b.requireAnswered(number)
		b.Advance(time.Minute)
		require.Equal(t, all[1:], b.calls())
		require.Len(t, b.Logged("distribution to a node failed; it is repeated"), 2, "once per kind")
	})
}

// The next incarnation asks its clients for everything, sends it again, and ignores results and timers of the former one.
func TestCrash(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.distribute()
		b.end("n1", errLost) // starts a timer
		number := b.await()
		b.Crash(b.distributor)
		former := b.daemons.open
		b.daemons.open = nil
		b.Advance(kittest.Backoff)
		require.Equal(t, &distributor.Started{Incarnation: 2}, kittest.Expect[*distributor.Started](b.client))
		require.Zero(t, b.nodes().Serial)
		require.Empty(t, b.calls(), "nothing is sent before the newest configuration is known")

		again := &distributor.Await{Request: number}
		b.client.Ask(b.distributor, again)
		b.client.Ask(b.distributor, again)
		b.distribute()
		require.Equal(t, all, b.calls())
		for _, c := range former {
			c.done(distribution.Result{})
		}
		b.Settle()
		require.Equal(t, uint64(1), b.nodes().Nodes[1].Ssconf.Behind)
		b.end("", nil)
		b.requireAnswered(number)
		b.client.Quiet()
	})
}

// Messages that the crash left in the mailbox do no harm: the configuration comes again, and the question has one answer.
func TestMessagesOfBeforeTheCrash(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.Crash(b.distributor)
		b.distribute()
		number := b.await()
		b.Advance(kittest.Backoff)
		kittest.Expect[*distributor.Started](b.client)
		b.distribute()
		b.client.Ask(b.distributor, &distributor.Await{Request: number})
		require.Equal(t, uint64(1), b.nodes().Nodes[0].Ssconf.Behind)
		b.end("", nil)
		b.requireAnswered(number)
		b.client.Quiet()
	})
}

// Equal numbers of two clients are two questions.
func TestTwoClients(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		other := b.Probe("other")
		b.distribute()
		number := b.await()
		other.Ask(b.distributor, &distributor.Await{Request: number})
		b.end("", nil)
		b.requireAnswered(number)
		require.Equal(t, number, kittest.Expect[*distributor.AwaitResult](other).Request)
		other.Ask(b.distributor, &distributor.Announce{})
		require.Equal(t, &distributor.Started{Incarnation: 1}, kittest.Expect[*distributor.Started](other))
	})
}

// A flush sends what nodes have acknowledged again.
func TestForce(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.distribute()
		b.end("", nil)
		b.client.Ask(b.distributor, &distributor.Await{Request: 1, Group: "g", Force: true})
		b.Settle()
		require.Equal(t, all, b.calls())
		b.end("", nil)
		b.requireAnswered(1)
		b.client.Ask(b.distributor, &distributor.Await{Request: 2, Group: "no group", Force: true})
		b.requireAnswered(2)
	})
}

// customer is an actor with a Client.
type customer struct {
	*distributor.Client
	done chan string // names of answered questions
}

// ask makes a customer ask a question.
type ask struct{ group, name string }

func (c *customer) Receive(ctx actor.Context) {
	if c.Handle(ctx) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.Connect(ctx)
	case *distributor.Distribute:
		c.Distribute(ctx, m.Config)
	case ask:
		c.Await(ctx, m.group, false, func(actor.Context) { c.done <- m.name })
	}
}

func (b *bench) customer(d *actor.PID) (*actor.PID, chan string) {
	done := make(chan string, 10)
	pid := b.Start("customer", b.Props("customer", func() actor.Actor {
		return &customer{Client: distributor.NewClient(d, 1), done: done}
	}))
	return pid, done
}

// A Client tells each incarnation of the distributor everything, and each question is answered once.
func TestClient(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e, daemons: &daemons{}, client: e.Probe("client"), config: twoNodes(t)}
		path := "above-distributor/distributor"
		customer, done := b.customer(e.PID(path))
		b.Send(customer, &distributor.Distribute{Config: b.config})
		b.Send(customer, ask{"", "first"})
		b.distributor = e.Start("distributor", distributor.Props(distributor.Config{Env: e.Env, Daemons: b.daemons,
			Clients: []*actor.PID{customer}, Software: "3.0.2"}))
		b.Settle()
		require.Equal(t, all, b.calls())

		b.Crash(b.distributor)
		b.daemons.open = nil
		b.change()
		b.Send(customer, &distributor.Distribute{Config: b.config})
		b.Send(customer, ask{"", "second"})
		b.Advance(kittest.Backoff)
		require.Equal(t, all, b.calls())
		b.Send(customer, ask{"no group", "third"})
		b.Settle()
		require.Equal(t, "third", <-done)
		require.Empty(t, done)
		b.end("", nil)
		require.ElementsMatch(t, []string{"first", "second"}, []string{<-done, <-done})
		b.Advance(time.Minute)
		require.Empty(t, done)
	})
}

// A Client sends nothing twice to one incarnation, which may have announced itself twice.
func TestClientSendsOnce(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e, config: twoNodes(t)}
		fake := e.Probe("fake")
		customer, done := b.customer(fake.PID)
		b.Send(customer, &distributor.Distribute{Config: b.config})
		b.Send(customer, ask{"", "first"})
		require.Equal(t, []any{&distributor.Announce{}}, fake.Unread())
		b.Send(customer, &distributor.Started{Incarnation: 1})
		b.Send(customer, &distributor.Started{Incarnation: 1})
		number := uint64(1)<<32 + 1
		require.Equal(t, []any{&distributor.Distribute{Config: b.config}, &distributor.Await{Request: number}}, fake.Unread())
		b.Send(customer, &distributor.AwaitResult{Request: number})
		b.Send(customer, &distributor.AwaitResult{Request: number})
		require.Equal(t, "first", <-done)
		b.Send(customer, &distributor.Started{Incarnation: 2})
		require.Equal(t, []any{&distributor.Distribute{Config: b.config}}, fake.Unread())
		require.Empty(t, done)
	})
}

// Without a distributor nothing waits.
func TestClientWithoutDistributor(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e}
		customer, done := b.customer(nil)
		b.Send(customer, &distributor.Distribute{})
		b.Send(customer, ask{"", "first"})
		b.Settle()
		require.Equal(t, "first", <-done)
	})
}
